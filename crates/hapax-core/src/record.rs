//! The record of one operation, and the states it can be in.

use std::sync::Arc;

use crate::{
    Anchor, Effect, Fence, Fingerprint, Millis, Nonce, Outcome, Span, Stamp, Tag, Ties, Token, Version, WallMillis,
    policy::{AfterWindow, OnLapse},
};

/// How many ended attempts a record remembers besides the latest one.
pub const PAST_KEPT: usize = 8;
/// How many refused outcomes a record keeps as evidence.
pub const EVIDENCE_KEPT: usize = 4;
/// Bodies of evidence longer than this lie beside the record.
pub const EVIDENCE_INLINE: usize = 512;

/// Whose operation this is, in words; for people, lists and counting. No rule looks at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    pub surface: Arc<str>,
    pub tenant: Arc<str>,
    pub surface_tag: Tag,
    pub tenant_tag: Tag,
    /// Who asked first, for whoever decides whether a replay may be shown.
    pub principal: Option<Arc<str>>,
    /// A short keyed hash of the key. The key itself is stored nowhere.
    pub key_hash: [u8; 8],
}

/// What the policy said when the latest attempt began. A record carries it, so that a lapse or an expiry reads the
/// same in every process, whatever policy that process has loaded meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    pub on_lapse: OnLapse,
    pub open_retention: Span,
    pub after_window: AfterWindow,
    pub tombstone_retention: Span,
    /// Which policy that was, for *explain*.
    pub revision: u64,
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum End {
    /// It has not: it runs, or nobody knows better.
    Running,
    Completed,
    Rejected,
    /// Failed retryably.
    Failed,
    /// Its owner said that it cannot say.
    FailedUnknown,
    Released,
    Lapsed {
        started: bool,
    },
    /// Somebody else decided.
    Resolved,
    /// A newer epoch took over before it started.
    TakenOver,
}

/// The latest attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub number: u32,
    pub nonce: Nonce,
    pub owner: Arc<str>,
    pub epoch: Option<u64>,
    pub begun: Anchor,
    pub begun_wall: WallMillis,
    pub fence: Fence,
    /// How long its lease was when it ended, for *explain*. While it runs, its state says so.
    pub lease: Option<Millis>,
    pub end: End,
}

impl Attempt {
    #[must_use]
    pub const fn token(&self) -> Token {
        Token { attempt: self.number, nonce: self.nonce }
    }
}

/// An earlier attempt, for *explain*.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Past {
    pub number: u32,
    pub owner: Arc<str>,
    pub begun_wall: WallMillis,
    /// How long its lease was when it ended.
    pub lease: Option<Millis>,
    pub end: End,
}

/// An outcome that came too late to count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    pub attempt: u32,
    pub outcome: Outcome,
    pub wall: WallMillis,
}

/// Who resolved a doubt, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    pub actor: Arc<str>,
    pub reason: Arc<str>,
    pub wall: WallMillis,
}

/// The doubt of an earlier attempt beside which a later one was let run, because its provider recognises the key. Whatever
/// the later one says of itself, it does not say how the earlier one ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EarlierDoubt {
    /// The first attempt whose end nobody knows.
    pub attempt: u32,
    pub since: Stamp,
    /// How the latest attempt failed retryably, kept only to be seen.
    pub failure: Option<Outcome>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub from: Anchor,
    pub length: Millis,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// From here on the effect may be under way.
    pub started: bool,
    pub lease: Lease,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    pub since: Anchor,
    /// The retryable failure, kept only to be seen.
    pub failure: Option<Outcome>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InDoubt {
    pub since: Anchor,
    pub probes: u32,
    /// Before this moment nobody probes again.
    pub next_probe: Option<Stamp>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Final {
    pub outcome: Outcome,
    pub decided: Anchor,
    pub decided_wall: WallMillis,
    pub retention: Span,
}

/// What is left of a final record whose body is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tombstone {
    pub rejected: bool,
    pub status: u16,
    pub digest: [u8; 32],
    pub decided: Anchor,
    pub decided_wall: WallMillis,
    /// The original retention: eviction does not move its end.
    pub retention: Span,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    Pending(Pending),
    Open(Open),
    InDoubt(InDoubt),
    Committed(Final),
    Rejected(Final),
    Tombstone(Tombstone),
}

/// The name of a state, absence included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StateName {
    Absent,
    Pending,
    Open,
    InDoubt,
    Committed,
    Rejected,
    Tombstone,
}

impl State {
    #[must_use]
    pub const fn name(&self) -> StateName {
        match self {
            Self::Pending(_) => StateName::Pending,
            Self::Open(_) => StateName::Open,
            Self::InDoubt(_) => StateName::InDoubt,
            Self::Committed(_) => StateName::Committed,
            Self::Rejected(_) => StateName::Rejected,
            Self::Tombstone(_) => StateName::Tombstone,
        }
    }
}

/// Everything that is known about one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub about: Arc<About>,
    pub effect: Effect,
    /// The print of the request that the latest attempt runs.
    pub print: Option<Fingerprint>,
    /// What guarded the key before that attempt: a clean end goes back to it.
    pub guard_before: Option<Fingerprint>,
    pub attempt: Attempt,
    pub rules: Rules,
    pub state: State,
    pub past: Vec<Past>,
    pub evidence: Vec<Evidence>,
    pub resolved: Option<Resolved>,
    /// `None` for most.
    pub ties: Option<Arc<Ties>>,
    /// Only a final outcome or a resolution settles it.
    pub earlier_doubt: Option<Arc<EarlierDoubt>>,
}

impl Record {
    #[must_use]
    pub const fn token(&self) -> Token {
        self.attempt.token()
    }

    /// The print that a request has to match. An attempt that ended before its effect leaves none of its own behind.
    #[must_use]
    pub const fn guard(&self) -> Option<&Fingerprint> {
        match self.attempt.end {
            End::Released | End::TakenOver | End::Lapsed { started: false } => self.guard_before.as_ref(),
            End::Running
            | End::Completed
            | End::Rejected
            | End::Failed
            | End::FailedUnknown
            | End::Lapsed { started: true }
            | End::Resolved => self.print.as_ref(),
        }
    }

    /// The record as read back: every window that counts from the write itself now says when that was, so that a
    /// later write cannot move it.
    #[must_use]
    pub fn settled(mut self, version: Version, stamp: Stamp) -> Self {
        self.settle(version, stamp);
        self
    }

    /// As [`Record::settled`], in place.
    pub fn settle(&mut self, version: Version, stamp: Stamp) {
        self.attempt.begun = self.attempt.begun.settled(stamp);
        self.attempt.fence = Fence::At(self.attempt.fence.resolve(version));
        match &mut self.state {
            State::Pending(pending) => pending.lease.from = pending.lease.from.settled(stamp),
            State::Open(open) => open.since = open.since.settled(stamp),
            State::InDoubt(doubt) => doubt.since = doubt.since.settled(stamp),
            State::Committed(done) | State::Rejected(done) => done.decided = done.decided.settled(stamp),
            State::Tombstone(stone) => stone.decided = stone.decided.settled(stamp),
        }
        if let Some(ties) = &mut self.ties
            && !ties.is_settled()
        {
            Arc::make_mut(ties).settle(stamp);
        }
    }

    /// Whether its window waits: what it did may still have to be undone.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state, State::Committed(_)) && self.ties.as_ref().is_some_and(|ties| ties.held)
    }

    /// Whether its provider would still recognise a second call by its downstream key.
    #[must_use]
    pub fn is_honoured(&self, now: Stamp) -> bool {
        let honoured = self.ties.as_ref().and_then(|ties| ties.honoured);
        honoured.is_some_and(|honoured| now < honoured.from.resolve(Stamp(0)).plus(honoured.window))
    }

    /// Whether another call would come beside a doubt that the provider can no longer settle: it has forgotten the key.
    #[must_use]
    pub fn is_beyond_help(&self, now: Stamp) -> bool {
        self.earlier_doubt.is_some() && !self.is_honoured(now)
    }

    /// The bodies beside this record that it names.
    pub fn stored_bodies(&self) -> impl Iterator<Item = crate::BodyId> {
        self.outcomes().filter_map(Outcome::stored_body)
    }

    /// How many bytes these bodies have.
    #[must_use]
    pub fn bytes_beside(&self) -> u64 {
        self.outcomes().map(|outcome| outcome.body.bytes_beside()).fold(0, u64::saturating_add)
    }

    /// All that were told of it and are kept.
    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let of_state = match &self.state {
            State::Committed(done) | State::Rejected(done) => Some(&done.outcome),
            State::Open(open) => open.failure.as_ref(),
            State::Pending(_) | State::InDoubt(_) | State::Tombstone(_) => None,
        };
        let beside_doubt = self.earlier_doubt.as_ref().and_then(|doubt| doubt.failure.as_ref());
        of_state.into_iter().chain(beside_doubt).chain(self.evidence.iter().map(|kept| &kept.outcome))
    }
}
