//! An answer with a long head is an answer.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{fmt::Write as _, net::SocketAddr};

use crate::support::{Dir, Gateway, Reply, Start, Upstream, post};
use bytes::Bytes;

/// How many headers an answer to this path has, and how long each of them is.
fn asked_for(path: &str) -> (usize, usize) {
    let (count, length) = path.trim_start_matches('/').split_once('-').unwrap();
    (count.parse().unwrap(), length.parse().unwrap())
}

fn http1() -> Upstream {
    Upstream::new(|asked, _, _| {
        let (count, length) = asked_for(&asked.path);
        let mut text = "HTTP/1.1 201 Said\r\nContent-Length: 4\r\n".to_owned();
        for number in 0..count {
            let _ = write!(text, "X-{number}: {}\r\n", "v".repeat(length));
        }
        Reply::Bytes((text + "\r\ndone").into_bytes())
    })
}

fn http2() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer_all(stream));
            }
        });
    });
    address
}

async fn answer_all(stream: tokio::net::TcpStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (count, length) = asked_for(request.uri().path());
        let mut answer = http::Response::builder().status(201);
        for number in 0..count {
            answer = answer.header(format!("x-{number}"), "v".repeat(length));
        }
        let mut stream = respond.send_response(answer.body(()).unwrap(), false).unwrap();
        stream.send_data(Bytes::from_static(b"done"), true).unwrap();
    }
}

fn whole(gateway: &Gateway, count: usize, length: usize) {
    let answer = post(gateway.address, &format!("/{count}-{length}"), "k1", "{}");
    assert_eq!((answer.status, answer.text().as_str()), (201, "done"), "{count} headers of {length} bytes");
    let came = answer.headers.iter().filter(|(name, value)| name.starts_with("x-") && value.len() == length);
    assert_eq!(came.count(), count);
}

/// Nobody can say what such an answer was, so what was done stays in doubt.
fn lost(gateway: &Gateway, count: usize, length: usize) {
    let path = format!("/{count}-{length}");
    let answer = post(gateway.address, &path, "k1", "{}");
    assert!(answer.status == 502 && answer.says("\"safe_new_key\":false"), "{}: {}", answer.status, answer.text());
    assert!(post(gateway.address, &path, "k1", "{}").says("\"code\":\"in_doubt\""));
}

/// An upstream that sets a hundred headers had its effect, and its caller was told that nobody knows.
#[test]
fn a_long_head_does_not_leave_a_doubt() {
    let (upstream, dir) = (http1(), Dir::new());
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    whole(&gateway, 120, 10);
    whole(&gateway, 900, 200);
    lost(&gateway, 1_100, 10);
    lost(&gateway, 900, 1_000);
    // The next one is served as ever.
    whole(&gateway, 1, 10);
}

#[test]
fn nor_does_it_over_http2() {
    let (upstream, dir) = (http2(), Dir::new());
    let file = format!("[upstream.default]\nurl = \"http://{upstream}\"\nprotocol = \"http2\"\n");
    let gateway = Start::at(&dir).file(&file).go();
    whole(&gateway, 120, 10);
    whole(&gateway, 200, 1_000);
    lost(&gateway, 300, 1_000);
    whole(&gateway, 1, 10);
}
