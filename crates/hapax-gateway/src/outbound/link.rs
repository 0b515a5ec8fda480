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
