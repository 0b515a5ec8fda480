//! A request with a key happens once, and everybody who asks gets its answer.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use crate::support::{Answer, Conn, Dir, Reply, Start, Upstream, get, post, request, until};

/// Ten impatient clicks on *pay*: one charge, ten receipts that are the same.
#[test]
fn ten_at_once_cause_one_call_and_get_ten_equal_answers() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::new(move |asked, number, _| {
        if asked.method == "GET" {
            return Reply::json(200, "{}");
        }
        let _ = wait.lock().unwrap().recv();
        Reply::with(
            201,
            &[("Content-Type", "application/json"), ("Location", "/charges/1")],
            &format!("{{\"n\":{number}}}"),
        )
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let address = gateway.address;
    let headers = [("Idempotency-Key", "k1"), ("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    let mut clients: Vec<Conn> = (0..10).map(|_| Conn::to(address)).collect();
    for client in &mut clients {
        client.send(request("POST", "/charges", &headers, "{\"amount\":1}"));
    }
    until("one of them to reach the upstream", || upstream.count() > 0);
    // All ten were sent before; some more round trips, and they have been read too.
    for _ in 0..10 {
        assert_eq!(get(address, "/").status, 200);
    }
    // If there were a second call it would be let through as well, and be counted.
    for _ in 0..10 {
        go.send(()).unwrap();
    }
    let answers: Vec<Answer> = clients.iter_mut().map(Conn::answer).collect();
    assert_eq!(upstream.asked().iter().filter(|asked| asked.method == "POST").count(), 1);
    for answer in &answers {
        assert_eq!((answer.status, answer.text().as_str()), (201, "{\"n\":0}"));
        assert_eq!(answer.header("location"), Some("/charges/1"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
}

/// H1: two customers of one upstream, told apart by nothing but their credentials, use the same key. In the gateway
/// without any configuration neither may see the other's answer.
#[test]
fn h1_two_customers_with_one_key_never_meet() {
    let upstream = Upstream::new(|asked, number, _| {
        Reply::json(
            200,
            &format!("{{\"for\":\"{}\",\"n\":{number}}}", asked.header("authorization").unwrap_or("nobody")),
        )
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let ask = |headers: &[(&str, &str)]| {
        let headers = [&[("Idempotency-Key", "order-1")], headers].concat();
        Conn::to(gateway.address).send(request("POST", "/pay", &headers, "{}")).answer()
    };
    let callers: [&[(&str, &str)]; 9] = [
        &[("Cookie", "sid=alice; theme=dark")],
        &[("Cookie", "sid=bob; theme=dark")],
        &[("X-Auth-Token", "alice")],
        &[("X-Auth-Token", "bob")],
        &[("Authorization", "Bearer alice")],
        &[("Authorization", "Bearer bob")],
        &[("X-Api-Key", "alice")],
        &[("Authorization", "Bearer alice"), ("X-Api-Key", "alice")],
        &[],
    ];
    let first: Vec<Answer> = callers.iter().map(|headers| ask(headers)).collect();
    assert_eq!(upstream.count(), callers.len());
    for (headers, first) in callers.iter().zip(&first) {
        let again = ask(headers);
        assert!(again.is_replay() && !first.is_replay());
        assert_eq!(again.body, first.body);
    }
    assert_eq!(upstream.count(), callers.len());
    // A key in the query is a credential as well, whatever a fingerprint says of it.
    for name in ["carol", "dave"] {
        let path = format!("/pay?api_key={name}");
        let headers = [("Idempotency-Key", "order-1")];
        let ask = || Conn::to(gateway.address).send(request("POST", &path, &headers, "{}")).answer();
        assert_eq!((ask().status, ask().is_replay()), (200, true), "{name}");
    }
    gateway.wait_for("share the tenant `anonymous`");
    gateway.wait_for("told apart by all of its cookies");
    let said = gateway.said().join("\n");
    assert!(said.contains("tenants   credential"), "{said}");
    assert!(!said.contains("alice"), "{said}");
}

/// H2: a replay is answered without an upstream. Were the body of its request left on the connection, the next request
/// would be made of it, by whoever wrote the body.
#[test]
fn h2_the_body_of_a_replayed_request_is_not_the_next_request() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let smuggled = "POST /steal HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let headers = [("Idempotency-Key", "k1"), ("Authorization", "Bearer one")];
    let mut conn = Conn::to(gateway.address);
    let first = conn.send(request("POST", "/pay", &headers, smuggled)).answer();
    for _ in 0..3 {
        let again = conn.send(request("POST", "/pay", &headers, smuggled)).answer();
        assert!(again.is_replay());
        assert_eq!(again.body, first.body);
    }
    // Refusals leave nothing behind either: a mismatch, a bad key, a body beyond the limit.
    let mismatch = conn.send(request("POST", "/pay", &headers, &format!("{smuggled} "))).answer();
    assert_eq!(mismatch.status, 422);
    let bad = [("Idempotency-Key", "\u{7f}\u{e9}"), ("Authorization", "Bearer one")];
    conn.send(request("POST", "/pay", &bad, smuggled));
    if let Ok(refused) = conn.try_answer(false) {
        assert_eq!(refused.status, 400);
    }
    let mut conn = Conn::to(gateway.address);
    conn.send(request("GET", "/after", &[], "")).answer();
    let paths: Vec<String> = upstream.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/pay", "/after"]);
}

#[test]
fn a_body_over_the_limit_is_refused_and_never_becomes_a_request() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"POST /pay\"\nmax_request_body = \"1KiB\"\n";
    let gateway = Start::at(&dir).upstream(upstream.address).file(file).go();
    let smuggled = "POST /steal HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".repeat(40);
    let headers = [("Idempotency-Key", "k1")];
    let mut conn = Conn::to(gateway.address);
    conn.send(request("POST", "/pay", &headers, &smuggled));
    assert_eq!(conn.answer().status, 413);
    let mut conn = Conn::to(gateway.address);
    let chunked = format!(
        "POST /pay HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
        smuggled.len()
    );
    conn.send(chunked);
    assert_eq!(conn.answer().status, 413);
    let _ = conn.try_send(request("GET", "/after", &[], "").as_bytes());
    get(gateway.address, "/last");
    let paths: Vec<String> = upstream.asked().into_iter().map(|asked| asked.path).collect();
    assert!(paths.iter().all(|path| path == "/after" || path == "/last"), "{paths:?}");
    // And the key is free.
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
}

#[test]
fn what_is_no_request_with_a_key_goes_through_as_it_is() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let key = [("Idempotency-Key", "k1")];
    for method in ["GET", "OPTIONS"] {
        for _ in 0..2 {
            let answer = Conn::to(gateway.address).send(request(method, "/things?x=1", &key, "")).answer();
            assert_eq!((answer.status, answer.is_replay()), (201, false));
        }
    }
    for _ in 0..2 {
        let answer = Conn::to(gateway.address).send(request("POST", "/things", &[], "{}")).answer();
        assert_eq!(answer.status, 201);
    }
    assert_eq!(upstream.count(), 6);
    assert_eq!(upstream.asked()[0].path, "/things?x=1");
}

/// A server that is overloaded says so and is asked again; what it then says stands. What it refused as malformed or
/// unauthorised leaves nothing behind. A cookie is never given twice.
#[test]
fn answers_mean_what_the_table_says() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let upstream = Upstream::new(move |asked, _, _| {
        let number = counter.fetch_add(1, Ordering::SeqCst);
        let status: u16 = asked.path.trim_start_matches('/').parse().unwrap();
        let cookie = [("Set-Cookie", "session=secret"), ("ETag", "\"1\"")];
        match number {
            0 => Reply::with(status, &cookie, "first"),
            _ => Reply::with(200, &cookie, "second"),
        }
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for (status, runs_again) in [
        (200, false),
        (302, false),
        (404, false),
        (409, false),
        (422, false),
        (400, true),
        (401, true),
        (403, true),
        (425, true),
        (429, true),
        (503, true),
        (500, true),
        (408, true),
    ] {
        calls.store(0, Ordering::SeqCst);
        let path = format!("/{status}");
        let first = post(gateway.address, &path, "k1", "{}");
        assert_eq!((first.status, first.text().as_str()), (status, "first"));
        assert_eq!(first.header("set-cookie"), Some("session=secret"));
        let second = post(gateway.address, &path, "k1", "{}");
        let expected = if runs_again { (200, "second".to_owned(), false) } else { (status, "first".to_owned(), true) };
        assert_eq!((second.status, second.text(), second.is_replay()), expected, "{status}");
        assert_eq!(second.header("set-cookie").is_some(), runs_again, "{status}");
        let third = post(gateway.address, &path, "k1", "{}");
        assert!(third.is_replay() && third.header("set-cookie").is_none(), "{status}");
        assert_eq!(third.header("etag"), Some("\"1\""));
        assert_eq!(calls.load(Ordering::SeqCst), if runs_again { 2 } else { 1 }, "{status}");
    }
    // 502 and 504 are a proxy's word behind us: nobody knows what happened.
    for status in [502, 504] {
        calls.store(0, Ordering::SeqCst);
        let path = format!("/{status}");
        assert_eq!(post(gateway.address, &path, "k1", "{}").status, status);
        let again = post(gateway.address, &path, "k1", "{}");
        assert_eq!(again.status, 409);
        assert!(again.says("\"code\":\"in_doubt\""), "{}", again.text());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn one_key_for_two_requests_is_refused() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    post(gateway.address, "/pay", "k1", "{\"a\":1,\"b\":2}");
    assert_eq!(post(gateway.address, "/pay", "k1", "{\"a\":2,\"b\":2}").status, 422);
    // The order of members and the quotes of the key are no difference.
    assert!(post(gateway.address, "/pay", "\"k1\"", "{\"b\":2, \"a\":1}").is_replay());
    // Another endpoint is another operation.
    assert!(!post(gateway.address, "/refund", "k1", "{\"a\":1,\"b\":2}").is_replay());
    assert_eq!(upstream.count(), 2);
}
