//! The order to stop comes while answers are on their way: they come to their end, or are seen not to have.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use crate::support::{
    Conn, Dir, Gateway, Start, Upstream,
    http2::{self, DATA, END_STREAM, Frame, GOAWAY, Http2},
    keyed, post, request, until,
};

fn stop(gateway: &Gateway) {
    gateway.signal("TERM");
    gateway.wait_for("stopping");
    until("the door to be closed", || TcpStream::connect(gateway.address).is_err());
}

/// A stream that is under way goes on to its end, which is recorded. Nobody new is let in meanwhile, and a connection on which
/// nothing is asked is no reason to wait.
#[test]
fn a_stream_that_ends_within_the_grace_ends_as_ever() {
    let (upstream, tell) = Upstream::events("text/event-stream");
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut idle = Conn::to(gateway.address);
    // Answered here: the upstream has nothing but its stream.
    assert_eq!(idle.send(request("GET", "/", &[("Upgrade", "websocket")], "")).answer().status, 501);
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/chat", "k1", "{}"));
    assert_eq!(conn.head().unwrap().0, 200);
    tell.send("data: 1\n\n").unwrap();
    assert_eq!(conn.chunk().unwrap().unwrap(), b"data: 1\n\n");
    stop(&gateway);
    assert!(idle.closed_within(Duration::from_secs(10)));
    for event in ["data: 2\n\n", "data: 3\n\n"] {
        tell.send(event).unwrap();
        assert_eq!(conn.chunk().unwrap().unwrap(), event.as_bytes());
    }
    drop(tell);
    assert_eq!(conn.chunk().unwrap(), None);
    assert!(conn.closed_within(Duration::from_secs(10)), "nothing more is taken on this one");
    assert_eq!(gateway.wait().code(), Some(0));
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let again = post(gateway.address, "/chat", "k1", "{}");
    assert!(again.says("\"code\":\"already_completed\"") && again.says("\"length\":27"), "{}", again.text());
    assert_eq!(upstream.count(), 1);
}

/// A stream without an end in sight: at the end of the grace it is cut off, so that its reader does not take it for whole, the
/// operator is told, and nobody runs it again.
#[test]
fn a_stream_that_outlasts_the_grace_breaks_off_and_stays_in_doubt() {
    let (upstream, tell) = Upstream::events("text/event-stream");
    let dir = Dir::new();
    let file = "[gateway]\ngrace = \"1s\"\n[default]\nlease = \"1s\"\n";
    let start = || Start::at(&dir).file(file).upstream(upstream.address).go();
    let gateway = start();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/chat", "k1", "{}"));
    assert_eq!(conn.head().unwrap().0, 200);
    tell.send("data: 1\n\n").unwrap();
    assert_eq!(conn.chunk().unwrap().unwrap(), b"data: 1\n\n");
    let told = Instant::now();
    stop(&gateway);
    assert!(conn.chunk().is_err(), "it does not seem to end");
    assert!(told.elapsed() >= Duration::from_secs(1), "it has its grace: {:?}", told.elapsed());
    gateway.wait_for("HX0062");
    assert_eq!(gateway.wait().code(), Some(3));
    assert!(told.elapsed() < Duration::from_secs(15), "{:?}", told.elapsed());
    let gateway = start();
    until("doubt", || {
        let answer = post(gateway.address, "/chat", "k1", "{}");
        assert_eq!(answer.status, 409, "{}", answer.text());
        answer.says("\"code\":\"in_doubt\"")
    });
    assert_eq!(upstream.count(), 1);
    drop(tell);
}

/// Over HTTP/2 there is no last answer on a connection to wait for: its client is told which of its streams were the last
/// ones taken. Those are answered; all later ones were certainly not looked at, so it can send them elsewhere.
#[test]
fn http2_streams_under_way_are_answered_and_later_ones_certainly_not_run() {
    let (upstream, go) = Upstream::held();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Http2::to(gateway.address, &[]);
    for (stream, key) in [(1, "k1"), (3, "k2")] {
        conn.send(&http2::keyed(stream, "/slow", key)).unwrap();
    }
    until("the upstream to be asked", || upstream.count() == 2);
    stop(&gateway);
    // The first one says only that there will be a last stream (RFC 9113, 6.8).
    let last = |frame: &Frame| u32::from_be_bytes(frame.payload[..4].try_into().unwrap());
    let told = conn.until("the last stream to be told", |frame| frame.kind == GOAWAY && last(frame) < 1 << 30).unwrap();
    assert_eq!((last(&told), &told.payload[4..8]), (3, &[0; 4][..]), "not by an error");
    // Too late, by a client that did not look.
    conn.send(&http2::keyed(5, "/slow", "k3")).unwrap();
    let mut answered = Vec::new();
    for _ in 0..2 {
        go.send(()).unwrap();
        let end = conn.until("an answer", |frame| frame.kind == DATA && frame.flags & END_STREAM != 0).unwrap();
        answered.push((end.stream, String::from_utf8(end.payload).unwrap()));
    }
    answered.sort();
    assert_eq!(answered.iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(conn.until("the connection to end", |_| false), None);
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(upstream.count(), 2, "what came too late was not run");
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for ((_, body), key) in answered.into_iter().zip(["k1", "k2"]) {
        assert_eq!(again(gateway.address, key), (body, true));
    }
    go.send(()).unwrap();
    assert_eq!(again(gateway.address, "k3"), ("{\"charge\":2}".to_owned(), false));
    assert_eq!(upstream.count(), 3);
}

/// The same request as [`http2::keyed`] sends: what it is answered, and whether that was recorded.
fn again(address: SocketAddr, key: &str) -> (String, bool) {
    let headers = [("Idempotency-Key", key), ("Authorization", "Bearer one")];
    let answer = Conn::to(address).send(request("POST", "/slow", &headers, "")).answer();
    assert_eq!(answer.status, 201, "{}", answer.text());
    (answer.text(), answer.is_replay())
}
