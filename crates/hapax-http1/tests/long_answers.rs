//! Answers that do not fit into any buffer on their way.

use crate::support::{Client, Out, Pieces, Server, full, patient};
use http::{HeaderValue, header};

const LENGTH: usize = 5 * 1024 * 1024 + 7;

fn text() -> Vec<u8> {
    (0..LENGTH).map(|at| (at % 251) as u8).collect()
}

/// Cut into pieces of lengths around those at which something is copied, kept or sent by itself; some are empty.
fn in_pieces() -> Vec<Vec<u8>> {
    let (text, mut pieces, mut at) = (text(), Vec::new(), 0);
    for length in [0, 1, 16_383, 16_384, 16_385, 0, 0, 40, 65_536, 300_000, 7].into_iter().cycle() {
        let end = (at + length).min(LENGTH);
        pieces.push(text[at..end].to_vec());
        at = end;
        if at == LENGTH {
            break;
        }
    }
    pieces.push(Vec::new());
    pieces
}

fn said(mut answer: Out) -> Out {
    answer.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(LENGTH));
    answer
}

/// A piece that is written in parts lost its end, or had it written twice, when the next one came.
#[tokio::test]
async fn long_answers_arrive_whole() {
    let server = Server::start(patient(), |request| async move {
        match request.uri().path() {
            "/one" => full(text()),
            "/one-chunk" => Pieces::of([text()]).answer(),
            "/said" => said(Pieces::of(in_pieces()).answer()),
            "/short-pieces" => Pieces::of(text().chunks(100).map(<[u8]>::to_vec)).answer(),
            _ => Pieces::of(in_pieces()).answer(),
        }
    });
    let mut client = Client::to(&server).await;
    for path in ["/one", "/one-chunk", "/said", "/short-pieces", "/pieces"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let answer = client.answer().await;
        assert!(answer.body == text(), "{path}: {} bytes", answer.body.len());
    }
}

/// The same for somebody who knows the end of it by the end of the connection.
#[tokio::test]
async fn long_answers_arrive_whole_before_the_connection_ends() {
    let server = Server::start(patient(), |_| async { Pieces::of(in_pieces()).answer() });
    let mut client = Client::to(&server).await;
    client.send("GET / HTTP/1.0\r\n\r\n").await;
    client.head().await;
    assert!(client.read_out().await == text());
}
