//! An answer that comes over a shared connection, within its time.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    body::BoxError,
    outbound::Share,
    quiet::Quiet,
    request_body::{Inflow, Rest},
};

/// It ends, as broken, when nothing comes for too long.
pub(crate) struct Timed {
    body: Option<Rest>,
    quiet: Quiet,
    /// Its stream, which others may have when this one has ended, and on whose account it was taken.
    _stream: (OwnedSemaphorePermit, Share),
}

impl Timed {
    pub(crate) fn new(body: Incoming, most: Duration, stream: (OwnedSemaphorePermit, Share)) -> Self {
        Self { body: Some(Rest::of(Inflow::Two(body))), quiet: Quiet::new(most), _stream: stream }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match body.poll_frame(cx) {
            Poll::Ready(frame) => {
                this.quiet.heard();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                ready!(this.quiet.poll(cx));
                this.body = None;
                Poll::Ready(Some(Err(SILENT.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Rest::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Rest::size_hint)
    }
}

/// What is said of an answer that stays away.
pub(crate) const SILENT: &str = "the upstream said nothing more for too long";
