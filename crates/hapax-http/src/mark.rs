//! What a handler can say about its own answer, and what it is told about its request.

use hapax_core::{OutcomeClass, meaning};
use hapax_engine::Ticket;
use http::StatusCode;

/// A response extension: the handler's own word on what its answer means, whatever the status says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// The answer stands and is given again.
    Final,
    /// Nothing lasting happened; the next request runs it again.
    Retryable,
    /// Nothing happened at all; the key is as if it had not been used.
    NoEffect,
    /// It may have happened: the class of the effect decides.
    Unknown,
}

impl Mark {
    pub(crate) fn class(self, status: StatusCode) -> OutcomeClass {
        match self {
            Self::Final => meaning::called_final(status.as_u16()),
            Self::Retryable => OutcomeClass::RetryableFailure,
            Self::NoEffect => OutcomeClass::NotRecordable,
            Self::Unknown => OutcomeClass::Unknown,
        }
    }
}

/// A request extension: the attempt under which the handler runs.
#[derive(Clone, Debug)]
pub struct Operation(pub Ticket);

impl Operation {
    /// Put this into the response's extensions to answer now and leave the record pending: whoever holds the ticket, or
    /// its token, renews the lease and ends it. Left alone, it lapses and the class of the effect decides.
    #[must_use]
    pub fn defer(&self) -> Deferred {
        Deferred(self.0.clone())
    }
}

/// A response extension: this is not the final answer. See [`Operation::defer`].
#[derive(Clone, Debug)]
pub struct Deferred(pub Ticket);

/// A response extension: pass this answer on while it comes, and do not keep its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Streamed;
