//! Accidents found on paper, as far as they belong to the layer.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Millis, policy::OnInFlight};
use hapax_http::Limits;
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{App, Held, answer, keyed, policy, rules};

/// C8: a duplicate of request 1 waits; request 1 is released, request 2 under the same key runs and answers. The waiter
/// must never be given the answer to request 2.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c8_a_waiter_never_gets_the_answer_to_another_request() {
    let held = Held::new();
    let handler = held.clone();
    let policy = policy(|policy| policy.on_in_flight = OnInFlight::Wait { most: Millis::from_secs(20) });
    let app = App::serve(policy, rules(), move |request| {
        let held = handler.clone();
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            if body == Bytes::from_static(b"{\"request\":1}") {
                held.wait().await;
                return answer(400, "refused");
            }
            answer(201, "the answer to request 2")
        }
    })
    .await;
    for round in 0..40 {
        let key = format!("k-{round}");
        let (first, waiter) = (keyed(&key), keyed(&key));
        let first = app.send(first, "{\"request\":1}");
        let waiter = app.send(waiter, "{\"request\":1}");
        let second = async {
            held.entered().await;
            while app.engine.waiting() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            held.let_go();
            loop {
                let reply = app.send(keyed(&key), "{\"request\":2}").await;
                if reply.code() == 201 {
                    return reply;
                }
            }
        };
        // Whichever of the two came second is the waiter.
        let (first, waiter, second) = tokio::join!(first, waiter, second);
        assert_eq!(&second.body[..], b"the answer to request 2");
        for reply in [first, waiter] {
            assert!(matches!(reply.code(), 400 | 409 | 422), "round {round}: {reply:?}");
            assert_ne!(reply.body, second.body);
        }
    }
}

/// Sends bytes on one connection and reads what comes until the server closes or is silent for good.
async fn talk(app: &App, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut read = Vec::new();
    stream.read_to_end(&mut read).await.unwrap();
    String::from_utf8(read).unwrap()
}

fn paths(app: &App, seen: &parking_lot::Mutex<Vec<String>>) -> Vec<String> {
    assert_eq!(app.calls(), seen.lock().len());
    seen.lock().clone()
}

async fn noting(rules: hapax_http::Rules) -> (App, std::sync::Arc<parking_lot::Mutex<Vec<String>>>) {
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let paths = seen.clone();
    let app = App::serve(policy(|_| {}), rules, move |request| {
        paths.lock().push(request.uri().path().to_owned());
        async { answer(201, "done") }
    })
    .await;
    (app, seen)
}

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nhost: test\r\n\r\n";

fn carrying(body: &str, key: &str, credential: &str) -> String {
    let length = body.len();
    format!(
        "POST /orders HTTP/1.1\r\nhost: test\r\n{credential}idempotency-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// H2: a replay that leaves its request's body on the connection lets the next request be made of it.
#[tokio::test]
async fn h2_a_replay_leaves_no_unread_body_on_the_connection() {
    let (app, seen) = noting(rules()).await;
    let one = carrying(SMUGGLED, "k", "authorization: acme\r\n");
    let last = "GET /after HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    let read = talk(&app, format!("{one}{one}{last}").as_bytes()).await;
    assert_eq!(read.matches("HTTP/1.1 201").count(), 3, "{read}");
    assert_eq!(read.matches("idempotent-replayed: true").count(), 1, "{read}");
    assert_eq!(paths(&app, &seen), ["/orders", "/after"]);
}

/// H2 for what is refused before its body was read: too large, or nobody's.
#[tokio::test]
async fn h2_a_refusal_leaves_no_unread_body_on_the_connection() {
    let (app, seen) = noting(rules().limits(Limits { request_body: 8, ..Limits::default() })).await;
    let body = format!("{SMUGGLED}{SMUGGLED}");
    for (credential, status) in [("authorization: acme\r\n", "413"), ("", "401")] {
        let read = talk(&app, format!("{}{SMUGGLED}", carrying(&body, "k", credential)).as_bytes()).await;
        assert!(read.starts_with(&format!("HTTP/1.1 {status}")), "{read}");
        assert_eq!(read.matches("HTTP/1.1").count(), 1, "nothing is answered after it: {read}");
    }
    assert!(paths(&app, &seen).is_empty());
}
