use std::sync::Arc;

use hapax_core::{Effect, Id, Millis, Policy, Token, Version, record::About};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{quota::Running, seen::Seen};

/// The right to run one attempt.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub(crate) id: Id,
    pub(crate) token: Token,
    pub(crate) fence: Version,
    pub(crate) lease: Millis,
    pub(crate) effect: Effect,
    pub(crate) about: Arc<About>,
    /// The policy that the attempt was begun under; a reload does not change it.
    pub(crate) policy: Arc<Policy>,
    pub(crate) held: Arc<Held>,
}

/// What the holder knows of its record.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) seen: Mutex<Seen>,
    /// Counted from before the begin or renewal was sent: the store cannot have started the lease any earlier.
    pub(crate) deadline: Mutex<Instant>,
    /// Counts against admission until the attempt has ended, or no handle of the ticket lives any more.
    pub(crate) running: Mutex<Option<Running>>,
}

impl Ticket {
    #[must_use]
    pub const fn id(&self) -> Id {
        self.id
    }

    /// What completes the operation, also from another process.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// 1 for the first attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.token.attempt
    }

    /// A number that grows with each attempt, for downstreams that refuse older ones.
    #[must_use]
    pub const fn fence(&self) -> Version {
        self.fence
    }

    /// The policy that the attempt was begun under.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Goes on under another reading of the policy that it was begun under.
    #[must_use]
    pub fn under(mut self, policy: &Arc<Policy>) -> Self {
        self.policy = Arc::clone(policy);
        self
    }

    #[must_use]
    pub const fn lease(&self) -> Millis {
        self.lease
    }

    /// An idempotency key to forward: the same over all attempts of this operation, and telling nothing about its key.
    #[must_use]
    pub fn downstream_key(&self) -> String {
        downstream_key(&self.id)
    }
}

/// See [`Ticket::downstream_key`].
#[must_use]
pub fn downstream_key(id: &Id) -> String {
    let digest = Id::derived("hapax.downstream.v1", &[&id.0]).to_string();
    format!("hx-{}", digest.get(..40).unwrap_or(&digest))
}
