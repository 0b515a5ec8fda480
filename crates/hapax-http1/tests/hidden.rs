//! Smuggling: bytes that are part of a body, or stand behind something that was refused, are never read as a request.

use std::sync::Arc;

use crate::support::{Client, LONG, Log, Server, full, millis, with};
use http_body_util::BodyExt as _;
use tokio::time::sleep;

const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
const AFTER: &str = "GET /after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
/// Of what nobody reads, so much is read away.
const REST: usize = 1_000;

/// Answers at once, having read nothing of the body, one piece of it, or leaving all of it with somebody who never reads.
fn careless(log: &Log) -> Server {
    let log = log.clone();
    let manners = with(|limits| (limits.rest.bytes, limits.rest.parting) = (REST, millis(50)));
    Server::start(manners, move |request| {
        log.note(&request);
        async move {
            let path = request.uri().path().to_owned();
            let mut body = request.into_body();
            if path == "/one-piece" {
                let _one = body.frame().await;
            } else if path == "/kept" {
                tokio::spawn(async move {
                    sleep(LONG).await;
                    drop(body);
                });
            }
            full(path)
        }
    })
}

/// Bodies full of requests: in one piece, in chunks, too long to be read away, or behind a question whether to send it.
fn bodies() -> Vec<(&'static str, String, String)> {
    let counted = |times: usize| (format!("Content-Length: {}\r\n", times * HIDDEN.len()), HIDDEN.repeat(times));
    let chunked = |times: usize| {
        let chunk = format!("{:x}\r\n{HIDDEN}\r\n", HIDDEN.len());
        ("Transfer-Encoding: chunked\r\n".to_owned(), chunk.repeat(times) + "0\r\n\r\n")
    };
    let expected = |(lines, body): (String, String)| (lines + "Expect: 100-continue\r\n", body);
    [
        ("counted", counted(3)),
        ("chunked", chunked(3)),
        ("long and counted", counted(300)),
        ("long and chunked", chunked(300)),
        ("counted, and asked for", expected(counted(3))),
        ("chunked, and asked for", expected(chunked(3))),
    ]
    .map(|(name, (lines, body))| (name, lines, body))
    .into()
}

/// Whoever answers without reading the body leaves it on the connection. Read as a request it is one that nobody made, in the name
/// of whoever's connection it is.
#[tokio::test]
async fn what_is_left_of_a_body_is_never_a_request() {
    for (name, lines, body) in bodies() {
        for path in ["/unread", "/one-piece", "/kept"] {
            for cut in [0, 1, 20, HIDDEN.len(), body.len()] {
                let log = Log::default();
                let server = careless(&log);
                let mut client = Client::to(&server).await;
                let (first, rest) = body.split_at(cut);
                client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{first}")).await;
                sleep(millis(3)).await;
                let _closed_already = client.try_send(format!("{rest}{AFTER}")).await;
                client.closed().await;
                let mut asked = log.all();
                assert_eq!(asked.remove(0), path);
                // The next request is served where the body could be passed over, and never taken from the middle of it.
                assert!(asked.is_empty() || asked == ["/after"], "{name}, {path}, cut at {cut}: {asked:?}");
                if cut == body.len() && name == "counted" {
                    assert_eq!(asked, ["/after"], "{path}");
                }
            }
        }
    }
}

/// The bytes behind a head that cannot be read in one way belong to nobody.
#[tokio::test]
async fn nothing_behind_a_refused_head_is_served() {
    let log = Arc::new(Log::default());
    let asked = Arc::clone(&log);
    let server = Server::start(with(|_| ()), move |request| {
        asked.note(&request);
        async { full("served") }
    });
    let many = "X: y\r\n".repeat(30);
    let long = format!("X: {}\r\n", "y".repeat(9_000));
    for (lines, status) in [
        ("Host: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Host: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n", 400),
        ("Host: a\r\nX: y\nContent-Length: 3\r\n", 400),
        ("Host: a\r\nX : y\r\n", 400),
        ("X: y\r\n", 400),
        (many.as_str(), 431),
        (long.as_str(), 431),
    ] {
        let mut client = Client::to(&server).await;
        let before = "GET /before HTTP/1.1\r\nHost: a\r\n\r\n";
        client.send(format!("{before}POST /front HTTP/1.1\r\n{lines}\r\n{HIDDEN}")).await;
        assert_eq!(client.answer().await.text(), "served");
        let refusal = client.answer().await;
        assert_eq!(refusal.status, status, "{lines:?}");
        assert!(refusal.says("connection: close") && !refusal.body.is_empty(), "{lines:?}");
        client.finish().await;
        assert!(client.read_out().await.is_empty(), "{lines:?}");
    }
    assert!(log.all().iter().all(|path| path == "/before"), "{:?}", log.all());
}
