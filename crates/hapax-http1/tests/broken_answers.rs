//! Answers that cannot be finished. Whoever reads half of one must know that it is half.

use crate::support::{Client, Out, Pieces, Server, patient};
use hapax_http1::Lost;
use http::{HeaderValue, header};

fn said(mut answer: Out, length: &'static str) -> Out {
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
    answer
}

/// A payment's answer that looks whole and is not is kept and given again to everybody who asks.
#[tokio::test]
async fn half_an_answer_never_looks_whole() {
    let server = Server::start(patient(), |request| async move {
        let pieces = Pieces::of(["hello", "hello"]);
        match request.uri().path() {
            "/shorter" => said(pieces.answer(), "11"),
            "/longer" => said(pieces.answer(), "9"),
            "/longer-in-its-second-piece" => said(pieces.answer(), "6"),
            "/lost" => pieces.then(Err(Lost::BrokenOff)).answer(),
            "/lost-and-said" => said(pieces.then(Err(Lost::BrokenOff)).answer(), "11"),
            "/lost-at-once" => Pieces::of(Vec::<&str>::new()).then(Err(Lost::BrokenOff)).answer(),
            _ => pieces.answer(),
        }
    });
    for path in ["/shorter", "/longer", "/longer-in-its-second-piece", "/lost", "/lost-and-said", "/lost-at-once"] {
        let mut client = Client::to(&server).await;
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let answer = client.try_answer().await;
        assert!(answer.is_err(), "{path}: {answer:?}");
        assert!(!String::from_utf8_lossy(&client.closed().await).contains("HTTP/1.1"), "{path}: served on");
    }
}
