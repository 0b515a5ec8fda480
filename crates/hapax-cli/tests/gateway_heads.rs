//! Heads on their way: what is in them arrives, however much it is and however it was spoken, and what cannot be meant
//! goes no further.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::time::Duration;

use crate::support::{
    Conn, Dir, Start, Upstream,
    http2::{END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, ask, frame, head},
    request,
};

/// HTTP/2 lets a client send its cookies in crumbs, each in a field of its own. To an upstream that reads the first `Cookie` of
/// an HTTP/1.1 head the session was gone.
#[test]
fn crumbs_of_a_cookie_are_one_cookie_upstream() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let file = "[gateway]\ncookies = [\"session\"]\n[[route]]\nmatch = \"POST /pay\"\nreauthorize = \"/may\"\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let crumbs = [("cookie", "theme=dark"), ("cookie", "session=s1"), ("cookie", "lang=en; tz=utc")];
    let keyed = [&crumbs[..], &[("idempotency-key", "k1")]].concat();
    // A request that is passed through, one that is run, and the question before its replay.
    for (method, path, lines, seen) in
        [("GET", "/", &crumbs[..], "/"), ("POST", "/pay", &keyed, "/pay"), ("POST", "/pay", &keyed, "/may")]
    {
        let mut conn = Http2::to(gateway.address, &[]);
        conn.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &ask(method, path, lines))).unwrap();
        assert!(conn.until("an answer", |frame| frame.stream == 1 && frame.kind == HEADERS).is_some());
        let asked = upstream.asked().pop().unwrap();
        assert_eq!(asked.path, seen);
        let cookies: Vec<&str> =
            asked.headers.iter().filter(|(name, _)| name == "cookie").map(|(_, value)| value.as_str()).collect();
        assert_eq!(cookies, ["theme=dark; session=s1; lang=en; tz=utc"], "{seen}");
    }
}

/// A client names its credential and its key in `Connection`, as if they were between it and us: the upstream took the
/// request for nobody's, or for one without a key.
#[test]
fn neither_credential_nor_key_is_taken_out_by_name() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let file = "[gateway]\ntenant = \"header:X-Tenant\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
                [[route]]\nmatch = \"POST /pay\"\nkey_headers = [\"X-Payment\"]\n\
                [[route]]\nmatch = \"POST /book\"\nsurface = \"books\"\n\
                [surface.books]\nkey.source = [\"header:X-Booking\"]\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let kept = [
        ("Authorization", "Bearer one"),
        ("Cookie", "session=1"),
        ("X-Api-Key", "a"),
        ("X-Auth-Token", "b"),
        ("X-Access-Token", "c"),
        ("Api-Key", "d"),
        ("Private-Token", "e"),
        ("Ocp-Apim-Subscription-Key", "f"),
        ("X-Tenant", "shop"),
        ("Idempotency-Key", "k1"),
        ("X-Idempotency-Key", "k1"),
        ("X-Payment", "k1"),
        ("X-Booking", "k1"),
        ("Content-Type", "application/json"),
    ];
    let named: Vec<String> = kept.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let connection = format!("{}, x-mine", named.join(", "));
    for (method, path) in [("POST", "/pay"), ("POST", "/book"), ("POST", "/else"), ("GET", "/pay")] {
        let mut headers = kept.to_vec();
        headers.extend([("Connection", connection.as_str()), ("X-Mine", "1")]);
        assert_eq!(Conn::to(gateway.address).send(request(method, path, &headers, "{}")).answer().status, 201);
        let asked = upstream.asked().pop().unwrap();
        for ((_, value), name) in kept.iter().zip(&named) {
            assert_eq!(asked.header(name), Some(*value), "{method} {path}: {name}");
        }
        assert_eq!((asked.header("x-mine"), asked.header("connection")), (None, None));
    }
}

/// What is no host is taken apart differently by everybody who needs one, and an upstream that builds links, logs or
/// redirects of it is led elsewhere (RFC 9112, 3.2).
#[test]
fn what_is_no_host_is_refused() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for host in [
        "",
        "a/b?c@evil",
        "a/b",
        "a?b",
        "a#b",
        "user@evil",
        "a b",
        "a\\b",
        "a:80:80",
        "a:b",
        "a:123456",
        ":80",
        "[::1",
        "::1",
        "[]",
        "[a/b]",
        "[::1]x",
        "%",
        "a%zz",
        "\u{e9}",
    ] {
        for key in ["", "Idempotency-Key: k1\r\n"] {
            let mut conn = Conn::to(gateway.address);
            conn.send(format!("POST /pay HTTP/1.1\r\nHost: {host}\r\n{key}Content-Length: 2\r\n\r\n{{}}"));
            let answer = conn.answer();
            assert_eq!(answer.status, 400, "{host:?}: {}", answer.text());
            assert!(answer.says("\"code\":\"host_refused\""), "{host:?}: {}", answer.text());
            assert!(conn.closed_within(Duration::from_secs(10)), "{host:?}: the connection lives on");
        }
    }
    let mut conn = Conn::to(gateway.address);
    assert_eq!(conn.send("GET http://user@evil/ HTTP/1.1\r\nHost: user@evil\r\n\r\n").answer().status, 400);
    // HTTP/2 says it in two places, and what is none is none in both.
    for lines in [vec![(":authority", "user@evil")], vec![("host", "a/b?c@evil")], vec![("host", "")]] {
        let mut conn = Http2::to(gateway.address, &[]);
        let lines = [&[(":method", "GET"), (":scheme", "http"), (":path", "/")], &lines[..]].concat();
        conn.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head(&lines))).unwrap();
        conn.until("a refusal", |frame| frame.stream == 1 || frame.kind == GOAWAY);
    }
    assert_eq!(upstream.count(), 0);
    for host in
        ["a", "a:80", "a:", "127.0.0.1:8080", "[::1]", "[2001:db8::1]:443", "my_shop.example", "a%20b", "xn--9ca"]
    {
        let answer = Conn::to(gateway.address).send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).answer();
        assert_eq!(answer.status, 201, "{host}");
        assert_eq!(upstream.asked().pop().unwrap().header("host"), Some(host));
    }
    // Before there were hosts.
    assert_eq!(Conn::to(gateway.address).send("GET / HTTP/1.0\r\n\r\n").answer().status, 201);
}

/// Whoever sends a head that is not served learns what is wrong with it.
#[test]
fn refused_heads_are_told_why() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    for (request, status, code) in [
        ("GET / HTTP/1.1\r\n\r\n", 400, "head_refused"),
        ("GET / HTTP/1.1\nHost: a\n\n", 400, "head_refused"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "head_refused"),
        (&long, 431, "head_too_large"),
    ] {
        let mut conn = Conn::to(gateway.address);
        let answer = conn.send(request).answer();
        assert!(answer.status == status && answer.says(&format!("\"code\":\"{code}\"")), "{}", answer.text());
        assert!(answer.says("HX0059"), "{}", answer.text());
        assert!(conn.closed_within(Duration::from_secs(10)), "{code}: the connection lives on");
    }
    assert_eq!(upstream.count(), 0);
}
