//! Whatever an upstream does, the record says what is known, and started work is never sent twice.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
};

use crate::support::{Conn, Dir, Gateway, Reply, Start, Upstream, get, post, request, until};

fn timed(dir: &Dir, upstream: &Upstream, timing: &str) -> Gateway {
    Start::at(dir).file(&format!("[upstream.default]\nurl = \"http://{}\"\n{timing}\n", upstream.address)).go()
}

fn is_in_doubt(gateway: &Gateway, key: &str) {
    for _ in 0..2 {
        let answer = post(gateway.address, "/pay", key, "{}");
        assert_eq!(answer.status, 409, "{}", answer.text());
        assert!(answer.says("\"code\":\"in_doubt\"") && answer.says("\"safe_new_key\":false"), "{}", answer.text());
    }
}

/// Nothing was sent, so nothing was begun: the same key runs as soon as the upstream is there.
#[test]
fn a_refused_connection_leaves_the_key_free() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(address).go();
    let answer = post(gateway.address, "/pay", "k1", "{}");
    assert_eq!(answer.status, 502);
    assert!(
        answer.says("\"safe_new_key\":true") && answer.says("\"next_action\":\"retry_same_key\""),
        "{}",
        answer.text()
    );
    assert_eq!(get(gateway.address, "/").status, 502);
    // Even another request may use the key: nothing of the first was kept.
    let upstream = Upstream::on(TcpListener::bind(address).unwrap(), |_, _, _| Reply::json(200, "{}"));
    let answer = post(gateway.address, "/pay", "k1", "{\"other\":true}");
    assert_eq!((answer.status, answer.is_replay()), (200, false));
    assert_eq!(upstream.count(), 1);
}

/// A connection that lay in the pool was closed by the upstream: the request goes out on a fresh one, and nobody notices.
#[test]
fn a_connection_that_was_closed_while_idle_costs_nobody_anything() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for round in 0..5 {
        assert_eq!(post(gateway.address, "/pay", &format!("k{round}"), "{}").status, 201);
        upstream.close_all();
    }
    assert_eq!(upstream.count(), 5);
}

#[test]
fn connections_are_kept_and_used_again() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    // However slow the machine, none of them lies idle for too long.
    let gateway = timed(&dir, &upstream, "idle = \"60s\"");
    for round in 0..20 {
        assert_eq!(post(gateway.address, "/pay", &format!("k{round}"), "{}").status, 201);
        assert_eq!(get(gateway.address, "/").status, 201);
    }
    assert_eq!(upstream.connections(), 1);
}

/// It read the request and went away. Perhaps it charged the card before.
#[test]
fn an_upstream_that_dies_after_the_first_byte_leaves_doubt() {
    let upstream = Upstream::new(|_, _, _| Reply::Last(Vec::new()));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let answer = post(gateway.address, "/pay", "k1", "{}");
    assert_eq!(answer.status, 502);
    assert!(answer.says("\"safe_new_key\":false"), "{}", answer.text());
    is_in_doubt(&gateway, "k1");
    assert_eq!(upstream.count(), 1);
}

/// A reset and not a goodbye: it closes with most of the request unread, before or after the first byte of its answer.
/// Either way it had the request.
#[test]
fn a_reset_leaves_doubt_before_and_after_the_first_byte_of_an_answer() {
    for said in ["", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                if stream.read_exact(&mut [0]).is_ok() {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(said.as_bytes());
                }
            }
        });
        let dir = Dir::new();
        let gateway = Start::at(&dir).upstream(address).go();
        let answer = post(gateway.address, "/pay", "k1", "{}");
        assert_eq!(answer.status, 502, "{said:?}: {}", answer.text());
        assert!(answer.says("\"safe_new_key\":false"), "{said:?}: {}", answer.text());
        is_in_doubt(&gateway, "k1");
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{said:?}");
    }
}

/// It closes every connection before it has read anything. Whether our bytes were on their way by then is the network's
/// secret; what is certain is that they are not sent again where they may have arrived.
#[test]
fn an_upstream_that_hangs_up_at_once_is_never_asked_twice_on_a_hunch() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            drop(stream);
        }
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(address).go();
    for round in 0..10 {
        let key = format!("k{round}");
        let answer = post(gateway.address, "/pay", &key, "{}");
        assert_eq!(answer.status, 502);
        let safe = answer.says("\"safe_new_key\":true");
        let again = post(gateway.address, "/pay", &key, "{}");
        // Nothing sent: the key is free and it is tried again. Else: in doubt.
        assert_eq!(again.status, if safe { 502 } else { 409 }, "{}", again.text());
    }
}

#[test]
fn an_upstream_that_hangs_is_cut_off_and_leaves_doubt() {
    let (_keep, hang) = mpsc::channel::<()>();
    let hang = std::sync::Mutex::new(hang);
    let upstream = Upstream::new(move |_, _, _| {
        let _ = hang.lock().unwrap().recv();
        Reply::Last(Vec::new())
    });
    let dir = Dir::new();
    let gateway = timed(&dir, &upstream, "first_byte_timeout = \"300ms\"");
    let answer = post(gateway.address, "/pay", "k1", "{}");
    assert_eq!(answer.status, 504);
    assert!(answer.says("\"code\":\"gateway_timeout\""), "{}", answer.text());
    is_in_doubt(&gateway, "k1");
    assert_eq!(upstream.count(), 1);
}

/// The answer comes after we have given up: it is nobody's, and the next request does not get it.
#[test]
fn a_late_answer_is_nobodys() {
    let (go, wait) = mpsc::channel::<()>();
    let (done, written) = mpsc::channel::<()>();
    let (wait, done) = (std::sync::Mutex::new(wait), std::sync::Mutex::new(done));
    let upstream = Upstream::new(move |asked, _, stream| {
        if asked.path != "/pay" {
            return Reply::json(200, &format!("{{\"path\":\"{}\"}}", asked.path));
        }
        let _ = wait.lock().unwrap().recv();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
        let _ = done.lock().unwrap().send(());
        Reply::Bytes(Vec::new())
    });
    let dir = Dir::new();
    let gateway = timed(&dir, &upstream, "first_byte_timeout = \"3s\"");
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 504);
    go.send(()).unwrap();
    written.recv().unwrap();
    for _ in 0..20 {
        assert_eq!(get(gateway.address, "/other").text(), "{\"path\":\"/other\"}");
    }
    is_in_doubt(&gateway, "k1");
    assert_eq!(upstream.asked().iter().filter(|asked| asked.path == "/pay").count(), 1);
}

/// An answer begins and falls silent. It is not waited for without end, with a key or without.
#[test]
fn an_answer_that_falls_silent_is_cut_off() {
    let (_keep, hang) = mpsc::channel::<()>();
    let hang = std::sync::Mutex::new(hang);
    let upstream = Upstream::new(move |asked, _, stream| {
        let head = if asked.path == "/counted" { "Content-Length: 100" } else { "Transfer-Encoding: chunked" };
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n3\r\nabc\r\n");
        let _ = hang.lock().unwrap().recv();
        Reply::Last(Vec::new())
    });
    let dir = Dir::new();
    let gateway = timed(&dir, &upstream, "body_idle_timeout = \"500ms\"");
    for path in ["/counted", "/chunked"] {
        for key in [None, Some(("Idempotency-Key", "k1"))] {
            let headers: Vec<_> = key.into_iter().collect();
            let mut conn = Conn::to(gateway.address);
            conn.send(request("POST", path, &headers, ""));
            match conn.try_answer(false) {
                // With a key and a length it was not passed on before it was whole.
                Ok(answer) => assert_eq!((answer.status, key.is_some()), (502, true), "{path}"),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{path}: it was cut off"),
            }
            if key.is_some() {
                let again = || Conn::to(gateway.address).send(request("POST", path, &headers, "")).answer();
                until("doubt", || again().says("\"code\":\"in_doubt\""));
            }
        }
    }
}

/// A refusal that breaks off is a refusal, whether its length was told or not: the key is free.
#[test]
fn a_refusal_that_breaks_off_leaves_nothing_behind() {
    for length in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let upstream = Upstream::new(move |_, number, _| match number {
            0 => Reply::Last(format!("HTTP/1.1 400 Bad Request\r\n{length}\r\n\r\n3\r\nabc\r\n").into_bytes()),
            _ => Reply::json(200, "{}"),
        });
        let dir = Dir::new();
        let gateway = Start::at(&dir).upstream(upstream.address).go();
        let _ = Conn::to(gateway.address)
            .send(request("POST", "/pay", &[("Idempotency-Key", "k1"), ("Authorization", "Bearer one")], "{}"))
            .try_answer(false);
        until("the key to be free", || {
            let headers = [("Idempotency-Key", "k1"), ("Authorization", "Bearer one")];
            let answer = Conn::to(gateway.address).send(request("POST", "/pay", &headers, "{}")).answer();
            assert!(!answer.says("\"code\":\"in_doubt\""), "{length}: {}", answer.text());
            answer.status == 200
        });
        assert_eq!(upstream.count(), 2, "{length}");
    }
}

/// The head says 200 and the body breaks off: half an answer is none.
#[test]
fn a_broken_body_leaves_doubt() {
    for broken in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nnot a chunk\r\n",
        "HTTP/1.1 200 OK\r\nContent-Len",
        "nonsense\r\n\r\n",
    ] {
        let upstream = Upstream::new(move |_, _, _| Reply::Last(broken.as_bytes().to_vec()));
        let dir = Dir::new();
        let gateway = Start::at(&dir).upstream(upstream.address).go();
        let first = Conn::to(gateway.address)
            .send(request(
                "POST",
                "/pay",
                &[("Idempotency-Key", "k1"), ("Authorization", "Bearer one"), ("Content-Type", "application/json")],
                "{}",
            ))
            .try_answer(false);
        // A chunked answer may have begun to flow; then it breaks off, and does not seem to end.
        if let Ok(answer) = first {
            assert_eq!(answer.status, 502, "{broken:?}");
        }
        until("the end to be recorded", || post(gateway.address, "/pay", "k1", "{}").says("\"code\":\"in_doubt\""));
        assert_eq!(upstream.count(), 1, "{broken:?}");
    }
}

/// Work that may be repeated is: the upstream's death leaves no doubt about it.
#[test]
fn idempotent_work_is_run_again_after_a_broken_try() {
    let upstream = Upstream::new(|_, number, _| match number {
        0 => Reply::Last(Vec::new()),
        _ => Reply::json(200, "{}"),
    });
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"PUT /things/{id}\"\neffect = \"idempotent\"\n";
    let gateway = Start::at(&dir).upstream(upstream.address).file(file).go();
    let ask =
        || Conn::to(gateway.address).send(request("PUT", "/things/1", &[("Idempotency-Key", "k1")], "{}")).answer();
    assert_eq!(ask().status, 502);
    assert_eq!(ask().status, 200);
    assert!(ask().is_replay());
    assert_eq!(upstream.count(), 2);
}

/// The upstream leaves the body of a GET unread and takes it for the next request. It gets no next request on that
/// connection, so nobody receives an answer to what somebody smuggled.
#[test]
fn a_body_that_the_upstream_leaves_unread_poisons_nobodys_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let smuggled = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&smuggled);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                use std::io::BufRead as _;
                let mut writer = stream.try_clone().unwrap();
                let mut lines = std::io::BufReader::new(stream).lines().map_while(Result::ok);
                // Heads only: no length is ever looked at.
                while let Some(first) = lines.next() {
                    if first.is_empty() {
                        continue;
                    }
                    while lines.next().is_some_and(|line| !line.is_empty()) {}
                    let path = first.split(' ').nth(1).unwrap_or("?").to_owned();
                    seen.fetch_or(path == "/smuggled", Ordering::SeqCst);
                    let _ = write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
                }
            });
        }
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(address).go();
    let inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for method in ["GET", "DELETE", "OPTIONS"] {
        for _ in 0..5 {
            let mut conn = Conn::to(gateway.address);
            conn.send(request(method, "/front", &[], inner));
            assert_eq!(conn.answer().text(), "/front");
            assert_eq!(get(gateway.address, "/victim").text(), "/victim");
        }
    }
    assert!(smuggled.load(Ordering::SeqCst), "the upstream is as naive as it has to be for this test");
}

#[test]
fn redirects_are_the_clients_affair() {
    let upstream = Upstream::new(|_, _, _| Reply::with(307, &[("Location", "http://127.0.0.1:1/elsewhere")], ""));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let answer = post(gateway.address, "/pay", "k1", "{}");
    assert_eq!((answer.status, answer.header("location")), (307, Some("http://127.0.0.1:1/elsewhere")));
    assert!(post(gateway.address, "/pay", "k1", "{}").is_replay());
    assert_eq!(upstream.count(), 1);
}
