//! What comes after the last chunk.

use crate::support::{Client, Pieces, Server, full, patient};
use http::{HeaderMap, HeaderValue};
use http_body::Frame;
use http_body_util::BodyExt as _;

fn server() -> Server {
    Server::start(patient(), |_| async {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("12"));
        trailers.insert("x-other", HeaderValue::from_static("13"));
        trailers.insert("x-secret", HeaderValue::from_static("14"));
        trailers.insert("set-cookie", HeaderValue::from_static("a=b"));
        trailers.insert("content-length", HeaderValue::from_static("15"));
        let mut answer = Pieces::of(["hello"]).then(Ok(Frame::trailers(trailers))).answer();
        answer.headers_mut().append("trailer", HeaderValue::from_static("X-Sum , x-others"));
        answer.headers_mut().append("trailer", HeaderValue::from_static("x-other, set-cookie, content-length"));
        answer
    })
}

/// A client that never said it takes trailers may take them for headers it trusts, or for the next answer.
#[tokio::test]
async fn trailers_pass_when_announced_and_asked_for() {
    let server = server();
    let mut client = Client::to(&server).await;
    for (lines, passed) in [
        ("TE: trailers\r\n", &["x-sum: 12", "x-other: 13"][..]),
        ("TE: gzip, Trailers\r\n", &["x-sum: 12", "x-other: 13"]),
        ("", &[]),
        ("TE: gzip\r\n", &[]),
    ] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.text(), &answer.trailers[..]),
            ("hello", &passed.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]),
            "{lines:?}"
        );
    }
}

/// A sum that a client sends behind its upload is for whoever reads that.
#[tokio::test]
async fn trailers_of_a_request_reach_its_reader() {
    let server = Server::start(patient(), |request| async {
        let read = request.into_body().collect().await.unwrap();
        let sums: Vec<_> =
            read.trailers().into_iter().flat_map(|trailers| trailers.get_all("x-sum")).cloned().collect();
        full(format!("{sums:?} {:?}", read.to_bytes()))
    });
    let mut client = Client::to(&server).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Sum: 8\r\n\r\n")).await;
    assert_eq!(client.answer().await.text(), "[\"7\", \"8\"] b\"ok\"");
    client.send(format!("{head}0\r\n\r\n")).await;
    assert_eq!(client.answer().await.text(), "[] b\"\"");
}
