use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    Payload,
    sha::{Sha256, sha256},
};

/// The name of a body that is kept outside its record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BodyId(pub [u8; 32]);

/// What kind of end an attempt came to, as its owner tells it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OutcomeClass {
    Success,
    /// Failed, and would fail again.
    FinalFailure,
    /// Failed, and the owner's word is that another attempt is safe.
    RetryableFailure,
    /// Nothing happened, and nothing should be remembered.
    NotRecordable,
    /// Turned away. Before the start nothing happened; after it nobody knows.
    NotAdmitted,
    /// Given up. Before the start nothing happened; after it nobody knows.
    Cancelled,
    /// Nobody can say whether it happened.
    Unknown,
}

impl OutcomeClass {
    pub const ALL: [Self; 7] = [
        Self::Success,
        Self::FinalFailure,
        Self::RetryableFailure,
        Self::NotRecordable,
        Self::NotAdmitted,
        Self::Cancelled,
        Self::Unknown,
    ];

    /// The number by which a class is stored and digested. It is never given a second meaning.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Success => 1,
            Self::FinalFailure => 2,
            Self::RetryableFailure => 3,
            Self::NotRecordable => 4,
            Self::NotAdmitted => 5,
            Self::Cancelled => 6,
            Self::Unknown => 7,
        }
    }

    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.number() == number)
    }

    /// Whether *complete* can say it.
    #[must_use]
    pub const fn completes(self) -> bool {
        match self {
            Self::Success => true,
            Self::FinalFailure
            | Self::RetryableFailure
            | Self::NotRecordable
            | Self::NotAdmitted
            | Self::Cancelled
            | Self::Unknown => false,
        }
    }

    /// Whether *reject* can say it: a policy may want failures that are retryable elsewhere to be given again.
    #[must_use]
    pub const fn rejects(self) -> bool {
        match self {
            Self::FinalFailure | Self::RetryableFailure => true,
            Self::Success | Self::NotRecordable | Self::NotAdmitted | Self::Cancelled | Self::Unknown => false,
        }
    }

    /// Whether *fail* can say it. What was broken off is said as unknown, what left no trace is given back.
    #[must_use]
    pub const fn fails(self) -> bool {
        match self {
            Self::FinalFailure | Self::RetryableFailure | Self::Unknown => true,
            Self::Success | Self::NotRecordable | Self::NotAdmitted | Self::Cancelled => false,
        }
    }
}

/// What an outcome carries. Its `Debug` shows no bytes: they belong to the caller, not to a log.
#[derive(Clone, PartialEq, Eq)]
pub enum Body {
    Empty,
    Inline(Payload),
    /// Kept beside the record; durable before the record names it.
    Stored {
        body: BodyId,
        length: u64,
        digest: [u8; 32],
    },
    /// Too large to keep: only what it was can be said.
    Uncaptured {
        length: u64,
        digest: [u8; 32],
    },
    /// Just an identifier, given out once it is durable.
    Handle(Arc<str>),
}

impl Body {
    /// How many bytes lie beside the record that has it.
    #[must_use]
    pub const fn bytes_beside(&self) -> u64 {
        match self {
            Self::Stored { length, .. } => *length,
            Self::Empty | Self::Inline(_) | Self::Uncaptured { .. } | Self::Handle(_) => 0,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |digest: &[u8; 32]| data_encoding::HEXLOWER.encode(&digest[..6]);
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::Stored { body, length, digest } => {
                write!(f, "Stored({length} bytes, body {}…, digest {}…)", hex(&body.0), hex(digest))
            }
            Self::Uncaptured { length, digest } => write!(f, "Uncaptured({length} bytes, digest {}…)", hex(digest)),
            Self::Handle(handle) => write!(f, "Handle({} bytes)", handle.len()),
        }
    }
}

/// The end of an attempt, as it is recorded and replayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    pub class: OutcomeClass,
    /// An HTTP status, or 0 where there is none.
    pub status: u16,
    pub headers: Vec<(Arc<str>, Bytes)>,
    pub body: Body,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Outcome")
            .field("class", &self.class)
            .field("status", &self.status)
            .field("headers", &headers)
            .field("body", &self.body)
            .finish()
    }
}

impl Outcome {
    #[must_use]
    pub fn new(class: OutcomeClass, body: Body) -> Self {
        Self { class, status: 0, headers: Vec::new(), body }
    }

    #[must_use]
    pub fn success(body: impl Into<Payload>) -> Self {
        Self::new(OutcomeClass::Success, Body::Inline(body.into()))
    }

    /// Refused for good.
    #[must_use]
    pub fn refusal(body: impl Into<Payload>) -> Self {
        Self::new(OutcomeClass::FinalFailure, Body::Inline(body.into()))
    }

    /// Failed in a way that lets it be run again.
    #[must_use]
    pub fn retryable(body: impl Into<Payload>) -> Self {
        Self::new(OutcomeClass::RetryableFailure, Body::Inline(body.into()))
    }

    /// Names the whole outcome: what is still said of it after its body was dropped.
    ///
    /// A body digests alike whether it lies inline or beside the record, so moving it changes no answer.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update(&(bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(b"hapax.outcome.v1");
        part(&[self.class.number()]);
        part(&self.status.to_be_bytes());
        part(&(self.headers.len() as u64).to_be_bytes());
        for (name, value) in &self.headers {
            part(name.as_bytes());
            part(value);
        }
        match &self.body {
            Body::Empty => part(b"empty"),
            Body::Inline(bytes) => {
                part(b"bytes");
                part(&(bytes.len() as u64).to_be_bytes());
                part(&body_digest(bytes));
            }
            Body::Stored { length, digest, body: _ } | Body::Uncaptured { length, digest } => {
                part(b"bytes");
                part(&length.to_be_bytes());
                part(digest);
            }
            Body::Handle(handle) => {
                part(b"handle");
                part(handle.as_bytes());
            }
        }
        hash.finish()
    }

    /// Whether both say the same, wherever their bodies lie.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        self == other || (self.class == other.class && self.status == other.status && self.digest() == other.digest())
    }

    /// The body that lies beside the record, if any.
    #[must_use]
    pub const fn stored_body(&self) -> Option<BodyId> {
        match &self.body {
            Body::Stored { body, .. } => Some(*body),
            Body::Empty | Body::Inline(_) | Body::Uncaptured { .. } | Body::Handle(_) => None,
        }
    }

    /// Gives up a body that is longer than may be kept; its length and digest stay.
    pub fn drop_body_above(&mut self, most: u64) {
        if let Body::Inline(bytes) = &self.body
            && bytes.len() as u64 > most
        {
            self.body = Body::Uncaptured { length: bytes.len() as u64, digest: body_digest(bytes) };
        }
    }

    /// Whether the body lies inline and has more bytes than this.
    #[must_use]
    pub const fn body_is_longer_than(&self, bytes: usize) -> bool {
        match &self.body {
            Body::Inline(body) => body.len() > bytes,
            Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => false,
        }
    }

    /// Moves an inline body that is longer than `most` out of line, and returns what has to be stored first.
    pub fn put_out_of_line(&mut self, body: BodyId, most: usize) -> Option<(BodyId, Bytes)> {
        match &self.body {
            Body::Inline(bytes) if bytes.len() > most => {
                let bytes = bytes.to_bytes();
                self.body = Body::Stored { body, length: bytes.len() as u64, digest: body_digest(&bytes) };
                Some((body, bytes))
            }
            Body::Inline(_) | Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => None,
        }
    }
}

/// The digest by which a body is known once it is gone.
#[must_use]
pub fn body_digest(bytes: &[u8]) -> [u8; 32] {
    sha256(bytes)
}
