//! The data behind *explain*: why was this replayed, what is stuck, what may be done next.

use std::{borrow::Cow, fmt};

use hapax_core::{Id, Policy, Record, Stamp, State, StateName, Version, as_read, lease_end, window_end};

use crate::{engine::Engine, error::EngineError, events::Logged, ticket::downstream_key};

/// What may safely be done about an operation now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Nothing is recorded: the next call runs it.
    RunsAgain,
    /// It is under way: the same key waits for it.
    Wait,
    /// Decided: the same key gets the recorded answer.
    Replays,
    /// Its end is unknown: a person or a probe has to decide. A new key risks a second effect.
    Resolve,
    /// Done long ago: a retry is refused.
    TooLate,
}

/// Everything that is known about one operation.
#[derive(Clone)]
pub struct Explanation {
    pub id: Id,
    /// As it reads now; `None` where there is nothing.
    pub record: Option<Record>,
    pub state: StateName,
    /// To name in a resolution.
    pub version: Version,
    pub now: Stamp,
    /// When the running lease, or the window of this state, ends.
    pub until: Option<Stamp>,
    /// Whether the record was begun under the policy that is in force now.
    pub policy_is_current: bool,
    pub policy_name: String,
    pub downstream_key: String,
    /// What this process remembers of it, oldest first.
    pub recent: Vec<Logged>,
    /// How often this process has given the recorded answer again from memory, which leaves no event.
    pub given_from_memory: u16,
    pub advice: Advice,
}

/// Without the record: what was answered to a caller is for that caller, and not for a log.
impl fmt::Debug for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explanation")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("version", &self.version)
            .field("now", &self.now)
            .field("until", &self.until)
            .field("policy_name", &self.policy_name)
            .field("policy_is_current", &self.policy_is_current)
            .field("recent", &self.recent)
            .field("advice", &self.advice)
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub async fn explain(&self, id: &Id) -> Result<Explanation, EngineError> {
        let seen = self.inner.read(id).await?;
        let now = self.inner.now(&seen);
        let record = seen.record.as_deref().and_then(|record| as_read(record, now)).map(Cow::into_owned);
        let policy = self.inner.policy_for(&seen);
        Ok(Explanation {
            id: *id,
            state: record.as_ref().map_or(StateName::Absent, |record| record.state.name()),
            version: seen.version,
            now,
            until: record.as_ref().and_then(until),
            policy_is_current: record.as_ref().is_none_or(|record| is_current(record, &policy)),
            policy_name: policy.name.to_string(),
            downstream_key: downstream_key(id),
            recent: self.inner.events.of(id),
            given_from_memory: self.inner.gate.given(id),
            advice: record.as_ref().map_or(Advice::RunsAgain, |record| advice(record, now)),
            record,
        })
    }
}

fn is_current(record: &Record, policy: &Policy) -> bool {
    record.rules.revision == policy.revision
}

fn until(record: &Record) -> Option<Stamp> {
    match &record.state {
        State::Pending(pending) => Some(lease_end(&pending.lease)),
        State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
            window_end(record)
        }
    }
}

/// What may be done about an operation, as it stands.
#[must_use]
pub fn advice(record: &Record, now: Stamp) -> Advice {
    match &record.state {
        State::Pending(pending) if lease_end(&pending.lease) <= now => Advice::Resolve,
        State::Pending(_) => Advice::Wait,
        State::Open(_) => Advice::RunsAgain,
        State::InDoubt(_) => Advice::Resolve,
        State::Committed(_) | State::Rejected(_) => Advice::Replays,
        State::Tombstone(stone) => {
            let decided = stone.decided.resolve(Stamp(0));
            match stone.retention.end(decided) {
                Some(over) if over <= now => Advice::TooLate,
                Some(_) | None => Advice::Replays,
            }
        }
    }
}
