//! Request bodies as they come: whoever sends one where none is usual sends it whole, and whoever breaks one off is told so.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::time::Duration;

use crate::support::{
    Conn, Dir, Reply, Start, Upstream,
    http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, RST_STREAM, ask, frame},
    post,
};

/// A search with its terms in the body of a GET, sent in chunks: the body was dropped on the way, and the upstream
/// searched for nothing.
#[test]
fn a_body_without_a_length_arrives_whole_whatever_the_method() {
    // What is answered to a HEAD has no body, or our client would wait for it.
    let upstream = Upstream::new(|_, _, _| Reply::with(200, &[], ""));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let arrived = |method: &str, how: &str| {
        let asked = upstream.asked().pop().unwrap();
        assert_eq!((asked.method.as_str(), asked.body.as_slice()), (method, &b"what is sought"[..]), "{method} {how}");
        assert_eq!(asked.header("content-length").is_some(), how == "counted", "{method} {how}");
    };
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "POST"] {
        let head = format!("{method} /search HTTP/1.1\r\nHost: a\r\n");
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nwhat \r\n9\r\nis sought\r\n0\r\n\r\n");
        assert_eq!(Conn::to(gateway.address).send(chunked).answer_to_head().status, 200);
        arrived(method, "in chunks");
        let counted = format!("{head}Content-Length: 14\r\n\r\nwhat is sought");
        assert_eq!(Conn::to(gateway.address).send(counted).answer_to_head().status, 200);
        arrived(method, "counted");
        let before = upstream.count();
        let mut conn = Http2::to(gateway.address, &[]);
        let head = frame(HEADERS, END_HEADERS, 1, &ask(method, "/search", &[]));
        conn.send(&[head, frame(DATA, END_STREAM, 1, b"what is sought")].concat()).unwrap();
        assert!(conn.until("an answer", |frame| frame.stream == 1 && frame.kind == HEADERS).is_some());
        assert_eq!(upstream.count(), before + 1);
        arrived(method, "over HTTP/2");
    }
    // Where there is no body, none is announced.
    for method in ["GET", "HEAD"] {
        let plain = format!("{method} /search HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(Conn::to(gateway.address).send(plain).answer_to_head().status, 200);
        let asked = upstream.asked().pop().unwrap();
        assert_eq!((asked.header("transfer-encoding"), asked.header("content-length")), (None, None));
    }
}

/// An upload without a key is passed on as it comes. What breaks it is the client's doing, and neither the upstream's nor
/// a reason to ask its operator.
#[test]
fn a_broken_upload_is_its_clients_and_not_the_upstreams() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for (at, key) in ["", "Idempotency-Key: k1\r\n"].into_iter().enumerate() {
        for broken in [
            // A chunk that is none, at once, and after a good one.
            "zz\r\nabc\r\n0\r\n\r\n",
            "3\r\nabc\r\nzz\r\nabc\r\n0\r\n\r\n",
        ] {
            // At once, and when the upstream has the first of it.
            for pause in [0, 300] {
                let head = format!("POST /upload HTTP/1.1\r\nHost: a\r\n{key}Transfer-Encoding: chunked\r\n\r\n");
                let mut conn = Conn::to(gateway.address);
                let (first, rest) = broken.split_at(if pause == 0 { 0 } else { broken.find("zz").unwrap() });
                conn.send(format!("{head}{first}"));
                std::thread::sleep(Duration::from_millis(pause));
                conn.send(rest);
                let answer = conn.answer();
                assert_eq!(answer.status, 400, "{at} {broken:?} {pause}: {}", answer.text());
                assert!(answer.says("\"code\":\"broken_request\""), "{}", answer.text());
                assert!(answer.says("\"next_action\":\"retry_same_key\"") && answer.says("\"safe_new_key\":false"));
                assert!(conn.closed_within(Duration::from_secs(10)), "the connection lives on");
            }
        }
        // One that ends before its length.
        let mut conn = Conn::to(gateway.address);
        conn.send(format!("POST /upload HTTP/1.1\r\nHost: a\r\n{key}Content-Length: 10\r\n\r\nabc"));
        conn.stream().shutdown(std::net::Shutdown::Write).unwrap();
        let answer = conn.answer();
        assert!(answer.status == 400 && answer.says("\"code\":\"broken_request\""), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 0, "none of it came to its end");
    let good = "POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(Conn::to(gateway.address).send(good).answer().status, 201);
}

/// A policy that only watches lets a request pass whatever it thinks of it; but half of a body is not one that its client
/// has sent.
#[test]
fn a_broken_body_is_not_passed_on_as_a_whole_one() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).file("[default]\nmode = \"shadow\"\n").upstream(upstream.address).go();
    let head = "POST /upload HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k1\r\n";
    for body in ["Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", "Content-Length: 10\r\n\r\nabc"] {
        let mut conn = Conn::to(gateway.address);
        conn.send(format!("{head}{body}"));
        conn.stream().shutdown(std::net::Shutdown::Write).unwrap();
        let answer = conn.answer();
        assert!(answer.status == 400 && answer.says("\"code\":\"broken_request\""), "{body:?}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

/// A client leaves half-way through its upload and says, as some libraries do, that there was no error. What came so far is no
/// payment of one cent: it is not run, with a key or without, and the key is free for the whole of it.
#[test]
fn an_upload_that_is_broken_off_without_an_error_is_not_taken_for_a_whole_one() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let whole = "{\"cents\": 1000000}";
    let length = whole.len().to_string();
    let lengths: [&[(&str, &str)]; 2] = [&[], &[("content-length", &length)]];
    for (number, counted) in lengths.into_iter().enumerate() {
        for half in [&b""[..], b"{\"cents\": 1"] {
            let key = format!("order-{number}-{}", half.len());
            let keyed = [("idempotency-key", key.as_str()), ("authorization", "Bearer one")];
            for more in [&keyed[..], &[]] {
                let mut conn = Http2::to(gateway.address, &[]);
                conn.send(&frame(HEADERS, END_HEADERS, 1, &ask("POST", "/pay", &[more, counted].concat()))).unwrap();
                if !half.is_empty() {
                    conn.send(&frame(DATA, 0, 1, half)).unwrap();
                }
                // Otherwise the reset overtakes what was sent.
                std::thread::sleep(Duration::from_millis(100));
                conn.send(&frame(RST_STREAM, 0, 1, &0_u32.to_be_bytes())).unwrap();
                // Whatever becomes of it, it has become when the next one is answered.
                conn.send(&frame(HEADERS, END_STREAM | END_HEADERS, 3, &ask("GET", "/health", &[]))).unwrap();
                assert!(conn.until("an answer", |frame| frame.stream == 3 && frame.kind == HEADERS).is_some());
                std::thread::sleep(Duration::from_millis(100));
            }
            let paid = || upstream.asked().into_iter().filter(|asked| asked.path == "/pay").count();
            let before = paid();
            assert_eq!(before, number * 2 + usize::from(!half.is_empty()), "a torso was run");
            let answer = post(gateway.address, "/pay", &key, whole);
            assert_eq!((answer.status, answer.is_replay()), (201, false), "{}", answer.text());
            assert_eq!(paid(), before + 1);
        }
    }
}
