//! Answers that come while the client reads.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    io::Write as _,
    sync::{Mutex, mpsc},
};

use crate::support::{Conn, Dir, Reply, Start, Upstream, post, request, until};

/// An upstream that sends one event each time it is told, and ends when the teller is gone.
fn events(content_type: &'static str) -> (Upstream, mpsc::Sender<&'static str>) {
    let (tell, told) = mpsc::channel::<&'static str>();
    let told = Mutex::new(told);
    let upstream = Upstream::new(move |_, _, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        while let Ok(event) = told.lock().unwrap().recv() {
            if stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).is_err() {
                break;
            }
        }
        Reply::Bytes(b"0\r\n\r\n".to_vec())
    });
    (upstream, tell)
}

fn chat(key: &str) -> String {
    let headers = [("Idempotency-Key", key), ("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    request("POST", "/chat", &headers, "{}")
}

#[test]
fn events_are_not_held_back_and_duplicates_do_not_run_again() {
    let (upstream, tell) = events("text/event-stream");
    let dir = Dir::new();
    let gateway = Start::at(&dir).file("[default]\non_in_flight = \"reject\"\n").upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(chat("k1"));
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
    let (upstream, tell) = events("application/json");
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(chat("k1"));
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
    let (upstream, tell) = events("text/event-stream");
    let dir = Dir::new();
    let gateway = Start::at(&dir).file("[default]\non_in_flight = \"reject\"\n").upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send(chat("k1"));
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
    conn.send(chat("k1"));
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
