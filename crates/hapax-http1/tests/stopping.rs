//! A server that stops.

use std::sync::Arc;

use crate::support::{Client, Log, Server, full, millis, patient};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A pool keeps its connections open for minutes. A server that waits for them does not stop; one that cuts all of them takes
/// answers with it.
#[tokio::test]
async fn idle_connections_end_at_once_and_what_is_under_way_is_answered() {
    let (go_on, log) = (Arc::new(Notify::new()), Log::default());
    let (waits, asked) = (Arc::clone(&go_on), log.clone());
    let server = Server::start(patient(), move |request| {
        asked.note(&request);
        let waits = Arc::clone(&waits);
        async move {
            if request.uri().path() == "/slow" {
                waits.notified().await;
            }
            full(request.uri().path().to_owned())
        }
    });
    let (mut fresh, mut used, mut busy) =
        (Client::to(&server).await, Client::to(&server).await, Client::to(&server).await);
    used.send(get("/quick")).await;
    let answer = used.answer().await;
    assert!(!answer.says("connection: close"));
    busy.send(get("/slow")).await;
    sleep(millis(100)).await;

    let told = Instant::now();
    server.stop.send(true).unwrap();
    assert!(fresh.read_out().await.is_empty());
    assert!(used.read_out().await.is_empty());
    assert!(told.elapsed() < millis(5_000), "{:?}", told.elapsed());
    assert!(busy.hears_nothing_for(millis(50)).await, "it is not cut off");
    busy.send(get("/next")).await;
    go_on.notify_one();
    let answer = busy.answer().await;
    assert_eq!((answer.text(), answer.says("connection: close")), ("/slow", true));
    busy.finish().await;
    assert!(busy.read_out().await.is_empty());
    assert_eq!(log.all(), ["/quick", "/slow"]);
}

/// Whoever could say that the server stops being gone, it has stopped.
#[tokio::test]
async fn connections_end_with_whoever_could_stop_them() {
    let server = Server::start(patient(), |_| async { full("served") });
    let mut client = Client::to(&server).await;
    client.send(get("/")).await;
    client.answer().await;
    drop(server.stop);
    assert!(client.read_out().await.is_empty());
}
