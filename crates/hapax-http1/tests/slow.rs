//! Clients that take their time to ask. Whatever a stranger can hold on to ends by itself.

use std::time::Duration;

use crate::support::{Client, LONG, Log, Server, full, millis, whole, with};
use hapax_http1::{Incoming, Lost};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, sleep};

const LIMIT: Duration = millis(300);
/// A busy machine may be late, but not by this much.
const LATE: Duration = millis(6_000);

async fn is_cut(client: &mut Client) -> Duration {
    let since = Instant::now();
    let said = client.closed().await;
    assert!(said.is_empty(), "{:?}", String::from_utf8_lossy(&said));
    since.elapsed()
}

/// One byte now and then kept a connection for ever.
#[tokio::test]
async fn a_head_that_drips_is_cut_off() {
    let log = Log::default();
    let asked = log.clone();
    let server = Server::start(with(|limits| limits.head = LIMIT), move |request| {
        asked.note(&request);
        async { full("served") }
    });
    let mut client = Client::to(&server).await;
    // Its first request is a quick one; it pauses for longer than a head may take, before there is one.
    client.send("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.answer().await;
    sleep(2 * LIMIT).await;
    let since = Instant::now();
    for byte in "GET /slow HTTP/1.1\r\nHost: a\r\n".bytes().chain(std::iter::repeat(b'x')) {
        sleep(LIMIT / 6).await;
        if client.try_send([byte]).await.is_err() {
            break;
        }
        assert!(since.elapsed() < LATE, "it drips on");
    }
    assert!(since.elapsed() > LIMIT);
    assert_eq!(log.all(), ["/quick"]);
}

#[tokio::test]
async fn a_head_that_stops_is_cut_off() {
    let server = Server::start(with(|limits| limits.head = LIMIT), |_| async { full("served") });
    for begun in ["G", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r"] {
        let mut client = Client::to(&server).await;
        client.send(begun).await;
        let after = is_cut(&mut client).await;
        assert!(after > LIMIT / 2 && after < LATE, "{after:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_cut_off() {
    let server = Server::start(with(|limits| limits.idle = LIMIT), |_| async { full("served") });
    let mut client = Client::to(&server).await;
    assert!(is_cut(&mut client).await < LATE);
    let mut client = Client::to(&server).await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    client.answer().await;
    let after = is_cut(&mut client).await;
    assert!(after > LIMIT / 2 && after < LATE, "{after:?}");
}

/// The reader of a body that does not come on is told so, as often as it asks, and never that this was all.
async fn told_of(mut body: Incoming) -> &'static str {
    let lost = loop {
        match body.frame().await.expect("it is not whole") {
            Ok(_) => {}
            Err(lost) => break lost,
        }
    };
    for _ in 0..3 {
        assert_eq!(body.frame().await.expect("it is not whole").unwrap_err(), lost);
        assert!(!body.is_end_stream() && body.size_hint().exact() != Some(0));
    }
    if lost == Lost::TooSlow { "too slow" } else { "something else" }
}

#[tokio::test]
async fn a_body_that_stops_is_given_up() {
    let server = Server::start(with(|limits| limits.body_pause = LIMIT), |request| async {
        full(told_of(request.into_body()).await)
    });
    for begun in [
        "Content-Length: 10\r\n\r\n",
        "Content-Length: 10\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let mut client = Client::to(&server).await;
        let since = Instant::now();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{begun}")).await;
        let answer = client.answer().await;
        assert_eq!((answer.text(), answer.says("connection: close")), ("too slow", true), "{begun:?}");
        assert!(since.elapsed() > LIMIT / 2 && since.elapsed() < LATE, "{begun:?}: {:?}", since.elapsed());
        client.finish().await;
        assert!(client.read_out().await.is_empty(), "{begun:?}");
    }
}

/// What counts is the pause, not the whole: who sends on is heard, however long that takes, and so is who is kept waiting by us.
#[tokio::test]
async fn a_body_that_comes_on_is_heard_to_its_end() {
    let pause = millis(1_000);
    let server = Server::start(with(|limits| limits.body_pause = pause), move |request| async move {
        sleep(pause + millis(200)).await;
        full(whole(request.into_body()).await.unwrap_or_else(|_| "lost".into()))
    });
    let mut client = Client::to(&server).await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n").await;
    let since = Instant::now();
    sleep(pause + millis(200)).await;
    for byte in b"in parts" {
        sleep(pause / 5).await;
        client.send([*byte]).await;
    }
    assert_eq!(client.answer().await.text(), "in parts");
    assert!(since.elapsed() > pause && since.elapsed() < LONG);
}
