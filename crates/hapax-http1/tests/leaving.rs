//! Clients that leave.

use std::sync::Arc;

use crate::support::{Client, LONG, Server, full, millis, patient};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Says that it was let go.
struct Held(mpsc::Sender<()>);

impl Drop for Held {
    fn drop(&mut self) {
        let _nobody_listens = self.0.try_send(());
    }
}

/// Works that nobody waits for any more pile up until nobody can be served.
#[tokio::test]
async fn the_answer_to_somebody_who_left_is_let_go() {
    let (held, mut let_go) = mpsc::channel(1);
    let server = Server::start(patient(), move |_| {
        let held = Held(held.clone());
        async move {
            sleep(3 * LONG).await;
            drop(held);
            full("nobody waits for it")
        }
    });
    for leaves in [true, false] {
        let mut client = Client::to(&server).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello").await;
        sleep(millis(50)).await;
        assert!(let_go.try_recv().is_err(), "it still waits");
        let kept = if leaves {
            drop(client);
            None
        } else {
            // Closing one side is leaving too, where it is not said otherwise.
            client.finish().await;
            Some(client)
        };
        timeout(LONG, let_go.recv()).await.expect("it is let go").unwrap();
        drop(kept);
    }
}

/// Simple clients close their side when they have asked, and wait for the answer on the other.
#[tokio::test]
async fn who_has_only_said_all_is_answered() {
    let mut manners = patient();
    manners.half_close = true;
    let server = Server::start(manners, |request| async move {
        let path = request.uri().path().to_owned();
        sleep(millis(100)).await;
        full(path)
    });
    let mut client = Client::to(&server).await;
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.finish().await;
    assert_eq!(client.answer().await.text(), "/a");
    assert_eq!(client.answer().await.text(), "/b");
    assert!(client.read_out().await.is_empty());
}

/// The same while it is being answered at length.
#[tokio::test]
async fn who_closes_its_side_while_it_reads_gets_the_rest() {
    let mut manners = patient();
    manners.half_close = true;
    let text = Arc::new("x".repeat(3_000_000));
    let answer = Arc::clone(&text);
    let server = Server::start(manners, move |_| {
        let answer = String::clone(&answer);
        async { full(answer) }
    });
    let mut client = Client::to(&server).await;
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
    sleep(millis(50)).await;
    client.finish().await;
    assert_eq!(client.answer().await.body.len(), text.len());
    assert!(client.read_out().await.is_empty());
}
