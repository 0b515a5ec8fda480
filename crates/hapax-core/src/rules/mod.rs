//! One total function decides what a state may become: [`apply`].
//!
//! Every store, the simulator and the model checker run it. It sees a record as it was read, a command and the store's
//! time; it returns what to write, what to answer and what to tell. Carrying that out is the caller's work.

mod begin;
mod ending;
mod finish;
mod give_back;
mod lease;
mod read;
mod resolve;
mod sweep;
mod windows;

use std::{borrow::Borrow, sync::Arc};

use bytes::Bytes;

use crate::{
    BodyId, Millis, Stamp, Token, Version, WallMillis,
    command::{Command, Done, Refused, Reply},
    event::{Cause, Event},
    policy::Policy,
    record::{Attempt, End, PAST_KEPT, Past, Record, State, StateName},
};

pub use begin::{Waiting, final_answer, judge_waiter};
pub use ending::ending;
pub use read::{as_read, lease_end};
pub use windows::{Window, Windows, kept_for, window_end, windows};

use read::{Read, read_at};

/// A record as the store returned it.
#[derive(Clone, Copy, Debug)]
pub struct Current<'a> {
    /// Settled (see [`Record::settled`]); `None` where there is none.
    pub record: Option<&'a Record>,
    pub version: Version,
}

/// The store's time, and beside it the time that people read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    pub now: Stamp,
    pub wall: WallMillis,
}

/// What to do to the stored record, on the condition that its version has not moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    Nothing,
    /// Shared, so that whoever writes it can keep it without copying.
    Put(Arc<Record>),
    /// Leave it absent. Also said of what is absent already, where its version has to move.
    Remove,
}

/// Everything that follows from one command.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Step {
    pub write: Write,
    pub reply: Reply,
    pub event: Option<Event>,
    /// To be made durable before the write.
    pub put_body: Option<(BodyId, Bytes)>,
    /// To be dropped after the write.
    pub drop_bodies: Vec<BodyId>,
}

/// The one place where it is decided what a state may become.
///
/// The command may be given or lent: it is said again when a swap conflicts.
pub fn apply(policy: &Policy, current: Current<'_>, command: impl Borrow<Command>, moment: Moment) -> Step {
    let command = command.borrow();
    if let Some(class) = command.wrong_class() {
        return Step::answer(Reply::Refused(Refused::WrongClass(class)));
    }
    let before = Before::of(current, moment.now);
    let mut step = match command {
        Command::Begin(begin) => begin::begin(policy, &before, begin, moment),
        Command::Start { token } => lease::start(&before, *token),
        Command::Renew { token, lease } => lease::renew(policy, &before, *token, *lease, moment),
        Command::Complete { token, outcome } => {
            finish::finish(policy, &before, *token, outcome, finish::Verb::Complete, moment)
        }
        Command::Reject { token, outcome } => {
            finish::finish(policy, &before, *token, outcome, finish::Verb::Reject, moment)
        }
        Command::Fail { token, outcome } => finish::fail(&before, *token, outcome),
        Command::Release { token, why } => give_back::release(&before, *token, *why),
        Command::Unstart { token } => give_back::unstart(&before, *token),
        Command::Disown { nonce, expected } => give_back::disown(&before, *nonce, *expected),
        Command::Resolve(resolve) => resolve::resolve(policy, &before, resolve, moment),
        Command::ClaimProbe { version, next_at } => resolve::claim_probe(&before, *version, *next_at, moment),
        Command::Expire => sweep::expire(&before),
        Command::LetGo => sweep::let_go(&before),
        Command::Evict { tombstones_full } => sweep::evict(&before, *tombstones_full),
    };
    step.drop_bodies = bodies_left_behind(current.record, &step.write);
    keep_lease(current.record, &mut step.write);
    step
}

/// However an attempt ends, the record remembers for how long it was leased: afterwards no state says so.
fn keep_lease(stored: Option<&Record>, write: &mut Write) {
    let (Some(lease), Write::Put(next)) = (stored.and_then(Record::lease), write) else { return };
    let ended = next.lease().is_none() && stored.is_some_and(|stored| stored.attempt.number == next.attempt.number);
    if ended {
        Arc::make_mut(next).attempt.lease = Some(lease);
    }
}

/// The stored record, and what it reads as now.
struct Before<'a> {
    stored: Option<&'a Record>,
    read: Option<Read<'a>>,
    version: Version,
    now: Stamp,
}

impl<'a> Before<'a> {
    fn of(current: Current<'a>, now: Stamp) -> Self {
        let read = current.record.and_then(|record| read_at(record, now));
        Self { stored: current.record, read, version: current.version, now }
    }

    fn state(&self) -> StateName {
        self.read.as_ref().map_or(StateName::Absent, |record| record.state.name())
    }

    /// Whether time has done something to the record that nobody has written down.
    fn moved_by_time(&self) -> bool {
        match (self.stored, &self.read) {
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
            (Some(_), Some(read)) => matches!(read, Read::Moved(_)),
        }
    }

    fn event(&self, cause: Cause, to: StateName, attempt: u32) -> Event {
        Event {
            cause,
            from: self.state(),
            to,
            attempt,
            late: false,
            found_lapsed: self.moved_by_time(),
            mismatch_observed: false,
            refused: None,
        }
    }

    fn put(&self, cause: Cause, record: Record, done: Done) -> Step {
        let event = Event { late: done.late, ..self.event(cause, record.state.name(), record.attempt.number) };
        Step::new(Write::Put(Arc::new(record)), Reply::Done(done), Some(event))
    }

    fn remove(&self, cause: Cause, attempt: u32, done: Done) -> Step {
        let event = Event { late: done.late, ..self.event(cause, StateName::Absent, attempt) };
        Step::new(Write::Remove, Reply::Done(done), Some(event))
    }

    /// A token that does not count, on a command that carries no outcome worth keeping.
    fn fenced(&self, token: Token) -> Step {
        Step::new(Write::Nothing, Reply::Fenced, Some(self.event(Cause::Fenced, self.state(), token.attempt)))
    }
}

impl Step {
    fn new(write: Write, reply: Reply, event: Option<Event>) -> Self {
        Self { write, reply, event, put_body: None, drop_bodies: Vec::new() }
    }

    fn answer(reply: Reply) -> Self {
        Self::new(Write::Nothing, reply, None)
    }

    fn already() -> Self {
        Self::answer(Reply::Done(Done { already: true, late: false }))
    }
}

impl Record {
    /// How long the attempt under way is leased for. Nothing is leased for no time: that is how a stale one waits whose
    /// owner has said that it cannot say.
    fn lease(&self) -> Option<Millis> {
        match &self.state {
            State::Pending(pending) => Some(pending.lease.length).filter(|length| *length != Millis::ZERO),
            State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => None,
        }
    }

    /// The same record with its latest attempt moved into the past.
    fn with_attempt(&self, next: Attempt, ended: End) -> Self {
        let mut record = self.clone();
        let lease = self.lease();
        let before = std::mem::replace(&mut record.attempt, next);
        if record.past.len() == PAST_KEPT {
            record.past.remove(0);
        }
        record.past.push(Past {
            number: before.number,
            owner: before.owner,
            begun_wall: before.begun_wall,
            lease: lease.or(before.lease),
            end: ended,
        });
        record
    }
}

/// Bodies that the stored record names and the next one does not.
fn bodies_left_behind(stored: Option<&Record>, write: &Write) -> Vec<BodyId> {
    let Some(stored) = stored else { return Vec::new() };
    match write {
        Write::Nothing => Vec::new(),
        Write::Remove => stored.stored_bodies().collect(),
        Write::Put(next) => {
            stored.stored_bodies().filter(|body| next.stored_bodies().all(|kept| kept != *body)).collect()
        }
    }
}
