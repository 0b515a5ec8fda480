//! Clients that leave.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::support::{Client, LONG, Server, full, millis, patient};
use bytes::Bytes;
use hapax_http1::Lost;
use http::Response;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
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

/// A body that is always ready to say nothing.
struct Nothing(#[allow(dead_code, reason = "it says when this is dropped")] Held);

impl Body for Nothing {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
    }
}

/// Who said nothing over and over had a thread to itself: nobody else was served there, and nobody saw its client leave.
#[tokio::test]
async fn an_answer_of_nothing_holds_up_nobody() {
    let (held, mut let_go) = mpsc::channel(1);
    let server = Server::start(patient(), move |request| {
        let held = Held(held.clone());
        async move {
            if request.uri().path() == "/nothing" { Response::new(Nothing(held).boxed_unsync()) } else { full("else") }
        }
    });
    let mut endless = Client::to(&server).await;
    endless.send("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(endless.head().await.status, 200);
    let mut other = Client::to(&server).await;
    other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(other.answer().await.text(), "else");
    timeout(LONG, let_go.recv()).await.expect("the other's").unwrap();
    assert!(let_go.try_recv().is_err(), "it goes on");
    drop(endless);
    timeout(LONG, let_go.recv()).await.expect("it is let go").unwrap();
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
