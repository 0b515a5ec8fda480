//! The places at an upstream are for everybody: whoever has a slow endpoint called a thousand times waits for itself.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::sync::{Mutex, mpsc};

use crate::support::{Answer, Conn, Dir, Gateway, Reply, Start, Upstream, get, request, until};

/// As many as the upstream has places, here.
const PLACES: usize = 8;

fn in_front_of(upstream: &Upstream, dir: &Dir, more: &str) -> Gateway {
    let file = format!("[upstream.default]\nurl = \"http://{}\"\nconnections = {PLACES}\n{more}\n", upstream.address);
    Start::at(dir).file(&file).go()
}

fn asking(method: &str, path: &str, credential: &str, key: Option<&str>) -> String {
    let mut headers = vec![("Authorization", credential)];
    headers.extend(key.map(|key| ("Idempotency-Key", key)));
    request(method, path, &headers, "")
}

fn ask(gateway: &Gateway, method: &str, path: &str, credential: &str, key: Option<&str>) -> Answer {
    Conn::to(gateway.address).send(asking(method, path, credential, key)).answer()
}

/// Sends as many slow requests of one caller as there are places, and waits until each is under way or refused.
fn crowd(gateway: &Gateway, upstream: &Upstream, method: &str, keyed: bool) -> (Vec<Conn>, Vec<Answer>) {
    let (mut under_way, mut refused) = (Vec::new(), Vec::new());
    for number in 0..PLACES {
        let key = format!("{method}-{number}");
        let before = upstream.count();
        let mut conn = Conn::to(gateway.address);
        conn.send(asking(method, "/slow", "Bearer one", keyed.then_some(key.as_str())));
        conn.stream().set_nonblocking(true).unwrap();
        let mut first = [0];
        until("a request to be under way or refused", || {
            upstream.count() > before || conn.stream().peek(&mut first).is_ok()
        });
        conn.stream().set_nonblocking(false).unwrap();
        if upstream.count() > before {
            under_way.push(conn);
        } else {
            refused.push(conn.answer());
        }
    }
    (under_way, refused)
}

/// One caller had its slow endpoint called by as many clients as the upstream has places, and everybody else was told that
/// it is full. Now it fills its own share, with a key or without, and is told so.
#[test]
fn one_tenant_does_not_lock_all_others_out() {
    for (method, keyed) in [("POST", true), ("POST", false), ("GET", false)] {
        let ((upstream, go), dir) = (Upstream::held(), Dir::new());
        let gateway = in_front_of(&upstream, &dir, "");
        let (under_way, refused) = crowd(&gateway, &upstream, method, keyed);
        let other = ask(&gateway, "POST", "/pay", "Bearer two", Some("k1"));
        assert_eq!(other.status, 201, "{method}: {}", other.text());
        assert_eq!(ask(&gateway, "GET", "/pay", "Bearer two", None).status, 201);
        assert_eq!(get(gateway.address, "/pay").status, 201, "somebody without a credential");
        assert_eq!((under_way.len(), refused.len()), (PLACES / 2, PLACES / 2), "{method}");
        for refused in refused {
            assert_eq!(refused.status, 503);
            assert!(refused.says("\"code\":\"unavailable\"") && refused.header("retry-after").is_some());
            assert!(refused.says("requests_per_tenant"), "which limit it was: {}", refused.text());
            assert!(!keyed || refused.says("\"safe_new_key\":true"), "{}", refused.text());
        }
        for _ in &under_way {
            go.send(()).unwrap();
        }
        for mut conn in under_way {
            assert_eq!(conn.answer().status, 201);
        }
        // All of it was given back, and the key of a refused request is as free as before, also for another one.
        go.send(()).unwrap();
        let last = format!("{method}-{}", PLACES - 1);
        let headers = [("Authorization", "Bearer one"), ("Idempotency-Key", last.as_str())];
        let again = Conn::to(gateway.address).send(request("POST", "/slow", &headers, "{\"other\":1}")).answer();
        assert_eq!((again.status, again.is_replay()), (201, false), "{}", again.text());
        let (under_way, _) = crowd(&gateway, &upstream, "PUT", false);
        assert_eq!(under_way.len(), PLACES / 2, "{method}");
    }
}

/// Where all requests are of one tenant there is nobody to leave anything for; and a file may say another number.
#[test]
fn a_share_is_as_large_as_it_is_said() {
    for (file, share) in [
        ("[gateway]\ntenant = \"fixed:shop\"\n", PLACES),
        ("requests_per_tenant = 3\n", 3),
        ("requests_per_tenant = 100\n", PLACES),
    ] {
        let ((upstream, _go), dir) = (Upstream::held(), Dir::new());
        let gateway = in_front_of(&upstream, &dir, file);
        let (under_way, refused) = crowd(&gateway, &upstream, "POST", true);
        assert_eq!((under_way.len(), refused.len()), (share, PLACES - share), "{file}");
    }
}

/// Whether a recorded answer may still be seen is asked on the account of whoever wants to see it.
#[test]
fn asking_whether_a_replay_may_be_seen_counts_too() {
    let (go, wait) = mpsc::sync_channel::<()>(1_000);
    let wait = Mutex::new(wait);
    let upstream = Upstream::new(move |asked, _, _| {
        if asked.path == "/may" && asked.header("authorization") == Some("Bearer one") {
            let _ = wait.lock().unwrap().recv();
        }
        Reply::json(201, "{}")
    });
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "[[route]]\nmatch = \"POST /pay\"\nreauthorize = \"/may\"\n");
    for credential in ["Bearer one", "Bearer two"] {
        assert_eq!(ask(&gateway, "POST", "/pay", credential, Some("k1")).status, 201);
    }
    let before = upstream.count();
    let mut asking_again: Vec<Conn> = (0..PLACES).map(|_| Conn::to(gateway.address)).collect();
    for conn in &mut asking_again {
        conn.send(asking("POST", "/pay", "Bearer one", Some("k1")));
    }
    until("half of the places to be taken", || upstream.count() >= before + PLACES / 2);
    for _ in 0..10 {
        assert!(ask(&gateway, "POST", "/pay", "Bearer two", Some("k1")).is_replay());
    }
    for _ in 0..PLACES {
        go.send(()).unwrap();
    }
    // Nobody could say, or it was a yes; what is certain is that it does not stay so.
    for mut conn in asking_again {
        assert!(matches!(conn.answer().status, 201 | 503));
    }
    go.send(()).unwrap();
    assert!(ask(&gateway, "POST", "/pay", "Bearer one", Some("k1")).is_replay());
}
