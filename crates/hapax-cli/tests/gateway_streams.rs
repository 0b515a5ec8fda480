//! Answers that come while the client reads.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::io::Write as _;

use crate::support::{Answer, Conn, Dir, Reply, Start, Upstream, keyed, post, until};

#[test]
fn events_are_not_held_back_and_duplicates_do_not_run_again() {
    let (upstream, tell) = Upstream::events("text/event-stream");
    let dir = Dir::new();
    let gateway = Start::at(&dir).file("[default]\non_in_flight = \"reject\"\n").upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/chat", "k1", "{}"));
    assert_eq!(conn.head().unwrap().0, 200);
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        tell.send(event).unwrap();
        assert_eq!(conn.chunk().unwrap().unwrap(), event.as_bytes());
    }
    let duplicate = post(gateway.address, "/chat", "k1", "{}");
    assert_eq!(duplicate.status, 409);
    assert!(duplicate.says("\"code\":\"in_flight\""), "{}", duplicate.text());
    drop(tell);
    assert_eq!(conn.chunk().unwrap(), None);
    // The end was recorded before it was sent, so there is nothing to wait for.
    let duplicate = post(gateway.address, "/chat", "k1", "{}");
    assert_eq!(duplicate.status, 409);
    assert!(duplicate.says("\"code\":\"already_completed\""), "{}", duplicate.text());
    assert_eq!(upstream.count(), 1);
}

/// An answer in chunks that is no stream of events flows too, and is short enough to be given again.
#[test]
fn short_chunked_answers_flow_and_are_replayed_whole() {
    let (upstream, tell) = Upstream::events("application/json");
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/chat", "k1", "{}"));
    tell.send("{\"a\":").unwrap();
    assert_eq!(conn.head().unwrap().0, 200);
    let mut all = conn.chunk().unwrap().unwrap();
    tell.send("1}").unwrap();
    drop(tell);
    while let Some(chunk) = conn.chunk().unwrap() {
        all.extend(chunk);
    }
    let again = post(gateway.address, "/chat", "k1", "{}");
    assert!(again.is_replay());
    assert_eq!((again.body, all), (b"{\"a\":1}".to_vec(), b"{\"a\":1}".to_vec()));
    assert_eq!(upstream.count(), 1);
}

/// The reader of a stream goes away in the middle: the stream is read to its end for the record.
#[test]
fn a_reader_that_leaves_does_not_leave_doubt() {
    let (upstream, tell) = Upstream::events("text/event-stream");
    let dir = Dir::new();
    let gateway = Start::at(&dir).file("[default]\non_in_flight = \"reject\"\n").upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/chat", "k1", "{}"));
    assert_eq!(conn.head().unwrap().0, 200);
    tell.send("data: 1\n\n").unwrap();
    conn.chunk().unwrap();
    drop(conn);
    tell.send("data: 2\n\n").unwrap();
    drop(tell);
    until("the end to be recorded", || {
        let answer = post(gateway.address, "/chat", "k1", "{}");
        assert_eq!(answer.status, 409);
        answer.says("\"code\":\"already_completed\"")
    });
    assert_eq!(upstream.count(), 1);
}

/// The upstream dies in the middle of a stream: the client's stream breaks off, and does not seem to end.
#[test]
fn a_stream_that_breaks_does_not_seem_to_end() {
    let upstream = Upstream::new(|_, _, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}9\r\ndata: 1\n\n\r\n").as_bytes()).unwrap();
        Reply::Last(Vec::new())
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(keyed("/chat", "k1", "{}"));
    assert_eq!(conn.head().unwrap().0, 200);
    assert_eq!(conn.chunk().unwrap().unwrap(), b"data: 1\n\n");
    assert!(conn.chunk().is_err());
    until("doubt", || post(gateway.address, "/chat", "k1", "{}").says("\"code\":\"in_doubt\""));
    assert_eq!(upstream.count(), 1);
}

/// An answer too large to keep reaches its caller whole; a duplicate is told what it was, and does not run it again.
#[test]
fn answers_too_large_to_keep_arrive_whole_and_are_remembered() {
    let upstream = Upstream::new(|_, _, _| Reply::with(200, &[], &"x".repeat(3 << 20)));
    let dir = Dir::new();
    let gateway =
        Start::at(&dir).file("[default]\ncapture = { max_body = \"1MiB\" }\n").upstream(upstream.address).go();
    let first = post(gateway.address, "/report", "k1", "{}");
    assert_eq!((first.status, first.body.len()), (200, 3 << 20));
    let again = post(gateway.address, "/report", "k1", "{}");
    assert_eq!(again.status, 409);
    assert!(again.says("\"code\":\"already_completed\"") && again.says("\"length\":3145728"), "{}", again.text());
    assert_eq!(upstream.count(), 1);
}

/// What is left of a finished stream: that it ended, how long it was, its digest, and where the upstream said that its result
/// is. The same is said after a restart, and to nobody who asks for something else under the key.
#[test]
fn a_finished_stream_is_pointed_to_and_not_run_again() {
    let events = "data: one\n\ndata: two\n\n";
    let upstream = Upstream::new(move |_, _, stream| {
        let head = "HTTP/1.1 201 Created\r\nContent-Type: text/event-stream\r\nContent-Location: /chats/7\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{:x}\r\n{events}\r\n", events.len()).as_bytes()).unwrap();
        Reply::Bytes(b"0\r\n\r\n".to_vec())
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let first = post(gateway.address, "/chat", "k1", "{}");
    assert_eq!((first.status, first.text().as_str()), (201, events));
    let pointer = post(gateway.address, "/chat", "k1", "{}");
    points_to(&pointer, 201, events);
    assert!(pointer.says("\"location\":\"/chats/7\""), "{}", pointer.text());
    let other = post(gateway.address, "/chat", "k1", "{\"other\":1}");
    assert!(other.status == 422 && other.says("\"code\":\"mismatch\""), "{}", other.text());
    gateway.kill();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    assert_eq!(post(gateway.address, "/chat", "k1", "{}").body, pointer.body);
    assert_eq!(upstream.count(), 1);
}

/// An answer in chunks that turns out to be too long to keep, when much of it has gone on already.
#[test]
fn a_chunked_answer_that_grows_too_long_is_pointed_to_and_not_run_again() {
    const PIECES: usize = 48;
    let piece = "x".repeat(64 << 10);
    let sent = piece.clone();
    let upstream = Upstream::new(move |_, _, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for _ in 0..PIECES {
            stream.write_all(format!("{:x}\r\n{sent}\r\n", sent.len()).as_bytes()).unwrap();
        }
        Reply::Bytes(b"0\r\n\r\n".to_vec())
    });
    let dir = Dir::new();
    let gateway =
        Start::at(&dir).file("[default]\ncapture = { max_body = \"1MiB\" }\n").upstream(upstream.address).go();
    let all = piece.repeat(PIECES);
    let first = post(gateway.address, "/report", "k1", "{}");
    assert!(first.status == 200 && first.text() == all, "{} bytes", first.body.len());
    for _ in 0..2 {
        points_to(&post(gateway.address, "/report", "k1", "{}"), 200, &all);
    }
    assert_eq!(upstream.count(), 1);
}

fn points_to(answer: &Answer, status: u16, body: &str) {
    let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
    let digest = data_encoding::HEXLOWER.encode(digest.as_ref());
    assert!(answer.status == 409 && !answer.is_replay(), "{}: {}", answer.status, answer.text());
    for member in [
        "\"code\":\"already_completed\"".to_owned(),
        "\"safe_new_key\":false".to_owned(),
        "\"operation\":\"".to_owned(),
        format!("\"answered\":{status}"),
        format!("\"length\":{}", body.len()),
        format!("\"digest\":\"sha256:{digest}\""),
    ] {
        assert!(answer.says(&member), "{member}: {}", answer.text());
    }
}
