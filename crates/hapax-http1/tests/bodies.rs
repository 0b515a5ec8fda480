//! Bodies that are broken off. A half of a payment that passes for a whole one is executed.

use crate::support::{Client, LONG, Server, empty, millis, patient};
use hapax_http1::{Incoming, Lost};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// What a reader sees at the end of a body: how much came, whether it was said to be whole, and the same again and again.
async fn end_of(mut body: Incoming) -> (usize, Result<(), Lost>) {
    let mut length = 0;
    loop {
        match body.frame().await {
            None => return (length, Ok(())),
            Some(Ok(frame)) => length += frame.data_ref().map_or(0, bytes::Bytes::len),
            Some(Err(lost)) => {
                for _ in 0..3 {
                    assert_eq!(body.frame().await.expect("it never ends").unwrap_err(), lost);
                    assert!(!body.is_end_stream());
                    assert_ne!(body.size_hint().exact(), Some(0));
                }
                return (length, Err(lost));
            }
        }
    }
}

#[tokio::test]
async fn a_body_that_is_broken_off_is_never_whole() {
    let counted = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (head, body) in [(counted, "helloworld"), (chunked, "5\r\nhello\r\n5\r\nworld\r\n0\r\nX: y\r\n\r\n")] {
        for cut in 0..=body.len() {
            for half_close in [false, true] {
                let (ends, mut ended) = mpsc::channel(1);
                let mut manners = patient();
                manners.half_close = half_close;
                let server = Server::start(manners, move |request| {
                    let ends = ends.clone();
                    async move {
                        // Read by somebody else, as the body of a request that is passed on.
                        let _ended = ends.send(end_of(request.into_body()).await).await;
                        empty(200)
                    }
                });
                let mut client = Client::to(&server).await;
                client.send(format!("{head}{}", &body[..cut])).await;
                if cut % 2 == 0 {
                    sleep(millis(2)).await;
                }
                client.finish().await;
                let (length, end) = timeout(LONG, ended.recv()).await.unwrap().unwrap();
                if cut == body.len() {
                    assert_eq!((length, end), (10, Ok(())));
                } else {
                    assert_eq!(end, Err(Lost::BrokenOff), "{head} cut at {cut} after {length}");
                }
            }
        }
    }
}

/// Nothing after a chunk that cannot be read is its body, and what is kept of it is not all.
#[tokio::test]
async fn a_body_that_cannot_be_read_is_never_whole_and_the_last() {
    let (ends, mut ended) = mpsc::channel(1);
    let server = Server::start(patient(), move |request| {
        let ends = ends.clone();
        async move {
            let _ended = ends.send(end_of(request.into_body()).await).await;
            empty(400)
        }
    });
    for body in [
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0x0\r\n\r\n",
        "5\r\nhello\r\n0\r\nHost: b\r\n\r\n",
        "5\r\nhellohello\r\n",
    ] {
        let mut client = Client::to(&server).await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        client.send(format!("{body}GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let (length, end) = timeout(LONG, ended.recv()).await.unwrap().unwrap();
        assert_eq!(length, 5, "{body:?}");
        assert!(matches!(end, Err(Lost::Malformed(_))), "{body:?}: {end:?}");
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.says("connection: close")), (400, true));
        client.finish().await;
        assert!(client.read_out().await.is_empty(), "{body:?}");
        assert!(ended.try_recv().is_err(), "{body:?}");
    }
}

/// A server that is taken down in the middle of a body has not heard all of it.
#[tokio::test]
async fn a_body_whose_connection_is_dropped_is_never_whole() {
    let (ends, mut ended) = mpsc::channel(1);
    let (near, far) = tokio::io::duplex(1_000);
    let (_stop, stopping) = tokio::sync::watch::channel(false);
    let serving = tokio::spawn(async move {
        let service = |request: http::Request<Incoming>| {
            let ends = ends.clone();
            async move {
                tokio::spawn(async move { ends.send(end_of(request.into_body()).await).await });
                std::future::pending::<crate::support::Out>().await
            }
        };
        hapax_http1::serve(far, hapax_http1::Ahead::default(), &patient(), stopping, service).await;
    });
    let mut client = Client::over(near);
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello").await;
    sleep(millis(50)).await;
    serving.abort();
    let (length, end) = timeout(LONG, ended.recv()).await.unwrap().unwrap();
    assert_eq!((length, end), (5, Err(Lost::BrokenOff)));
}
