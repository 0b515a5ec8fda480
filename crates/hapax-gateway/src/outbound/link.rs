//! One HTTP/1.1 connection, driven by whoever uses it.
//!
//! No task of its own: the request's task polls the connection while it sends and reads, so an answer costs no change
//! of tasks. Lying in the pool nobody polls it; it is looked at when it is taken.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http1::{Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::{
    runtime::{self, Handle},
    time::Instant,
};

use super::{
    counted::{Counted, Written},
    failure::{Failure, told},
    length::said_once,
    pool::{Place, Pool},
    shares::Share,
};
use crate::{
    body::{BoxError, Out},
    quiet::Quiet,
    timed::SILENT,
};

pub(crate) struct Link {
    sender: SendRequest<Out>,
    connection: Option<Connection<TokioIo<Counted>, Out>>,
    written: Written,
    pub(super) idle_since: Instant,
    /// The runtime that looks after it.
    pub(super) home: runtime::Id,
    /// It lives as long as the connection.
    _place: Place,
}

impl Link {
    pub(super) fn new(
        sender: SendRequest<Out>,
        connection: Connection<TokioIo<Counted>, Out>,
        written: Written,
        place: Place,
    ) -> Self {
        Self {
            sender,
            connection: Some(connection),
            written,
            idle_since: Instant::now(),
            home: Handle::current().id(),
            _place: place,
        }
    }

    /// Moves the connection on. Its end is remembered; why it ended is told to whoever waits for an answer.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.connection = None;
        }
    }

    /// Whether a request can be sent now. The other side may have closed it meanwhile, which shows only here.
    pub(super) fn is_fit(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Sends, and waits for the head of the answer. A request that was certainly not sent comes back.
    pub(super) async fn exchange(
        mut self: Box<Self>,
        request: Box<Request<Out>>,
        reusable: bool,
        pool: &Arc<Pool>,
    ) -> Result<Response<Box<LinkBody>>, (Failure, Option<Box<Request<Out>>>)> {
        if !poll_fn(|cx| Poll::Ready(self.is_fit(cx))).await {
            return Err((Failure::NotSent("it was closed".to_owned()), Some(request)));
        }
        let before = self.written.so_far();
        let mut answer = std::pin::pin!(self.sender.try_send_request(*request));
        let answered = poll_fn(|cx| {
            self.drive(cx);
            answer.as_mut().poll(cx)
        })
        .await;
        match answered {
            Ok(response) => {
                let (head, incoming) = response.into_parts();
                // Dropped with the refusal, the connection carries nothing more.
                said_once(&head.headers).map_err(|failure| (failure, None))?;
                let quiet = Quiet::new(pool.timing.body_idle);
                let pool = reusable.then(|| Arc::clone(pool));
                let written = self.written.so_far();
                let link = Some(self);
                let mut body = Box::new(LinkBody { incoming, link, share: None, pool, written, quiet });
                poll_fn(|cx| {
                    body.end_if_whole(cx);
                    Poll::Ready(())
                })
                .await;
                Ok(Response::from_parts(head, body))
            }
            Err(mut error) => {
                let given_back = error.take_message().map(Box::new);
                let why = told(error.error());
                if given_back.is_some() || self.written.so_far() == before {
                    Err((Failure::NotSent(why), given_back))
                } else {
                    Err((Failure::Broke(why), None))
                }
            }
        }
    }
}

/// The body of an answer, which drives the connection it comes from and gives it back at its end.
pub(crate) struct LinkBody {
    incoming: Incoming,
    link: Option<Box<Link>>,
    /// On whose account the connection is held, as long as it is.
    share: Option<Share>,
    /// None: the connection is not used again.
    pool: Option<Arc<Pool>>,
    /// How much had gone out when the head of the answer came.
    written: u64,
    quiet: Quiet,
}

impl LinkBody {
    pub(super) fn on(mut self: Box<Self>, share: Share) -> Box<Self> {
        self.share = self.link.is_some().then_some(share);
        self
    }

    fn end_if_whole(&mut self, cx: &mut Context<'_>) {
        if self.incoming.is_end_stream() {
            self.end(cx);
        }
    }

    /// All of it came: whoever is next may use the connection. Not where the upstream answered before it had the whole
    /// request: what it leaves unread of that it takes for the next one.
    fn end(&mut self, cx: &mut Context<'_>) {
        if let Some(mut link) = self.link.take()
            && let Some(pool) = self.pool.take()
            && link.written.so_far() == self.written
            && link.is_fit(cx)
        {
            pool.put(link);
        }
        self.share = None;
    }

    /// Nothing more of it is used.
    fn give_up(&mut self) {
        self.link = None;
        self.share = None;
    }
}

impl Body for LinkBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(link) = &mut self.link {
            link.drive(cx);
        }
        let frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if frame.is_ready() {
            self.quiet.heard();
        }
        match &frame {
            Poll::Ready(Some(Ok(_))) => self.end_if_whole(cx),
            // Its end may only now be known.
            Poll::Ready(None) => self.end(cx),
            Poll::Ready(Some(Err(_))) => self.give_up(),
            Poll::Pending => {
                ready!(self.quiet.poll(cx));
                self.give_up();
                return Poll::Ready(Some(Err(SILENT.into())));
            }
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
