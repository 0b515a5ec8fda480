//! Request bodies as they come: whoever sends one where none is usual sends it whole, and whoever breaks one off is told so.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support::{
    Conn, Dir, Reply, Start, Upstream,
    http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, ask, frame},
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
