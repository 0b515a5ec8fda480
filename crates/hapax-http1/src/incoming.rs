//! A request's body, while it comes.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

use crate::grammar::{Length, Violation};

/// The body of a request. Most came whole, together with their head; of others a piece is read when it is asked for, no sooner.
#[derive(Debug, Default)]
pub struct Incoming(Kind);

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Over,
    Whole(Bytes),
    Coming(Coming),
}

/// Why the rest of a body does not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    #[error("nothing more of the body came for too long")]
    TooSlow,
    #[error("the body was broken off")]
    BrokenOff,
    #[error("the body is not as it must be: {0}")]
    Malformed(Violation),
}

impl Incoming {
    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(bytes))
    }

    /// All of it, where it came together with its head; the body itself, where it is still to come.
    pub fn into_whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Kind::Over => Ok(Bytes::new()),
            Kind::Whole(bytes) => Ok(bytes),
            Kind::Coming(_) => Err(self),
        }
    }

    /// A body that is still to come, and where its pieces are put.
    pub(crate) fn coming(length: Length) -> (Self, Slot) {
        let left = match length {
            Length::Counted(length) => Some(length),
            Length::Chunked => None,
        };
        let slot = Slot(Arc::default());
        (Self(Kind::Coming(Coming { slot: slot.clone(), left })), slot)
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        match &mut self.0 {
            Kind::Over => Poll::Ready(None),
            Kind::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Kind::Over;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Coming(coming) => {
                let polled = coming.slot.take(cx);
                match &polled {
                    // Lost it stays so: to whoever reads on, or asks for its length, it is never a whole one.
                    Poll::Pending | Poll::Ready(Some(Err(_))) => {}
                    Poll::Ready(Some(Ok(frame))) => coming.count(frame.data_ref().map_or(0, Bytes::len)),
                    Poll::Ready(None) => self.0 = Kind::Over,
                }
                polled
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Over => true,
            Kind::Whole(_) => false,
            Kind::Coming(coming) => coming.left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Over => SizeHint::with_exact(0),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Coming(coming) => coming.left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

/// The end of a body that its reader holds.
#[derive(Debug)]
struct Coming {
    slot: Slot,
    left: Option<u64>,
}

impl Coming {
    const fn count(&mut self, taken: usize) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(taken as u64);
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut shared = self.slot.0.lock();
        shared.forsaken = true;
        shared.wake_connection();
    }
}

/// Where the connection puts the next piece of a body, and its reader takes it.
#[derive(Clone, Debug)]
pub(crate) struct Slot(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    piece: Option<Bytes>,
    trailers: Option<HeaderMap>,
    end: Option<Result<(), Lost>>,
    /// Nobody reads it any more.
    forsaken: bool,
    /// Who waits for a piece.
    reader: Option<Waker>,
    /// Who waits to be asked for one.
    connection: Option<Waker>,
}

impl Shared {
    fn wake_connection(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.wake();
        }
    }
}

/// What a body's reader wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Piece,
    /// Not now; whoever asked is woken when that changes.
    Nothing,
    /// Nothing ever again.
    Gone,
}

impl Slot {
    fn take(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        let mut shared = self.0.lock();
        if let Some(piece) = shared.piece.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        if let Some(trailers) = shared.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        match shared.end {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(lost)) => Poll::Ready(Some(Err(lost))),
            None => {
                shared.reader = Some(cx.waker().clone());
                shared.wake_connection();
                Poll::Pending
            }
        }
    }

    pub(crate) fn wish(&self, cx: &mut Context<'_>) -> Wish {
        let mut shared = self.0.lock();
        if shared.forsaken {
            Wish::Gone
        } else if shared.reader.is_some() {
            Wish::Piece
        } else {
            shared.connection = Some(cx.waker().clone());
            Wish::Nothing
        }
    }

    pub(crate) fn is_forsaken(&self) -> bool {
        self.0.lock().forsaken
    }

    pub(crate) fn put(&self, piece: Option<Bytes>) {
        self.change(|shared| shared.piece = piece);
    }

    /// The last of it, and what was said after that.
    pub(crate) fn put_last(&self, piece: Option<Bytes>, trailers: Option<HeaderMap>) {
        self.change(|shared| (shared.piece, shared.trailers, shared.end) = (piece, trailers, Some(Ok(()))));
    }

    pub(crate) fn fail(&self, lost: Lost) {
        self.change(|shared| shared.end = Some(Err(lost)));
    }

    /// Nothing more is put. Of a body that is at its end, or has failed, its reader knows already.
    pub(crate) fn give_up(&self) {
        self.change(|shared| {
            shared.end.get_or_insert(Err(Lost::BrokenOff));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Shared)) {
        let mut shared = self.0.lock();
        change(&mut shared);
        let reader = shared.reader.take();
        drop(shared);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}
