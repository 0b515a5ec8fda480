//! However the network cuts what is asked, it is the same requests, and they are answered in their order.

use crate::support::{Client, Server, full, millis, patient, whole};
use tokio::time::sleep;

const THREE: &str = "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
    GET /second HTTP/1.1\r\nHost: a\r\n\r\n\
    POST /third HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX: y\r\n\r\n";

/// Says what it was asked and what came with it; the first takes longer than those behind it.
fn telling() -> Server {
    Server::start(patient(), |request| async move {
        let path = request.uri().path().to_owned();
        if path == "/first" {
            sleep(millis(5)).await;
        }
        let body = whole(request.into_body()).await.unwrap();
        full(format!("{path} {}", String::from_utf8_lossy(&body)))
    })
}

async fn are_answered(client: &mut Client) {
    for told in ["/first hello", "/second ", "/third abcdefg"] {
        assert_eq!(client.answer().await.text(), told);
    }
}

/// A client that sends its next request without waiting took the answer to another one for its own.
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = telling();
    let mut client = Client::to(&server).await;
    for _ in 0..3 {
        client.send(THREE).await;
        are_answered(&mut client).await;
    }
    // Nobody waits for an answer before all have been asked.
    client.send(THREE.repeat(40)).await;
    for _ in 0..40 {
        are_answered(&mut client).await;
    }
}

#[tokio::test]
async fn a_request_that_drips_is_the_same_request() {
    let server = telling();
    let mut client = Client::to(&server).await;
    client.send_slowly(THREE.as_bytes().chunks(1)).await;
    are_answered(&mut client).await;
    // What was in pieces left nothing behind.
    client.send(THREE).await;
    are_answered(&mut client).await;
}

/// A chunk's line, its data and its end come apart wherever a packet ends.
#[tokio::test]
async fn requests_cut_anywhere_are_the_same_requests() {
    let server = telling();
    let mut client = Client::to(&server).await;
    for cut in 1..THREE.len() {
        let (first, rest) = THREE.as_bytes().split_at(cut);
        client.send_slowly([first, rest]).await;
        are_answered(&mut client).await;
    }
}
