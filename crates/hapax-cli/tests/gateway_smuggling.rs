//! The smuggling corpus, over raw sockets: each is refused, the connection is closed, and the upstream never sees what was
//! hidden in it.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support;
use std::time::Duration;

use crate::support::{
    Conn, Dir, Start, Upstream, get,
    http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, ask, frame},
    post,
};

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";

/// Every way to say a length twice, to say it oddly, or to end a line oddly.
fn corpus() -> Vec<(&'static str, String)> {
    let post = |lines: &str, body: &str| format!("POST /front HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}");
    let chunked_end = "0\r\n\r\n";
    vec![
        ("CL.TE", post("Content-Length: 40\r\nTransfer-Encoding: chunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        (
            "TE.CL",
            post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", &format!("2a\r\n{HIDDEN}\r\n{chunked_end}")),
        ),
        ("TE.TE xchunked", post("Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n", HIDDEN)),
        (
            "TE.TE two lines",
            post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", &format!("{chunked_end}{HIDDEN}")),
        ),
        ("TE.TE list", post("Transfer-Encoding: chunked, identity\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE.TE gzip", post("Transfer-Encoding: gzip, chunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE.TE space before colon", post("Transfer-Encoding : chunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE.TE vertical tab", post("Transfer-Encoding:\x0bchunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE.TE folded", post("X: y\r\n Transfer-Encoding: chunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE.TE after bare LF", post("X: y\nTransfer-Encoding: chunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE.TE after bare CR", post("X: y\rTransfer-Encoding: chunked\r\n", &format!("{chunked_end}{HIDDEN}"))),
        ("TE identity", post("Transfer-Encoding: identity\r\nContent-Length: 3\r\n", &format!("abc{HIDDEN}"))),
        ("two lengths", post("Content-Length: 3\r\nContent-Length: 40\r\n", &format!("abc{HIDDEN}"))),
        ("twice the same length", post("Content-Length: 3\r\nContent-Length: 3\r\n", &format!("abc{HIDDEN}"))),
        ("a list of lengths", post("Content-Length: 3, 3\r\n", &format!("abc{HIDDEN}"))),
        ("a signed length", post("Content-Length: +3\r\n", &format!("abc{HIDDEN}"))),
        ("a negative length", post("Content-Length: -1\r\n", HIDDEN)),
        ("a hexadecimal length", post("Content-Length: 0x3\r\n", &format!("abc{HIDDEN}"))),
        ("a length with a comment", post("Content-Length: 3 (three)\r\n", &format!("abc{HIDDEN}"))),
        ("a length beyond numbers", post("Content-Length: 18446744073709551619\r\n", &format!("abc{HIDDEN}"))),
        (
            "a length of nothing, and chunks",
            post("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", &format!("{chunked_end}{HIDDEN}")),
        ),
        ("chunk with bare LF", post("Transfer-Encoding: chunked\r\n", &format!("3\nabc\n0\n\n{HIDDEN}"))),
        (
            "chunk extension with bare LF",
            post("Transfer-Encoding: chunked\r\n", &format!("3;a\nb\r\nabc\r\n{chunked_end}{HIDDEN}")),
        ),
        (
            "chunk size that overflows",
            post("Transfer-Encoding: chunked\r\n", &format!("10000000000000003\r\nabc\r\n{chunked_end}{HIDDEN}")),
        ),
        (
            "chunk size with a prefix",
            post("Transfer-Encoding: chunked\r\n", &format!("0x3\r\nabc\r\n{chunked_end}{HIDDEN}")),
        ),
        (
            "chunk without its line end",
            post("Transfer-Encoding: chunked\r\n", &format!("3\r\nabcdef\r\n{chunked_end}{HIDDEN}")),
        ),
        (
            "length in a trailer",
            post("Transfer-Encoding: chunked\r\n", &format!("0\r\nContent-Length: 40\r\n\r\n{HIDDEN}")),
        ),
        ("NUL in a value", post("X: a\0b\r\nContent-Length: 0\r\n", HIDDEN)),
        ("no colon", post("Content-Length 3\r\n", HIDDEN)),
        ("bare LF heads", format!("GET /front HTTP/1.1\nHost: a\n\n{HIDDEN}")),
        ("folded host", format!("GET /front HTTP/1.1\r\nHost:\r\n a\r\n\r\n{HIDDEN}")),
        ("two hosts", format!("GET /front HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{HIDDEN}")),
        ("no host", format!("GET /front HTTP/1.1\r\n\r\n{HIDDEN}")),
        ("an empty host", format!("GET /front HTTP/1.1\r\nHost:\r\n\r\n{HIDDEN}")),
        ("a host that is none", format!("GET /front HTTP/1.1\r\nHost: a/b?c@evil\r\n\r\n{HIDDEN}")),
        ("another host in the target", format!("GET http://b/front HTTP/1.1\r\nHost: a\r\n\r\n{HIDDEN}")),
        (
            "HTTP/1.0 with chunks",
            format!("POST /front HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{chunked_end}{HIDDEN}"),
        ),
        ("HTTP/0.9", format!("GET /front\r\n{HIDDEN}")),
        ("two spaces", format!("GET  /front HTTP/1.1\r\nHost: a\r\n\r\n{HIDDEN}")),
        ("CONNECT", format!("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n{HIDDEN}")),
        (
            "upgrade to h2c",
            format!(
                "GET /front HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n{HIDDEN}"
            ),
        ),
        (
            "upgrade to websocket",
            format!("GET /front HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n{HIDDEN}"),
        ),
        ("a path that walks", format!("GET /front/../admin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{HIDDEN}")),
        (
            "an escaped path that walks",
            format!("GET /front/%2e%2e/admin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{HIDDEN}"),
        ),
    ]
}

#[test]
fn nothing_of_the_corpus_gets_through() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for key in ["", "Idempotency-Key: k\r\n"] {
        for (name, bytes) in corpus() {
            let bytes = bytes.replacen("Host: a\r\n", &format!("Host: a\r\n{key}"), 1);
            let mut conn = Conn::to(gateway.address);
            let _ = conn.try_send(bytes.as_bytes());
            // Refused with a word, or cut off without one; never served.
            if let Ok(answer) = conn.try_answer(false) {
                assert!(matches!(answer.status, 400 | 501), "{name}: {}", answer.status);
            }
            assert!(conn.closed_within(Duration::from_secs(10)), "{name}: the connection lives on");
            let hidden = upstream.asked().into_iter().find(|asked| asked.path == "/hidden");
            assert!(hidden.is_none(), "{name}: {hidden:?}");
        }
    }
    // Whoever comes afterwards is served as ever.
    assert_eq!(get(gateway.address, "/after").status, 201);
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
    let fronts = upstream.asked().into_iter().filter(|asked| asked.path == "/front" && asked.method == "GET").count();
    assert_eq!(fronts, 0);
}

/// An empty reply is what some clients try again: who sends a head that cannot be read is told so (RFC 9112, 3.2).
#[test]
fn a_head_that_is_refused_is_answered() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for lines in [
        "",
        "Host: a\r\nHost: b\r\n",
        "Host: a\r\nX: y\r\n z\r\n",
        "Host : a\r\n",
        "Host: a\nX: y\r\n",
        "Host: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n",
        "Host: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Host: a\r\nTransfer-Encoding: gzip\r\n",
    ] {
        let mut conn = Conn::to(gateway.address);
        conn.send(format!("GET /front HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(conn.answer().status, 400, "{lines:?}");
        assert!(conn.closed_within(Duration::from_secs(10)), "{lines:?}");
    }
    assert_eq!(upstream.count(), 0);
}

/// A chunk's line that is refused half-way: nothing that stands in for the rest of it ends the body.
#[test]
fn a_chunk_line_that_is_refused_half_way_ends_no_body() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for key in ["", "Idempotency-Key: k1\r\n"] {
        for (first, then) in
            [("0;", "\x01\r\n\r\n"), ("0;a=", "b\nc\r\n\r\n"), ("0", "\x01\r\n\r\n"), ("", "\x01\r\n\r\n")]
        {
            let mut conn = Conn::to(gateway.address);
            let head = format!("POST /pay HTTP/1.1\r\nHost: a\r\n{key}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
            conn.send(head + first);
            std::thread::sleep(Duration::from_millis(100));
            let _cut_off_already = conn.try_send(then.as_bytes());
            if let Ok(answer) = conn.try_answer(false) {
                assert!(answer.status >= 400, "{first:?}: {}", answer.status);
            }
            assert!(conn.closed_within(Duration::from_secs(10)), "{first:?}");
        }
    }
    assert_eq!(upstream.count(), 0, "{:?}", upstream.asked());
}

/// The same bytes drip in one by one: the verdict is the same.
#[test]
fn dripping_changes_no_verdict() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for (name, bytes) in corpus() {
        let mut conn = Conn::to(gateway.address);
        for byte in bytes.bytes() {
            if conn.try_send(&[byte]).is_err() {
                break;
            }
        }
        assert!(conn.closed_within(Duration::from_secs(10)), "{name}: the connection lives on");
    }
    assert!(upstream.asked().iter().all(|asked| asked.path != "/hidden"));
}

/// HTTP/2 has no lengths to disagree about until somebody turns it into HTTP/1: what a head claims and what its frames
/// hold have to be the same before that.
#[test]
fn nothing_is_smuggled_through_the_change_of_protocols() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let (key, hidden) = (("idempotency-key", "k"), HIDDEN.as_bytes());
    let heads: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("H2.CL, shorter", vec![("content-length", "3")]),
        ("H2.CL, nothing", vec![("content-length", "0")]),
        ("H2.CL, longer", vec![("content-length", "400")]),
        ("H2.CL, twice", vec![("content-length", "3"), ("content-length", "39")]),
        ("H2.CL, odd", vec![("content-length", "+39")]),
        ("H2.TE", vec![("transfer-encoding", "chunked")]),
        ("a connection header", vec![("connection", "transfer-encoding")]),
        ("a header that ends a line", vec![("x", "y\r\ntransfer-encoding: chunked")]),
        ("a name that ends a line", vec![("x: y\r\ntransfer-encoding", "chunked")]),
        ("a name in capitals", vec![("Transfer-Encoding", "chunked")]),
        ("a second path", vec![(":path", "/hidden")]),
        ("another host", vec![("host", "b")]),
    ];
    for with_key in [false, true] {
        for (name, lines) in &heads {
            let lines: Vec<(&str, &str)> = lines.iter().copied().chain(with_key.then_some(key)).collect();
            let mut conn = Http2::to(gateway.address, &[]);
            let head = frame(HEADERS, END_HEADERS, 1, &ask("POST", "/front", &lines));
            conn.send(&[head, frame(DATA, END_STREAM, 1, hidden)].concat()).unwrap();
            // A reset, a refusal or the end of the connection; whatever it is, it comes.
            conn.until(name, |frame| frame.stream == 1 || frame.kind == support::http2::GOAWAY);
        }
        // A length behind the body, and trailers that pretend to be a head.
        for trailer in [("content-length", "3"), (":path", "/hidden"), ("transfer-encoding", "chunked")] {
            let lines: Vec<(&str, &str)> = with_key.then_some(key).into_iter().collect();
            let mut conn = Http2::to(gateway.address, &[]);
            let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, &support::http2::head(&[trailer]));
            let head = frame(HEADERS, END_HEADERS, 1, &ask("POST", "/trailed", &lines));
            conn.send(&[head, frame(DATA, 0, 1, hidden), trailers].concat()).unwrap();
            conn.until(trailer.0, |frame| frame.stream == 1 || frame.kind == support::http2::GOAWAY);
        }
        assert_eq!(get(gateway.address, "/after").status, 201);
    }
    for asked in upstream.asked() {
        assert!(matches!(asked.path.as_str(), "/after" | "/trailed"), "{asked:?}");
        assert!(asked.path == "/after" || asked.body == hidden, "{asked:?}");
    }
}

/// Pipelined requests that are as they should be are all served, in their order.
#[test]
fn honest_pipelines_are_served() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(
        "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
         POST /2 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\n{}\
         POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n\
         GET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    for _ in 0..4 {
        assert_eq!(conn.answer().status, 201);
    }
    let paths: Vec<String> = upstream.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/1", "/2", "/3", "/4"]);
}
