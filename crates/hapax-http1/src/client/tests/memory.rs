//! What an answer keeps alive, and what a connection does that lies idle.

use super::*;

/// Answers that were kept once held the whole buffer that their connection was read into, sixteen times of what they are.
#[tokio::test]
async fn a_small_answer_holds_no_more_than_itself() {
    let body = "a".repeat(100);
    let said = format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{body}");
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{body}\r\n0\r\n\r\n");
    let closing = format!("HTTP/1.1 200 OK\r\n\r\n{body}");
    for said in [said, chunked, closing] {
        let mut client = Client::new(Script::saying([&said]).closed(), MOST);
        drop(client.exchange(of("POST")).await.unwrap());
        let piece = match client.whole() {
            Some(whole) => whole,
            None => {
                let frame = poll_fn(|cx| client.poll_frame(cx)).await.unwrap().unwrap();
                while poll_fn(|cx| client.poll_frame(cx)).await.is_some() {}
                frame.into_data().unwrap()
            }
        };
        client.is_at_rest();
        // It has all of its memory for itself: nobody else holds any of it.
        let alone = piece.try_into_mut().unwrap();
        assert_eq!(alone.len(), 100);
        assert!(alone.capacity() <= 2 * said.len(), "{} bytes are held for {}", alone.capacity(), said.len());
    }
}

/// A gateway may have thousands of them.
#[tokio::test]
async fn a_connection_at_rest_holds_no_buffer() {
    let mut client = Client::new(Script::saying(["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]), MOST);
    let head = client.exchange(post(Sent::whole("b".repeat(10_000)))).await.unwrap();
    assert!(client.whole().is_some() && client.is_at_rest());
    assert_eq!(client.wire.held(), 0);
    drop(head);
}

/// A long body is written from where it is. Once it is written nobody needs it, least of all a connection that lies idle.
#[tokio::test]
async fn a_connection_at_rest_holds_nothing_of_a_long_request() {
    let mut client = Client::new(Script::saying(["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]), MOST);
    let long = Bytes::from(vec![b'b'; 100_000]);
    client.exchange(post(Sent::whole(long.clone()))).await.unwrap();
    assert!(client.whole().is_some() && client.is_at_rest());
    assert!(long.is_unique());
}
