use std::time::Duration;

use bytes::Bytes;
use http::Response;

use crate::grammar::Violation;

/// What a client may take of one connection. Everything that a stranger can hold on to ends by itself.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A connection on which nothing is asked.
    pub idle: Duration,
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// Between two pieces of a body that is waited for.
    pub body_pause: Duration,
    /// How long a client may take to read the next `least_read` bytes of an answer.
    pub reader: Duration,
    pub least_read: u64,
    /// The bytes of one head, and of the trailers of one body.
    pub head_bytes: usize,
    pub headers: usize,
    pub rest: Rest,
}

/// What a request still has to say when its answer is there.
///
/// A connection is of use again only when the whole request has been read. Whoever is refused by its head alone is often still sending,
/// and a server that closes then takes the refusal away with it: the client sees a broken pipe. So a short rest is read away before
/// the answer; of a long one nothing is, the answer says that the connection ends with it, and what comes is read away for a
/// moment more. Neither holds anything: what is read is let go at once.
#[derive(Clone, Debug)]
pub struct Rest {
    pub bytes: usize,
    pub time: Duration,
    /// How much is listened to, and for how long, when all has been said to somebody who is still speaking.
    pub parting_bytes: usize,
    pub parting: Duration,
}

impl Default for Rest {
    fn default() -> Self {
        Self {
            bytes: 64 * 1024,
            time: Duration::from_secs(1),
            parting_bytes: 2 * 1024 * 1024,
            parting: Duration::from_secs(2),
        }
    }
}

/// How a server wants its connections to be served.
#[derive(Clone, Debug)]
pub struct Manners {
    pub limits: Limits,
    /// Whether somebody who has closed its side is still answered. Otherwise it is taken to have left.
    pub half_close: bool,
    /// What is said about a head that is not served. The connection ends with it.
    pub refuse: fn(Violation) -> Response<Bytes>,
}
