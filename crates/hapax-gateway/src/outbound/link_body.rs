//! An answer that is still coming, over a connection of its own.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{link::Link, pool::Pool, shares::Share};
use crate::{body::BoxError, quiet::Quiet, timed::SILENT};

/// The body of an answer, which drives the connection it comes from and gives it back at its end.
pub(crate) struct LinkBody {
    state: State,
    /// On whose account the connection is held, as long as it is.
    share: Option<Share>,
    /// None: the connection is not used again.
    pool: Option<Arc<Pool>>,
    quiet: Quiet,
}

enum State {
    Coming(Box<Link>),
    Over,
    /// Nothing more comes, and it is not whole. To whoever reads on it stays so.
    Lost,
}

impl LinkBody {
    pub(super) fn new(link: Box<Link>, pool: Option<Arc<Pool>>, most_quiet: Duration) -> Self {
        Self { state: State::Coming(link), share: None, pool, quiet: Quiet::new(most_quiet) }
    }

    pub(super) fn on(mut self: Box<Self>, share: Share) -> Box<Self> {
        self.share = Some(share);
        self
    }

    /// All of it came: whoever is next may use the connection.
    fn end(&mut self) {
        if let State::Coming(link) = std::mem::replace(&mut self.state, State::Over) {
            link.done(self.pool.take().as_ref());
        }
        self.share = None;
    }

    /// Nothing more of it is used.
    fn give_up(&mut self) {
        (self.state, self.share) = (State::Lost, None);
    }
}

impl Body for LinkBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let link = match &mut this.state {
            State::Coming(link) => link,
            State::Over => return Poll::Ready(None),
            State::Lost => return Poll::Ready(Some(Err("the upstream broke off".into()))),
        };
        let Poll::Ready(frame) = link.client.poll_frame(cx) else {
            ready!(this.quiet.poll(cx));
            this.give_up();
            return Poll::Ready(Some(Err(SILENT.into())));
        };
        this.quiet.heard();
        match &frame {
            Some(Ok(_)) if !link.client.is_end_stream() => {}
            Some(Ok(_)) | None => this.end(),
            Some(Err(_)) => this.give_up(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Coming(link) => link.client.is_end_stream(),
            State::Over => true,
            State::Lost => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Coming(link) => link.client.size_hint(),
            State::Over => SizeHint::with_exact(0),
            State::Lost => SizeHint::default(),
        }
    }
}
