//! A file that is read again gives requests other names: by routes, surfaces, presets, tenants. A retry finds what was begun
//! under the old name all the same.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::support::{Answer, Conn, Dir, Gateway, Reply, Start, Upstream, request, until};

fn file(upstream: &Upstream, rest: &str) -> String {
    format!("[gateway]\nupstream = \"http://{}\"\n{rest}", upstream.address)
}

fn reload(dir: &Dir, gateway: &Gateway, text: &str) {
    let reloads = || gateway.said().iter().filter(|line| line.contains("hapax: reloaded")).count();
    let before = reloads();
    dir.write("hapax.toml", text);
    gateway.signal("HUP");
    until("the reload", || reloads() > before);
}

fn pay(gateway: &Gateway, key: &str) -> Answer {
    pay_as(gateway, "one", key, "{}")
}

fn pay_as(gateway: &Gateway, who: &str, key: &str, body: &str) -> Answer {
    let who = format!("Bearer {who}");
    let headers = [("Idempotency-Key", key), ("Authorization", &who), ("Content-Type", "application/json")];
    Conn::to(gateway.address).send(request("POST", "/pay/7", &headers, body)).answer()
}

/// What may stand in the file, and give the same request another name.
const FILES: [&str; 5] = [
    "",
    "[[route]]\nmatch = \"POST /pay/{number}\"\n",
    "[[route]]\nmatch = \"POST /pay/{number}\"\nsurface = \"payments\"\n",
    "[surface.http]\npreset = \"stripe\"\n",
    "[[route]]\nmatch = \"POST /pay/7\"\n",
];

/// A charge was made and its client did not hear of it; then its operator writes down a route. The retry gets the answer of the
/// charge, under each file and from each to each.
#[test]
fn what_was_done_before_a_reload_is_given_again_after_it() {
    let upstream = Upstream::counting();
    for (number, before) in FILES.iter().enumerate() {
        let dir = Dir::new();
        let gateway = Start::at(&dir).file(&file(&upstream, before)).go();
        let asked = upstream.count();
        let first = pay(&gateway, "k");
        assert_eq!((first.status, first.is_replay()), (201, false), "{before}");
        for after in FILES.iter().cycle().skip(number + 1).take(4) {
            reload(&dir, &gateway, &file(&upstream, after));
            let again = pay(&gateway, "k");
            assert_eq!(
                (again.status, again.is_replay()),
                (201, true),
                "from {before:?} to {after:?}: {}",
                again.text()
            );
            assert_eq!(again.text(), first.text());
        }
        assert_eq!(upstream.count(), asked + 1, "{before}");
        assert_eq!(pay(&gateway, "another").status, 201);
        assert_eq!(upstream.count(), asked + 2, "others run");
    }
}

/// The same while the charge is under way: the retry waits for it.
#[test]
fn what_is_under_way_during_a_reload_is_not_begun_again() {
    for after in &FILES[1..] {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let upstream = Upstream::new(move |_, number, _| {
            let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(20));
            Reply::json(201, &format!("{{\"charge\":{number}}}"))
        });
        let dir = Dir::new();
        let gateway = Start::at(&dir).file(&file(&upstream, "")).go();
        thread::scope(|scope| {
            let first = scope.spawn(|| pay(&gateway, "k"));
            until("the upstream to be asked", || upstream.count() == 1);
            reload(&dir, &gateway, &file(&upstream, after));
            let again = scope.spawn(|| pay(&gateway, "k"));
            thread::sleep(Duration::from_millis(300));
            go.send(()).unwrap();
            let (first, again) = (first.join().unwrap(), again.join().unwrap());
            assert_eq!((first.status, again.status), (201, 201), "{after:?}: {}", again.text());
            assert_eq!((again.is_replay(), again.text()), (true, first.text()), "{after:?}");
        });
        assert_eq!(upstream.count(), 1, "{after:?}");
    }
}

/// An operator has watched for a while and begins to enforce, or goes back to watching. What was recorded in the shadow stops nobody, and
/// nobody is stopped in it; as long as it is enforced, what is sent again is not run again. Also where the preset changes along, and with it the names.
#[test]
fn shadows_decide_nothing_after_a_reload_and_nothing_is_decided_in_them() {
    let (shadow, stripe) = ("[default]\nmode = \"shadow\"\n", "preset = \"stripe\"\n");
    watched_and_enforced(shadow, "");
    watched_and_enforced(&format!("{shadow}{stripe}"), "");
    watched_and_enforced(shadow, &format!("[default]\n{stripe}"));
}

fn watched_and_enforced(watched: &str, enforced: &str) {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(&file(&upstream, watched)).go();
    let run = |key| {
        let before = upstream.count();
        let answer = pay(&gateway, key);
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.is_replay(), upstream.count() == before);
        !answer.is_replay()
    };
    assert_eq!([run("watched"), run("watched")], [true, true]);
    reload(&dir, &gateway, &file(&upstream, enforced));
    assert_eq!([run("new"), run("new"), run("new")], [true, false, false]);
    assert_eq!([run("watched"), run("watched")], [true, false]);
    reload(&dir, &gateway, &file(&upstream, watched));
    assert_eq!([run("new"), run("watched"), run("new")], [true, true, true]);
    reload(&dir, &gateway, &file(&upstream, enforced));
    assert_eq!([run("new"), run("watched"), run("newer"), run("newer")], [false, false, true, false]);
}

/// The file is read again and again, and says the same: that pushes nothing out of memory.
#[test]
fn reloads_that_change_nothing_are_not_counted() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(&file(&upstream, FILES[0])).go();
    assert_eq!(pay(&gateway, "k").status, 201);
    for _ in 0..4 {
        for text in &FILES[1..3] {
            reload(&dir, &gateway, &file(&upstream, text));
        }
    }
    for _ in 0..6 {
        reload(&dir, &gateway, &file(&upstream, FILES[2]));
    }
    assert!(pay(&gateway, "k").is_replay());
    assert_eq!(upstream.count(), 1);
}

/// A charge that was turned away for now is tried again after a reload: under the name that it had, as its second attempt, so that a
/// provider downstream is sent one key for both.
#[test]
fn what_may_be_tried_again_is_tried_under_the_name_that_it_had() {
    let upstream = Upstream::new(|_, number, _| Reply::json(if number == 0 { 503 } else { 201 }, "{}"));
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(&file(&upstream, FILES[0])).go();
    assert_eq!(pay(&gateway, "k").status, 503);
    reload(&dir, &gateway, &file(&upstream, FILES[1]));
    assert_eq!(pay(&gateway, "k").status, 201);
    let listed = std::process::Command::new(env!("CARGO_BIN_EXE_hapax"))
        .current_dir(dir.path())
        .args(["op", "list", "--json"])
        .output()
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{listed}");
    assert_eq!((&items[0]["attempt"], &items[0]["state"]), (&2.into(), &"committed".into()), "{listed}");
    assert!(pay(&gateway, "k").is_replay());
}

/// All customers were one tenant, by mistake, and the file is put right. What was done for one of them is not done again, and is
/// shown to nobody any more: whose it was nobody can say. Who asks for something else is served.
#[test]
fn when_tenants_come_to_be_told_apart_nobody_is_shown_what_was_anybodys() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::new(move |_, number, _| {
        if number == 1 {
            let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
        Reply::json(201, &format!("{{\"secret of charge\":{number}}}"))
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(&file(&upstream, "tenant = \"fixed:all\"\n")).go();
    assert_eq!(pay(&gateway, "done").status, 201);
    thread::scope(|scope| {
        let under_way = scope.spawn(|| pay(&gateway, "under-way"));
        until("the second charge to be under way", || upstream.count() == 2);
        reload(&dir, &gateway, &file(&upstream, ""));
        for who in ["one", "two"] {
            let told = pay_as(&gateway, who, "done", "{}");
            assert!(
                told.status == 409 && told.says("already_completed") && told.says("not run again"),
                "{}",
                told.text()
            );
            let told = pay_as(&gateway, who, "under-way", "{}");
            assert!(told.status == 409 && told.says("in_flight"), "{}", told.text());
        }
        go.send(()).unwrap();
        assert_eq!(under_way.join().unwrap().status, 201);
    });
    for key in ["done", "under-way"] {
        let told = pay_as(&gateway, "two", key, "{}");
        assert!(told.status == 409 && !told.text().contains("secret"), "{}", told.text());
        // Their own charge, under a key that somebody else happened to use.
        assert_eq!(pay_as(&gateway, "two", key, "{\"mine\":true}").status, 201);
    }
    assert_eq!(upstream.count(), 4);
}

/// The file changes to and fro while ten at a time ask for the same: at every moment some have been named by the old routes and not
/// begun yet, and others are named by the new ones.
#[test]
fn a_storm_of_reloads_makes_nothing_happen_twice() {
    const KEYS: usize = 150;
    let charged: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let upstream = Upstream::new({
        let charged = Arc::clone(&charged);
        move |asked, _, _| {
            *charged.lock().unwrap().entry(asked.header("idempotency-key").unwrap().to_owned()).or_default() += 1;
            Reply::json(201, "{}")
        }
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).file(&file(&upstream, FILES[0])).go();
    let (done, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for text in FILES[..2].iter().cycle().skip(1) {
                if done.load(SeqCst) {
                    break;
                }
                dir.write("hapax.toml", &file(&upstream, text));
                gateway.signal("HUP");
                thread::sleep(Duration::from_millis(7));
            }
        });
        let asking = || {
            // Ten of them ask for each.
            loop {
                let key = next.fetch_add(1, SeqCst) / 10;
                if key >= KEYS {
                    break;
                }
                let mut answer = pay(&gateway, &format!("k{key}"));
                while matches!(answer.status, 409 | 503) {
                    answer = pay(&gateway, &format!("k{key}"));
                }
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        };
        let workers: Vec<_> = (0..10).map(|_| scope.spawn(asking)).collect();
        let ended: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, SeqCst);
        assert!(ended.iter().all(Result::is_ok));
    });
    let reloads = gateway.said().iter().filter(|line| line.contains("hapax: reloaded")).count();
    assert!(reloads > 5, "{reloads}");
    let charged = charged.lock().unwrap();
    let twice: Vec<_> = charged.iter().filter(|(_, times)| **times != 1).collect();
    assert!(charged.len() == KEYS && twice.is_empty(), "{} keys, {reloads} reloads, {twice:?}", charged.len());
}
