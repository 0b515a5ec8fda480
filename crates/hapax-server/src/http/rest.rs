//! What a request still has to say when its answer is there.
//!
//! A connection is of use again only when the whole request has been read. Whoever is refused by its head alone is often
//! still sending, and a server that closes then takes the refusal away with it: the client sees a broken pipe. So a short
//! rest is read away before the answer; of a long one nothing is, the answer says that the connection ends with it, and
//! `Guarded` leaves slowly. Neither holds anything: what is read here is let go at once.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;

/// So much of a request that is already answered is read, and for so long: nobody has been asked yet who it is.
const MOST: usize = 64 * 1024;
const TIME: Duration = Duration::from_secs(1);

/// Of one connection, on which requests come one after the other.
#[derive(Debug, Default)]
pub(super) struct Rest {
    body: Mutex<Option<Incoming>>,
    speaking: AtomicBool,
}

impl Rest {
    /// Something was read that is not a whole request yet.
    pub(super) fn heard(&self) {
        self.speaking.store(true, Relaxed);
    }

    /// Whether the peer has begun to say something that was not heard to its end.
    pub(super) fn is_speaking(&self) -> bool {
        self.speaking.load(Relaxed)
    }

    /// What the answered request has left of its body.
    pub(super) fn take(&self) -> Option<Incoming> {
        self.body.lock().take()
    }
}

/// Whether all of it was read away.
pub(super) async fn read_away(mut body: Incoming, rest: &Rest) -> bool {
    if body.size_hint().lower() > MOST as u64 {
        return false;
    }
    let read = async {
        let mut sum = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            sum += frame.data_ref().map_or(0, Bytes::len);
            if sum > MOST {
                return false;
            }
        }
        true
    };
    let whole = tokio::time::timeout(TIME, read).await.unwrap_or(false);
    if whole {
        rest.speaking.store(false, Relaxed);
    }
    whole
}

/// A request's body, which leaves behind what nobody has read of it.
#[derive(Debug)]
pub(crate) struct Inflow {
    body: Option<Incoming>,
    rest: Arc<Rest>,
}

impl Inflow {
    pub(super) fn new(body: Incoming, rest: &Arc<Rest>) -> Self {
        let speaks = !body.is_end_stream();
        rest.speaking.store(speaks, Relaxed);
        Self { body: speaks.then_some(body), rest: Arc::clone(rest) }
    }
}

impl Body for Inflow {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        match &polled {
            Poll::Pending | Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(_))) => self.body = None,
            Poll::Ready(None) => {
                self.body = None;
                self.rest.speaking.store(false, Relaxed);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Inflow {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            *self.rest.body.lock() = Some(body);
        }
    }
}
