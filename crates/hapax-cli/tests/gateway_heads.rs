//! Heads on their way: what is in them arrives, however much it is and however it was spoken, and what cannot be meant
//! goes no further.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support::{
    Dir, Start, Upstream,
    http2::{END_HEADERS, END_STREAM, HEADERS, Http2, ask, frame},
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
