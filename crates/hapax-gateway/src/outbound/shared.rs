//! An HTTP/2 connection, which carries the requests of many.

use std::sync::Arc;

use hyper::client::conn::http2::SendRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pool::Place;
use crate::body::Out;

/// A connection in the pool.
#[derive(Clone)]
pub(crate) struct Shared {
    sender: SendRequest<Out>,
    streams: Arc<Semaphore>,
}

/// One stream of it, taken before anything is written down about the request: what has no stream waits in a queue, and
/// whether it was sent from there nobody can say.
pub(crate) struct Stream {
    pub(super) connection: Shared,
    pub(super) permit: OwnedSemaphorePermit,
}

impl Shared {
    pub(super) fn new(sender: SendRequest<Out>, streams: usize) -> Self {
        Self { sender, streams: Arc::new(Semaphore::new(streams.min(Semaphore::MAX_PERMITS))) }
    }

    pub(super) fn stream(&self) -> Option<Stream> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(Stream { connection: self.clone(), permit })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Whether any of its streams is taken.
    pub(super) fn is_busy(&self, streams: usize) -> bool {
        self.streams.available_permits() < streams
    }

    /// Whether it is the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.streams, &other.streams)
    }
}

impl Stream {
    pub(super) fn into_parts(self) -> (SendRequest<Out>, OwnedSemaphorePermit) {
        (self.connection.sender, self.permit)
    }
}

/// Drives the connection as long as it lives: nobody's request can, since it is everybody's.
pub(super) fn drive(connection: impl Future<Output = Result<(), hyper::Error>> + Send + 'static, place: Place) {
    tokio::spawn(async move {
        let _ = connection.await;
        drop(place);
    });
}
