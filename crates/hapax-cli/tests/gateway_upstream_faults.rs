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

/// The first try reached the upstream, and may have taken effect there. Then the upstream is gone. That nothing was sent
/// this time is no promise that nothing happened: a new key could make it happen twice.
#[test]
fn a_new_key_is_not_called_safe_after_a_try_that_may_have_taken_effect() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
    });
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"PUT /things/{id}\"\neffect = \"idempotent\"\n";
    let gateway = Start::at(&dir).upstream(address).file(file).go();
    let ask = |key| {
        let headers = [("Idempotency-Key", key)];
        Conn::to(gateway.address).send(request("PUT", "/things/1", &headers, "{}")).answer()
    };
    let broke = ask("k1");
    assert_eq!(broke.status, 502, "{}", broke.text());
    assert!(broke.says("\"safe_new_key\":false"), "{}", broke.text());
    asked.join().unwrap();
    // Nobody listens there any more.
    for _ in 0..2 {
        let refused = ask("k1");
        assert_eq!(refused.status, 502, "{}", refused.text());
        assert!(refused.says("cannot be reached") && refused.says("\"safe_new_key\":false"), "{}", refused.text());
    }
    let fresh = ask("k2");
    assert!(fresh.says("\"safe_new_key\":true"), "under this one nothing was ever sent: {}", fresh.text());
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

/// A report takes its time and a charge must not: each route has its own patience, over that of the upstream.
#[test]
fn a_route_has_time_outs_of_its_own() {
    let (_keep, hang) = mpsc::channel::<()>();
    let hang = std::sync::Mutex::new(hang);
    let upstream = Upstream::new(move |asked, _, stream| {
        if asked.path == "/pay" {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        }
        if asked.path == "/report" {
            // Longer than the upstream's own limit.
            std::thread::sleep(std::time::Duration::from_millis(1_500));
            return Reply::json(200, "{}");
        }
        let _ = hang.lock().unwrap().recv_timeout(std::time::Duration::from_secs(20));
        Reply::Last(Vec::new())
    });
    let dir = Dir::new();
    let routes = "first_byte_timeout = \"1s\"\n\
                  [[route]]\nmatch = \"POST /pay\"\ntimeout = \"300ms\"\n\
                  [[route]]\nmatch = \"POST /mute\"\nfirst_byte_timeout = \"300ms\"\n\
                  [[route]]\nmatch = \"POST /report\"\nfirst_byte_timeout = \"20s\"\ntimeout = \"20s\"\n";
    let gateway = timed(&dir, &upstream, routes);
    for path in ["/pay", "/mute"] {
        let answer = post(gateway.address, path, "k1", "{}");
        assert_eq!(answer.status, 504, "{path}: {}", answer.text());
        assert!(post(gateway.address, path, "k1", "{}").says("in_doubt"), "{path}");
    }
    assert_eq!(post(gateway.address, "/report", "k1", "{}").status, 200);
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

/// An upstream took the body of a POST for a second request and has answered that as well, together with the first or
/// while the connection lay idle. The next customer's request goes out on another connection and gets its own answer.
#[test]
fn an_answer_that_nobody_asked_for_is_nobodys() {
    for together in [true, false] {
        let (written, waits) = mpsc::channel::<()>();
        let written = std::sync::Mutex::new(written);
        let extra = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled";
        let upstream = Upstream::new(move |asked, _, stream| {
            if asked.path != "/front" {
                return Reply::json(200, &format!("{{\"path\":\"{}\"}}", asked.path));
            }
            let own = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";
            if together {
                return Reply::Bytes(format!("{own}{extra}").into_bytes());
            }
            let _ = stream.write_all(own.as_bytes());
            // Long enough for the answer to be passed on, and the connection to be idle.
            std::thread::sleep(std::time::Duration::from_millis(100));
            let _ = stream.write_all(extra.as_bytes());
            let _ = written.lock().unwrap().send(());
            Reply::Bytes(Vec::new())
        });
        let dir = Dir::new();
        let gateway = timed(&dir, &upstream, "idle = \"60s\"");
        let first = post(gateway.address, "/front", "k1", "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(first.text(), "first", "together: {together}");
        if !together {
            waits.recv().unwrap();
        }
        let next = post(gateway.address, "/victim", "k2", "{}");
        assert_eq!(next.text(), "{\"path\":\"/victim\"}", "together: {together}");
        assert_eq!(upstream.connections(), 2, "together: {together}");
    }
}

/// An upstream begins to answer before it has the whole body. Whether it takes the rest for the body or for the next
/// request is its secret, so it gets no next request there.
#[test]
fn a_connection_that_answered_before_it_had_the_whole_request_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                use std::io::BufRead as _;
                let mut reader = std::io::BufReader::new(stream.try_clone().unwrap());
                loop {
                    let mut line = String::new();
                    let mut early = false;
                    loop {
                        line.clear();
                        if reader.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        early |= line.starts_with("POST /early");
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
                    if early {
                        let _ = reader.read_exact(&mut [0; 10]);
                    }
                    let _ = write!(stream, "{number}");
                }
            });
        }
    });
    let dir = Dir::new();
    let file = format!("[upstream.default]\nurl = \"http://{address}\"\nidle = \"60s\"\n");
    let gateway = Start::at(&dir).file(&file).go();
    for _ in 0..3 {
        assert_eq!(get(gateway.address, "/").text(), "0", "it is kept as long as nothing is strange about it");
    }
    let mut conn = Conn::to(gateway.address);
    conn.send("POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234".as_bytes());
    // Its head comes before the rest of the request has gone out.
    std::thread::sleep(std::time::Duration::from_millis(1_000));
    conn.send("56789".as_bytes());
    assert_eq!(conn.answer().text(), "0");
    assert_eq!(get(gateway.address, "/").text(), "1");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
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
