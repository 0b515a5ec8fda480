use bytes::{Bytes, BytesMut};
use hapax_core::{Body, Outcome, meaning};
use http::response;
use sha2::{Digest, Sha256};

use super::Running;

/// An answer that is passed on while it comes. Its start was recorded by the begin; its end is recorded by
/// [`Streaming::end`], before whatever marks the end on the wire.
#[must_use]
pub struct Streaming {
    running: Running,
    /// Class, status and headers; the body is not known yet.
    outcome: Outcome,
    digest: Sha256,
    length: u64,
    /// A copy, as long as it is short enough to be kept.
    copy: Option<BytesMut>,
}

/// The end could not be recorded, so the answer must not end as if it had been: cut it off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer could not be recorded, so it is cut off; send the request again with the same key")]
pub struct Cut;

impl Streaming {
    pub(super) fn new(running: Running, head: &response::Parts, capture: bool) -> Self {
        let class = running.class_of(head);
        let outcome = running.outcome(head, class, Body::Empty);
        Self { running, outcome, digest: Sha256::new(), length: 0, copy: capture.then(BytesMut::new) }
    }

    pub const fn running(&self) -> &Running {
        &self.running
    }

    /// Some bytes came and are passed on.
    pub fn push(&mut self, bytes: &Bytes) {
        self.digest.update(bytes);
        self.length = self.length.saturating_add(bytes.len() as u64);
        if self.length > self.running.most_captured() {
            self.copy = None;
        }
        if let Some(copy) = &mut self.copy {
            copy.extend_from_slice(bytes);
        }
    }

    /// All bytes came: records the end. Only after this may the end be sent.
    pub async fn end(mut self) -> Result<(), Cut> {
        self.outcome.body = match self.copy {
            Some(copy) => self.running.kept_body(&copy.freeze()),
            None => Body::Uncaptured { length: self.length, digest: self.digest.finalize().into() },
        };
        self.running.settle(self.outcome).await.map(|_| ()).map_err(|_| Cut)
    }

    /// It broke off.
    pub async fn broken(self) {
        self.running.ended_as(meaning::broken_off(self.outcome.class)).await;
    }
}

impl std::fmt::Debug for Streaming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streaming")
            .field("outcome", &self.outcome)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}
