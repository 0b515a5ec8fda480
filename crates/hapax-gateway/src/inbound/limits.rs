use std::time::Duration;

use hapax_http1::{Manners, Rest};

use crate::refusal::head_refused;

/// What a client may take of us. Everything that a stranger can hold on to ends by itself.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once. Further ones wait in the system's queue until one ends.
    pub connections: usize,
    /// Connections of one address at once. Further ones are closed unread.
    pub connections_per_peer: usize,
    /// From the first byte of a head to its last; also for a TLS handshake.
    pub head: Duration,
    /// Between two pieces of a body.
    pub body_pause: Duration,
    /// A whole body that is read before it is sent on; also for 4 KiB of one that is passed on as it comes.
    pub body: Duration,
    /// A connection on which nothing is asked.
    pub idle: Duration,
    /// How long a client may take to read the next [`Limits::LEAST_READ`] bytes of an answer.
    pub reader: Duration,
    /// The bytes of one head.
    pub head_bytes: usize,
    pub headers: usize,
    /// Streams of one HTTP/2 connection at once, and work that goes on for those that were reset.
    pub streams: u32,
    /// Streams that a client may reset before we took them up, and after our own errors, before the connection ends.
    pub resets: usize,
    /// The bytes of all request bodies together that are read before they are sent on. Further ones are told to come
    /// again.
    pub buffered_bytes: usize,
}

impl Limits {
    /// A reader that takes less than this in [`Limits::reader`] is one that only holds its place.
    pub const LEAST_READ: u64 = 4 * 1024;

    /// Those of one HTTP/1 connection.
    pub(super) fn manners(&self) -> Manners {
        let limits = hapax_http1::Limits {
            idle: self.idle,
            head: self.head,
            body_pause: self.body_pause,
            reader: self.reader,
            least_read: Self::LEAST_READ,
            head_bytes: self.head_bytes,
            headers: self.headers,
            rest: Rest::default(),
        };
        Manners { limits, half_close: false, refuse: head_refused }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_peer: 5_000,
            head: Duration::from_secs(10),
            body_pause: Duration::from_secs(15),
            body: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            reader: Duration::from_secs(30),
            head_bytes: 32 * 1024,
            headers: 100,
            streams: 128,
            resets: 20,
            buffered_bytes: 256 * 1024 * 1024,
        }
    }
}
