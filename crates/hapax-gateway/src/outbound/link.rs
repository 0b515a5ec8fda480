//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! No task of its own: the request's task polls the connection while it sends and reads, so an answer costs no change
//! of tasks. Lying in the pool nobody polls it; it is looked at when it is taken.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax_http1::client::{Client, Most};
use http::{Request, Response};
use tokio::{
    runtime::{self, Handle},
    time::Instant,
};

use super::{
    failure::{Failure, told},
    link_body::LinkBody,
    pool::{Place, Pool},
    shares::Share,
    wire::Wire,
};
use crate::body::Out;

/// What the head of an answer may be. An answer with more is lost, and what was done stays in doubt: so this is far more than upstreams send,
/// and no more than bounds what one of them makes us hold.
const MOST: Most = Most { headers: 1_000, head_bytes: 400 * 1024 };

pub(crate) struct Link {
    pub(super) client: Client<Wire, Out>,
    pub(super) idle_since: Instant,
    /// The runtime that looks after it.
    pub(super) home: runtime::Id,
    /// It lives as long as the connection.
    _place: Place,
}

/// The body of an answer.
pub(super) enum Answer {
    /// It came with its head, and its connection has been given back.
    Whole(Bytes),
    Coming(Box<LinkBody>),
}

impl Answer {
    /// On whose account the connection is held, as long as it is.
    pub(super) fn on(self, share: Share) -> Out {
        match self {
            Self::Whole(bytes) => Out::whole(bytes),
            Self::Coming(body) => Out::link(body.on(share)),
        }
    }
}

impl Link {
    pub(super) fn new(wire: Wire, place: Place) -> Self {
        let (client, home) = (Client::new(wire, MOST), Handle::current().id());
        Self { client, idle_since: Instant::now(), home, _place: place }
    }

    /// Whether a request can be sent now. The other side may have closed it meanwhile, which shows only here.
    pub(super) fn is_fit(&mut self, cx: &mut Context<'_>) -> bool {
        self.client.is_fit(cx)
    }

    /// Sends, and waits for the head of the answer. A request that was certainly not sent comes back.
    pub(super) async fn exchange(
        mut self: Box<Self>,
        request: Box<Request<Out>>,
        reusable: bool,
        pool: &Arc<Pool>,
    ) -> Result<Response<Answer>, (Failure, Option<Box<Request<Out>>>)> {
        if !poll_fn(|cx| Poll::Ready(self.is_fit(cx))).await {
            return Err((Failure::NotSent("it was closed".to_owned()), Some(request)));
        }
        let head = match self.client.exchange(*request).await {
            Ok(head) => head,
            Err(fault) => {
                let why = told(&fault);
                let nothing_sent = !self.client.has_sent() && self.client.io().tells_of_every_byte();
                return Err((if nothing_sent { Failure::NotSent(why) } else { Failure::Broke(why) }, None));
            }
        };
        let answer = match self.client.whole() {
            Some(bytes) => {
                self.done(reusable.then_some(pool));
                Answer::Whole(bytes)
            }
            None => {
                let most = pool.timing.body_idle;
                Answer::Coming(Box::new(LinkBody::new(self, reusable.then(|| Arc::clone(pool)), most)))
            }
        };
        Ok(head.map(|()| answer))
    }

    /// All of its answer came: whoever is next may use the connection, unless there is something about it.
    pub(super) fn done(mut self: Box<Self>, pool: Option<&Arc<Pool>>) {
        if let Some(pool) = pool
            && self.client.is_at_rest()
        {
            pool.put(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::outbound::{Account, Protocol, Timing};

    /// An upstream that says the same on every request, and how many connections it has seen.
    async fn upstream(said: &'static str, closes: bool) -> (Arc<Pool>, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(answer(stream, said, closes));
            }
        });
        (Pool::new(target, Protocol::Http1, Timing::default(), None), connections)
    }

    async fn answer(mut stream: TcpStream, said: &str, closes: bool) {
        let mut asked = Vec::new();
        while stream.read_buf(&mut asked).await.is_ok_and(|count| count > 0) {
            if asked.ends_with(b"{}") {
                asked.clear();
                stream.write_all(said.as_bytes()).await.unwrap();
                if closes {
                    return;
                }
            }
        }
    }

    async fn asked(pool: &Arc<Pool>, reusable: bool) -> Response<Out> {
        let request = Request::post("/pay").header("host", "a").body(Out::whole(Bytes::from_static(b"{}"))).unwrap();
        let taken = pool.take(&Account::Sole).await.unwrap();
        taken.send(Box::new(request), reusable, pool).await.unwrap()
    }

    const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";

    /// Whoever reads an answer slowly, or not at all, holds no connection for what is here already.
    #[tokio::test]
    async fn an_answer_that_came_whole_has_given_its_connection_back() {
        let (pool, connections) = upstream(WHOLE, false).await;
        let unread = [asked(&pool, true).await, asked(&pool, true).await, asked(&pool, true).await];
        assert_eq!(connections.load(Ordering::SeqCst), 1);
        for answer in unread {
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
        }
        // Not where the request was such that it may have been left unread.
        drop([asked(&pool, false).await, asked(&pool, false).await]);
        assert_eq!(connections.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn an_answer_in_chunks_gives_its_connection_back_at_its_end() {
        let (pool, connections) = upstream(CHUNKED, false).await;
        let first = asked(&pool, true).await;
        let second = asked(&pool, true).await;
        assert_eq!(connections.load(Ordering::SeqCst), 2);
        for answer in [first, second] {
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
        }
        drop([asked(&pool, true).await, asked(&pool, true).await]);
        assert_eq!(connections.load(Ordering::SeqCst), 2);
        drop(asked(&pool, true).await);
        assert_eq!(connections.load(Ordering::SeqCst), 3, "dropped half-way it is of no use");
    }

    /// Also to whoever asks again after the error: half an answer is never a whole one.
    #[tokio::test]
    async fn an_answer_that_broke_off_stays_broken() {
        let (pool, _) = upstream("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true).await;
        let mut body = asked(&pool, true).await.into_body();
        assert_eq!(body.size_hint().exact(), Some(10));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
        for _ in 0..3 {
            let again = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            assert!(again.unwrap().is_err() && !body.is_end_stream() && body.size_hint().exact() != Some(0));
        }
    }
}
