//! What a request still has to say when its answer is there.

use std::time::Duration;

use crate::support::{Client, Server, echo, full, millis, patient, whole, with};
use tokio::time::{sleep, timeout};

/// What is sent before its turn, and is more than anything on its way has room for.
const MUCH: usize = 4 * 1024 * 1024;

fn post(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

/// A client with a pool sends the head, then the body. Refused by its head alone, it lost its connection over some bytes.
#[tokio::test]
async fn a_short_rest_is_read_away_and_the_connection_lives_on() {
    let server = Server::start(patient(), |request| async move { full(request.uri().path().to_owned()) });
    let mut client = Client::to(&server).await;
    for _ in 0..3 {
        client.send(post("/counted", 4_000)).await;
        client.send_slowly([&[b'x'; 1_000][..], &[b'x'; 3_000]]).await;
        let answer = client.answer().await;
        assert_eq!(answer.text(), "/counted");
        assert!(!answer.says("connection: close"));
        client.send("POST /chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.send_slowly([&b"5\r\nhel"[..], b"lo\r\n0\r\n", b"X: y\r\n\r\n"]).await;
        assert_eq!(client.answer().await.text(), "/chunked");
    }
}

/// A server that answers and closes while its client is still sending has the answer taken back by a reset: the client knows that
/// something broke, and not that it was refused.
#[tokio::test]
async fn who_is_still_sending_reads_the_whole_refusal() {
    let refusal = "no".repeat(30_000);
    let words = refusal.clone();
    let server = Server::start(patient(), move |_| {
        let words = words.clone();
        async { full(words) }
    });
    let mut client = Client::to(&server).await;
    client.send(post("/upload", 1 << 30)).await;
    for _ in 0..20 {
        client.send("x".repeat(16 * 1024)).await;
        sleep(millis(10)).await;
    }
    let answer = client.answer().await;
    assert!(answer.says("connection: close"));
    assert_eq!(answer.text(), refusal);
    client.finish().await;
    assert!(client.read_out().await.is_empty());
}

/// The same for somebody whose next requests are on their way when it is told that this was the last.
#[tokio::test]
async fn requests_behind_the_last_one_do_not_take_back_its_answer() {
    let server = Server::start(patient(), |_| async { full("last".repeat(15_000)) });
    let mut client = Client::to(&server).await;
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n".repeat(5_000)).await;
    sleep(millis(100)).await;
    let answer = client.answer().await;
    assert!(answer.says("connection: close"));
    assert_eq!(answer.text(), "last".repeat(15_000));
    client.finish().await;
    assert!(client.read_out().await.is_empty());
}

/// A body that is read after its answer began: what is said comes back while more of it is still to be said.
#[tokio::test]
async fn an_echo_answers_while_it_listens() {
    let server = Server::start(patient(), |request| async { echo(request) });
    let mut client = Client::to(&server).await;
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.head().await;
    for word in ["one", "two", "six"] {
        let chunk = format!("3\r\n{word}\r\n");
        client.send(&chunk).await;
        assert_eq!(client.take(chunk.len()).await, chunk.as_bytes());
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.take(5).await, b"0\r\n\r\n");
    // And what it has of a length it knows.
    client.send(post("/", 6)).await;
    assert_eq!(client.head().await.value("content-length"), Some("6"));
    for word in ["one", "two"] {
        client.send(word).await;
        assert_eq!(client.take(3).await, word.as_bytes());
    }
    client.send(post("/", 5) + "hello").await;
    assert_eq!(client.answer().await.text(), "hello");
}

/// A service that has heard enough answers before the last chunk came. That chunk says nothing, and the connection is not lost over it.
#[tokio::test]
async fn an_answer_before_the_last_chunk_ends_no_connection() {
    let server = Server::start(patient(), |request| async {
        let mut answer = echo(request);
        answer.headers_mut().insert("content-length", 5.into());
        answer
    });
    let mut client = Client::to(&server).await;
    for _ in 0..2 {
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        assert!(!client.head().await.says("connection: close"));
        client.send("0\r\n\r\n").await;
        assert_eq!(client.take(5).await, b"hello");
    }
}

/// Somebody who will be closed on anyway gets its answer at once, and not when it has ended a pause.
#[tokio::test]
async fn nobody_waits_for_the_rest_of_a_request_on_a_connection_that_ends() {
    let server = Server::start(patient(), |_| async {
        let mut answer = full("no");
        answer.headers_mut().insert("connection", "close".parse().unwrap());
        answer
    });
    let mut client = Client::to(&server).await;
    client.send(post("/", 10)).await;
    let answer = timeout(Duration::from_secs(5), client.answer()).await.unwrap();
    assert_eq!((answer.text(), answer.says("connection: close")), ("no", true));
}

/// Who sends much before it reads anything, and who is read from slowly, wait for each other only as long as there is room.
#[tokio::test]
async fn a_long_echo_goes_in_both_directions_at_once() {
    let server = Server::start(patient(), |request| async { echo(request) });
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (from, mut to) = stream.into_split();
    let text: Vec<u8> = (0..MUCH).map(|at| (at % 251) as u8).collect();
    let said = text.clone();
    let sending = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        to.write_all(post("/", MUCH).as_bytes()).await.unwrap();
        to.write_all(&said).await.unwrap();
        to
    });
    let mut client = Client::over(tokio::io::join(from, tokio::io::sink()));
    assert!(client.answer().await.body == text);
    drop(sending.await.unwrap());
}

/// The body of a refused request came late, after a long wait for it. That wait is over: the connection is a fresh one, and whoever
/// pauses on it for less than it may is not cut off.
#[tokio::test]
async fn a_wait_for_a_body_that_was_given_up_is_not_held_against_the_next_request() {
    let idle = Duration::from_secs(1);
    let server = Server::start(with(|limits| limits.idle = idle), move |request| async move {
        let read = timeout(idle + millis(200), whole(request.into_body())).await;
        full(if read.is_ok() { "heard" } else { "given up" })
    });
    let mut client = Client::to(&server).await;
    client.send(post("/", 5)).await;
    sleep(idle + millis(400)).await;
    client.send("hello").await;
    assert_eq!(client.answer().await.text(), "given up");
    sleep(millis(200)).await;
    client.send(post("/", 5) + "hello").await;
    assert_eq!(client.answer().await.text(), "heard");
}
