//! How an answer says where it ends.

use crate::support::{Client, Pieces, Server, empty, full, patient};
use http::{HeaderValue, header};

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Answers of every kind, with and without a length of their own.
fn server() -> Server {
    Server::start(patient(), |request| async move {
        let said = |mut answer: crate::support::Out, length: &'static str| {
            answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
            answer
        };
        let with_status = |mut answer: crate::support::Out, status: u16| {
            *answer.status_mut() = status.try_into().unwrap();
            answer
        };
        match request.uri().path() {
            "/five" => full("hello"),
            "/said" => said(empty(200), "7"),
            "/unknown" => Pieces::of(["hel", "", "lo"]).answer(),
            "/said-and-unknown" => said(Pieces::of(["hel", "", "lo"]).answer(), "5"),
            "/204" => with_status(full("never sent"), 204),
            "/204-said" => said(empty(204), "5"),
            "/304" => said(empty(304), "5"),
            "/304-unsaid" => with_status(full("hello"), 304),
            "/interim" => empty(103),
            _ => empty(404),
        }
    })
}

/// A body after an answer that has none is the beginning of the next answer to whoever reads it.
#[tokio::test]
async fn answers_without_a_body_have_none_and_say_the_right_length() {
    let server = server();
    let mut client = Client::to(&server).await;
    for (method, path, status, length) in [
        ("HEAD", "/five", 200, Some("5")),
        ("HEAD", "/said", 200, Some("7")),
        ("HEAD", "/unknown", 200, None),
        ("HEAD", "/204-said", 204, None),
        ("HEAD", "/304", 304, Some("5")),
        ("GET", "/204", 204, None),
        ("GET", "/204-said", 204, None),
        ("GET", "/304", 304, Some("5")),
        ("GET", "/304-unsaid", 304, Some("5")),
    ] {
        // What comes behind it tells where it ended.
        client.send(request(method, path) + &request("GET", "/five")).await;
        let answer = client.head().await;
        assert_eq!((answer.status, answer.value("content-length")), (status, length), "{method} {path}");
        assert_eq!(answer.value("transfer-encoding"), None, "{method} {path}");
        let next = client.answer().await;
        assert_eq!((next.status, next.text()), (200, "hello"), "{method} {path}");
    }
}

#[tokio::test]
async fn a_length_is_said_once_and_is_that_of_the_body() {
    let server = server();
    let mut client = Client::to(&server).await;
    for (path, body) in [("/five", "hello"), ("/said", ""), ("/said-and-unknown", "hello"), ("/none", "")] {
        client.send(request("GET", path)).await;
        let answer = client.answer().await;
        assert_eq!(answer.text(), body, "{path}");
        assert_eq!(answer.head.matches("content-length").count(), 1, "{path}");
        assert_eq!(answer.value("content-length"), Some(body.len().to_string().as_str()), "{path}");
        assert!(answer.value("date").is_some_and(|date| date.ends_with(" GMT")), "{path}");
    }
}

/// An empty piece in the middle would be the last chunk, and the rest of the answer the beginning of the next.
#[tokio::test]
async fn an_answer_of_unknown_length_is_chunked() {
    let server = server();
    let mut client = Client::to(&server).await;
    client.send(request("GET", "/unknown") + &request("GET", "/five")).await;
    let answer = client.answer().await;
    assert!(answer.says("transfer-encoding: chunked"));
    assert_eq!((answer.text(), answer.value("content-length")), ("hello", None));
    assert_eq!(client.answer().await.text(), "hello");
}

/// Who speaks HTTP/1.0 knows no chunks, and would take their sizes for the body.
#[tokio::test]
async fn an_answer_of_unknown_length_ends_with_the_connection_for_old_clients() {
    let server = server();
    let mut client = Client::to(&server).await;
    client.send("GET /unknown HTTP/1.0\r\n\r\nGET /five HTTP/1.0\r\n\r\n").await;
    let answer = client.head().await;
    assert!(answer.says("connection: close"), "{}", answer.head);
    assert_eq!(answer.value("transfer-encoding"), None);
    assert_eq!(client.read_out().await, b"hello");
}

/// What comes after an interim answer is taken for the final one: the answer to somebody's next request would be.
#[tokio::test]
async fn an_interim_answer_is_the_last_of_its_connection() {
    let server = server();
    let mut client = Client::to(&server).await;
    client.send(request("GET", "/interim") + &request("GET", "/five")).await;
    let answer = client.head().await;
    assert_eq!((answer.status, answer.says("connection: close")), (103, true));
    assert!(client.closed().await.is_empty());
}
