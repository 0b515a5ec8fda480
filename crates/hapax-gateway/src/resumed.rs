//! An answer of which the beginning was read already.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::{
    body::{BoxError, Out},
    execute::Held,
};

/// First what was read, then the rest. What the work holds is held until this was read to its end, or dropped.
pub(crate) struct Resumed {
    pub(crate) first: Bytes,
    pub(crate) rest: Out,
    pub(crate) held: Held,
}

impl Body for Resumed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_frame(cx);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.first)))))
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

impl std::fmt::Debug for Resumed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resumed").field("rest", &self.rest).field("held", &self.held).finish_non_exhaustive()
    }
}
