//! What is left of a connection when its answer is at its end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::*;

/// What one reader takes for surplus is the next client's answer.
#[tokio::test]
async fn who_says_more_than_its_answer_is_not_asked_again() {
    for said in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
    ] {
        let answered = answer(said).await.unwrap();
        assert!(answered.body.is_some() && !answered.rests, "{said:?}");
        // Nor where it comes by itself.
        let (end, surplus) = said.split_at(said.len() - 1);
        let script = Script::saying([end, surplus]);
        let mut client = Client::new(script, MOST);
        let head = client.exchange(of("POST")).await.unwrap();
        read_on(&mut client, &head).await;
        // It shows as soon as it is there.
        let fit = poll_fn(|cx| {
            let first = client.is_fit(cx);
            Poll::Ready(first && client.is_fit(cx))
        });
        assert!(!fit.await, "{said:?}");
    }
}

#[tokio::test]
async fn who_has_closed_meanwhile_is_not_asked() {
    for script in [Script::saying([b""; 0]).closed(), Script::saying([b""; 0]).reset(), Script::saying(["hello?"])] {
        let mut script = script;
        script.listens_to = 0;
        let mut client: Client<_, Sent> = Client::new(script, MOST);
        let looks = poll_fn(|cx| Poll::Ready([client.is_fit(cx), client.is_fit(cx)]));
        // Each thing comes after a pause.
        assert_eq!(looks.await, [true, false]);
    }
}

/// A task that has used up its turn is told that nothing has happened, whatever has. A connection that was closed meanwhile is found out all the same.
#[tokio::test]
async fn who_has_closed_is_found_out_by_whoever_has_had_its_turn() {
    let (near, far) = tokio::io::duplex(100);
    let mut client: Client<_, Sent> = Client::new(near, MOST);
    assert!(poll_fn(|cx| Poll::Ready(client.is_fit(cx))).await);
    drop(far);
    let fit = poll_fn(|cx| {
        while tokio::task::coop::has_budget_remaining() {
            let Poll::Ready(used) = tokio::task::coop::poll_proceed(cx) else { break };
            used.made_progress();
        }
        Poll::Ready(client.is_fit(cx))
    });
    assert!(!fit.await);
}

/// Nobody can have answered what was not sent: such an answer is another one's.
#[tokio::test]
async fn an_answer_to_nothing_is_nobodys() {
    let (near, mut far) = tokio::io::duplex(64);
    let mut client = Client::new(Slow(near), MOST);
    far.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    let asked = client.exchange(post(Sent::whole("{}"))).await;
    assert!(matches!(asked, Err(Fault::Unasked)) && !client.has_sent());
}

/// It takes nothing.
#[derive(Debug)]
struct Slow(tokio::io::DuplexStream);

impl tokio::io::AsyncRead for Slow {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Slow {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An answer that comes whole costs one write and one read.
#[tokio::test]
async fn a_small_request_is_one_write_and_its_answer_one_read() {
    let script = Script::saying(["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]);
    let seen = std::sync::Arc::clone(&script.seen);
    let mut client = Client::new(script, MOST);
    let head = client.exchange(post(Sent::whole("{}"))).await.unwrap();
    assert!(read_on(&mut client, &head).await.rests);
    let seen = seen.lock();
    assert_eq!((seen.writes, seen.reads), (1, 1));
    assert_eq!(seen.text(), "POST /pay?x=1 HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}");
}

/// The same connection carries one after the other.
#[tokio::test]
async fn many_requests_follow_each_other() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (ours, mut theirs) = tokio::io::duplex(100);
    tokio::spawn(async move {
        let mut asked = Vec::new();
        while theirs.read_buf(&mut asked).await.unwrap() > 0 {
            if asked.ends_with(b"{}") {
                asked.clear();
                theirs.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n").await.unwrap();
                theirs.write_all(&[b'a'; 200]).await.unwrap();
            }
        }
    });
    let mut client = Client::new(ours, MOST);
    for _ in 0..10 {
        assert!(poll_fn(|cx| Poll::Ready(client.is_fit(cx))).await);
        client.exchange(post(Sent::whole("{}"))).await.unwrap();
        let mut length = client.whole().unwrap_or_default().len();
        while let Some(frame) = poll_fn(|cx| client.poll_frame(cx)).await {
            length += frame.unwrap().into_data().unwrap().len();
        }
        assert!(length == 200 && client.is_at_rest());
    }
}
