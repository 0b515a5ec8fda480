//! A request's body on its way to the upstream, unbuffered.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

use crate::{body::BoxError, quiet::Quiet, request_body::Rest};

/// A client that sends less than this in the time for a whole body is one that only holds its place.
const LEAST_SENT: u64 = 4 * 1024;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacing {
    /// Between two pieces.
    pub(crate) pause: Duration,
    /// For the next [`LEAST_SENT`] bytes, or for all of a body that is read before it is sent on.
    pub(crate) body: Duration,
}

/// What becomes of an upload, for whoever waits for its end.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    ended: Notify,
    cut: OnceLock<Cut>,
}

/// Why an upload did not come to its end, where that is its client's doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    TooSlow,
    /// It broke off, or what came of it cannot be read.
    Broken,
}

impl Fate {
    /// Until all of it was read, or nobody reads it any more.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }

    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut.get().copied()
    }
}

/// Passes a body on as it comes and cuts off who drips. Time counts only while the client is waited for: an upstream that
/// takes its time is not the client's fault.
pub(crate) struct Upload {
    /// What was read of it already.
    first: Bytes,
    rest: Rest,
    quiet: Quiet,
    pacing: Pacing,
    came: u64,
    waited: Duration,
    fate: Arc<Fate>,
}

impl Upload {
    pub(crate) fn new(first: Bytes, rest: Rest, pacing: Pacing) -> Self {
        let quiet = Quiet::new(pacing.pause);
        Self { first, rest, quiet, pacing, came: 0, waited: Duration::ZERO, fate: Arc::default() }
    }

    pub(crate) fn fate(&self) -> Arc<Fate> {
        Arc::clone(&self.fate)
    }

    fn heard(&mut self, bytes: usize) {
        self.waited += self.quiet.heard();
        self.came += bytes as u64;
        if self.came >= LEAST_SENT {
            (self.came, self.waited) = (0, Duration::ZERO);
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if !this.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.first)))));
        }
        match this.rest.poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.heard(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(lost))) => {
                let _first = this.fate.cut.set(if lost.is_slow() { Cut::TooSlow } else { Cut::Broken });
                Poll::Ready(Some(Err(lost.into())))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(this.quiet.poll_within(cx, this.pacing.body.saturating_sub(this.waited)));
                let _first = this.fate.cut.set(Cut::TooSlow);
                Poll::Ready(Some(Err("the client sent its body too slowly".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.size_hint().exact() {
            Some(length) => SizeHint::with_exact(length.saturating_add(self.first.len() as u64)),
            None => SizeHint::default(),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // Whoever sends it drops it as soon as all of it is sent.
        self.fate.ended.notify_one();
    }
}
