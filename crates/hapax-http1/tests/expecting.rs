//! `Expect: 100-continue`: who asks before it sends is told to send when its body is wanted, and only then.

use std::sync::Arc;

use crate::support::{Client, LONG, Log, Server, empty, full, millis, patient, whole};
use hapax_http1::{Ahead, serve};
use tokio::{
    io::duplex,
    sync::{Notify, watch},
    time::{sleep, timeout},
};

const ASKS: &str = "POST /pay HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
const GO_ON: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// A gateway that says "go on" before anybody wants the body has it sent for nothing when the request is then refused.
#[tokio::test]
async fn a_body_is_asked_for_when_it_is_wanted_and_not_before() {
    let wanted = Arc::new(Notify::new());
    let wants = Arc::clone(&wanted);
    let server = Server::start(patient(), move |request| {
        let wants = Arc::clone(&wants);
        async move {
            wants.notified().await;
            full(whole(request.into_body()).await.unwrap())
        }
    });
    let mut client = Client::to(&server).await;
    for _ in 0..2 {
        client.send(ASKS).await;
        assert!(client.hears_nothing_for(millis(150)).await, "nobody wants it yet");
        wanted.notify_one();
        assert_eq!(client.take(GO_ON.len()).await, GO_ON.as_bytes());
        client.send("hello").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        assert!(!answer.says("connection: close"));
    }
}

/// The body of a refused request may come or not: what follows its head cannot be told apart, so nothing is read there.
#[tokio::test]
async fn a_refused_body_is_never_asked_for_and_ends_the_connection() {
    let log = Log::default();
    let asked = log.clone();
    let server = Server::start(patient(), move |request| {
        asked.note(&request);
        async { empty(413) }
    });
    let mut client = Client::to(&server).await;
    client.send(ASKS).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 413, "{}", answer.head);
    assert!(answer.says("connection: close"));
    let _closed_already = client.try_send("GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(client.closed().await.is_empty());
    assert_eq!(log.all(), ["/pay"]);
}

#[tokio::test]
async fn who_has_begun_to_send_is_not_asked() {
    let server = Server::start(patient(), |request| async move { full(whole(request.into_body()).await.unwrap()) });
    let mut client = Client::to(&server).await;
    client.send(format!("{ASKS}he")).await;
    assert!(client.hears_nothing_for(millis(100)).await);
    client.send("llo").await;
    assert_eq!(client.answer().await.text(), "hello");
    client.send(format!("{ASKS}hello")).await;
    assert_eq!(client.answer().await.text(), "hello");
}

/// The answer before it fills the way to the client to its last byte. The word to go on has to wait, and must not be forgotten:
/// each side would wait for the other until the request is given up.
#[tokio::test]
async fn the_word_to_go_on_is_not_lost_when_there_is_no_room_for_it() {
    const ROOM: usize = 64;
    let service = |request: http::Request<_>| async move {
        let body = whole(request.into_body()).await.unwrap();
        if body.is_empty() { full("x".repeat(1_000)) } else { full(body) }
    };
    let (near, far) = duplex(ROOM);
    let mut client = Client::over(near);
    let (_stop, stopping) = watch::channel(false);
    tokio::spawn(async move { serve(far, Ahead::default(), &patient(), stopping, service).await });

    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.head().await;
    // Of the answer exactly as much is left as there is room for.
    client.take(1_000 - ROOM).await;
    client.send(ASKS).await;
    sleep(millis(100)).await;
    client.take(ROOM).await;
    let go_on = timeout(LONG / 4, client.take(GO_ON.len())).await.expect("it is told to go on");
    assert_eq!(go_on, GO_ON.as_bytes());
    client.send("hello").await;
    assert_eq!(client.answer().await.text(), "hello");
}
