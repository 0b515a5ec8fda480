//! How a connection goes on, or ends, for somebody who is refused or kept waiting: with an answer.

use std::time::Duration;

use crate::support::{Setup, ask, begin, connect, keys};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

/// Head and body of one answer, as text.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = vec![0; 65_536];
    let read = async {
        loop {
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.map_or(0, |length| length.parse().unwrap());
                if body.len() >= length {
                    return;
                }
            }
            let read = stream.read(&mut buffer).await.unwrap_or_else(|error| panic!("{error} after `{text}`"));
            assert!(read > 0, "closed after `{text}`");
            text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    timeout(Duration::from_secs(20), read).await.unwrap();
    text
}

fn head(line: &str, key: &str, more: &str, length: usize) -> String {
    let host = "host: localhost\r\ncontent-type: application/json";
    format!("{line} HTTP/1.1\r\n{host}\r\nauthorization: Bearer {key}\r\n{more}content-length: {length}\r\n\r\n")
}

/// A client with a pool sends the head, then the body. What it is refused for stands in the head already; a server that
/// answers at once and closes leaves it with a broken pipe instead of the refusal, and no word about why.
#[tokio::test]
async fn a_refusal_does_not_cost_the_connection() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let body = json!({ "surface": "payments", "key": "k", "request": "x".repeat(4_000) }).to_string();
    let (client, reader) = ("secret-of-acme-client", "secret-of-acme-reader");
    let mut stream = connect(&daemon.address).await;
    for (line, key, more, status) in [
        ("POST /v1/operations:begin", "nobody's", "", 401),
        ("POST /v1/operations:begin", reader, "", 403),
        ("POST /v1/nothing", client, "", 404),
        ("PUT /v1/operations:begin", client, "", 405),
        ("GET /healthz", "nobody's", "", 200),
        ("POST /v1/operations:begin", client, "hapax-tenant: globex\r\n", 403),
        ("POST /v1/operations:begin", client, "", 200),
    ] {
        stream.write_all(head(line, key, more, body.len()).as_bytes()).await.unwrap();
        sleep(Duration::from_millis(30)).await;
        let (first, second) = body.split_at(1_000);
        for piece in [first, second] {
            stream.write_all(piece.as_bytes()).await.unwrap_or_else(|error| panic!("{line}: {error}"));
            sleep(Duration::from_millis(10)).await;
        }
        let told = answer(&mut stream).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {told}");
        assert!(!told.contains("connection: close"), "{line}: {told}");
    }
}

/// So much that nobody wants to read it away is not read, and whoever sends it is told that this was the last answer here. It
/// has to get that answer although it is still sending when it comes.
#[tokio::test]
async fn whoever_sends_too_much_gets_the_answer_before_the_end() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    for (key, length, status) in [("nobody's", 300_000, 401), ("secret-of-acme-client", 3 * 1024 * 1024, 413)] {
        let mut stream = connect(&daemon.address).await;
        stream.write_all(head("POST /v1/operations:begin", key, "", length).as_bytes()).await.unwrap();
        for _ in 0..30 {
            stream.write_all(&[b' '; 10_000]).await.unwrap();
            sleep(Duration::from_millis(5)).await;
        }
        let told = answer(&mut stream).await;
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")) && told.contains("connection: close"), "{told}");
    }
}

/// What is announced and never comes holds nobody up for long; and who asks whether to send it is not told to.
#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    for more in ["", "expect: 100-continue\r\n"] {
        let since = Instant::now();
        let mut stream = connect(&daemon.address).await;
        stream.write_all(head("POST /v1/operations:begin", "nobody's", more, 100).as_bytes()).await.unwrap();
        let told = answer(&mut stream).await;
        assert!(told.starts_with("HTTP/1.1 401") && told.contains("connection: close"), "{told}");
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    }
}

/// Whoever sends a head that is too long learns so, and does not have to guess from a connection that breaks.
#[tokio::test]
async fn a_head_that_is_too_long_is_answered() {
    let daemon = Setup::default().start().await;
    let many: String = (0..150).map(|number| format!("x-{number}: {number}\r\n")).collect();
    let long = "x".repeat(70_000);
    for request in [
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-long: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ] {
        let mut stream = connect(&daemon.address).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let told = answer(&mut stream).await;
        assert!(told.starts_with("HTTP/1.1 431") && told.contains("HX0074"), "{told}");
    }
}

/// A server that stops has callers who wait for somebody else's attempt. They cannot know whether it ran if the connection
/// just ends; it is in flight, and that is what they are told.
#[tokio::test]
async fn who_waits_is_told_that_it_is_in_flight_when_the_server_stops() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    assert_eq!(begin(&client, json!({})).await.0, 200);
    let activity = |nonce: &str| {
        json!({
            "run": "r1", "node": "n1", "ordinal": 0, "provider": "mail:send", "request": {}, "wait_ms": 30_000,
            "nonce": nonce,
        })
    };
    let claim = activity("00000000000000000000000000000001");
    let (status, told) = ask(&client, "POST", "/v1/activities:claim", claim).await;
    assert_eq!(status, 200, "{told}");
    let waiting = |number: u8| {
        let (client, claim) = (daemon.client(), activity("00000000000000000000000000000002"));
        tokio::spawn(async move {
            match number {
                0 => begin(&client, json!({ "wait_ms": 30_000 })).await,
                1 => begin(&client, json!({ "wait_ms": 30_000, "nonce": "00000000000000000000000000000003" })).await,
                _ => ask(&client, "POST", "/v1/activities:claim", claim).await,
            }
        })
    };
    let waiters = [waiting(0), waiting(1), waiting(2)];
    while daemon.engine.stats().joined < 3 {
        sleep(Duration::from_millis(5)).await;
    }
    let since = Instant::now();
    daemon.server.stop();
    for waiter in waiters {
        let (status, told) = timeout(Duration::from_secs(20), waiter).await.unwrap().unwrap();
        assert_eq!((status, &told["verdict"]), (409, &json!("in_flight")), "{told}");
        assert!(told["retry_after_ms"].as_u64().unwrap() > 0, "{told}");
    }
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
}
