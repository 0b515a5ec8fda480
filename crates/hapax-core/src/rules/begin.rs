//! *Begin*: who may run it, and what everybody else is told.

use std::sync::Arc;

use crate::{
    Anchor, Fence, Fingerprint, Millis, Nonce, Outcome, Ties,
    command::{Admit, Begin, Epochs, Reply},
    event::{Cause, Event},
    policy::{MismatchInFlight, Policy},
    record::{Attempt, EarlierDoubt, End, Final, Lease, Pending, Record, State, StateName},
    verdict::{Grant, NextAction, Recorded, RefusalReason, Replay, Verdict},
};

use super::{
    Before, Current, Moment, Step, Write,
    read::{at, lease_end, read_at},
};

/// What a begin finds, before admission is asked.
enum Found {
    Answer(Verdict),
    Run(Run),
}

/// In which way it may run.
enum Run {
    /// There is nothing: attempt 1.
    Fresh,
    /// Earlier attempts have ended: attempt n+1.
    Next,
    /// A not-started attempt of an older epoch steps aside: attempt n+1.
    TakeOver,
    /// This nonce holds the attempt already.
    SameTicket,
}

/// Who asks. A waiter brings neither nonce nor epoch.
struct Asking<'a> {
    fingerprint: Option<&'a Fingerprint>,
    nonce: Option<Nonce>,
    epoch: Option<Epochs>,
}

pub(super) fn begin(policy: &Policy, before: &Before<'_>, begin: &Begin, moment: Moment) -> Step {
    let asking = Asking { fingerprint: begin.fingerprint.as_ref(), nonce: Some(begin.nonce), epoch: begin.epoch };
    let run = match find(policy, before, &asking) {
        Found::Answer(verdict) => return answered(before, verdict),
        Found::Run(run) => run,
    };
    // Whoever holds the attempt already was admitted when it began.
    let refusal = match (&run, &begin.admit, &begin.room) {
        (Run::SameTicket, _, _) => None,
        (Run::Fresh | Run::Next | Run::TakeOver, Admit::No(refusal), _)
        | (Run::Fresh, Admit::Yes, Admit::No(refusal)) => Some(refusal.clone()),
        // It has its record already. What another attempt will put into it has not been counted yet.
        (Run::Next | Run::TakeOver, Admit::Yes, Admit::No(refusal)) if refusal.reason == RefusalReason::Bytes => {
            Some(refusal.clone())
        }
        (Run::Fresh, Admit::Yes, Admit::Yes) | (Run::Next | Run::TakeOver, Admit::Yes, _) => None,
    };
    if let Some(refusal) = refusal {
        return answered(before, Verdict::Refused(refusal));
    }
    if begin.epoch.is_some_and(|epochs| epochs.caller < epochs.current) {
        return answered(before, Verdict::Fenced);
    }
    execute(policy, before, begin, run, moment)
}

fn find(policy: &Policy, before: &Before<'_>, asking: &Asking<'_>) -> Found {
    let Some(record) = before.read.as_deref() else { return Found::Run(Run::Fresh) };
    let now = before.now;
    if let State::Tombstone(stone) = &record.state
        && stone.retention.end(at(stone.decided)).is_some_and(|over| over <= now)
    {
        return Found::Answer(Verdict::WindowClosed {
            rejected: stone.rejected,
            status: stone.status,
            digest: stone.digest,
            decided_wall: stone.decided_wall,
        });
    }
    // Whoever has not started by then does not start any more, in whoever's hands the attempt is.
    let beyond_help = record.is_beyond_help(now);
    if !beyond_help && may_take_over(record, asking.epoch) {
        return Found::Run(Run::TakeOver);
    }
    let pending = matches!(record.state, State::Pending(_));
    if differs(record, asking.fingerprint) && policy.enforces_fingerprints() {
        return Found::Answer(match policy.mismatch_in_flight {
            Some(MismatchInFlight::InFlight) if pending => in_flight(policy, record, before),
            Some(MismatchInFlight::InFlight | MismatchInFlight::Mismatch) | None => Verdict::Mismatch,
        });
    }
    let mine = asking.nonce.is_some_and(|nonce| nonce == record.attempt.nonce);
    match &record.state {
        State::Committed(done) | State::Rejected(done) => Found::Answer(Verdict::Replay(replay_of(record, done))),
        State::Tombstone(stone) => Found::Answer(Verdict::Replay(Replay {
            answer: Recorded::DigestOnly { status: stone.status, digest: stone.digest },
            rejected: stone.rejected,
            decided_wall: stone.decided_wall,
            expires: stone.retention.end(at(stone.decided)),
            attempt: record.attempt.number,
            asked_first: record.about.principal.clone(),
        })),
        State::Pending(_) if mine && !beyond_help => Found::Run(Run::SameTicket),
        State::Pending(_) => Found::Answer(in_flight(policy, record, before)),
        State::InDoubt(_) | State::Open(_)
            if mine && !beyond_help && matches!(record.attempt.end, End::Lapsed { .. }) =>
        {
            Found::Run(Run::SameTicket)
        }
        // The provider answers this key as it did the first time, so another call is no second effect.
        State::InDoubt(_) if record.is_honoured(now) => Found::Run(Run::Next),
        State::InDoubt(doubt) => Found::Answer(Verdict::InDoubt {
            since: at(doubt.since),
            attempt: record.attempt.number,
            next: doubt.next_probe.map_or(NextAction::AskOperator, |at| NextAction::WaitForProbe { at }),
        }),
        State::Open(_) => Found::Run(Run::Next),
    }
}

fn may_take_over(record: &Record, epoch: Option<Epochs>) -> bool {
    match (&record.state, record.attempt.epoch, epoch) {
        (State::Pending(Pending { started: false, .. }), Some(older), Some(epochs)) => older < epochs.caller,
        (
            State::Pending(_)
            | State::Open(_)
            | State::InDoubt(_)
            | State::Committed(_)
            | State::Rejected(_)
            | State::Tombstone(_),
            _,
            _,
        ) => false,
    }
}

fn differs(record: &Record, fingerprint: Option<&Fingerprint>) -> bool {
    match (record.guard(), fingerprint) {
        (Some(guard), Some(print)) => !guard.matches(print),
        (None, _) | (_, None) => false,
    }
}

fn in_flight(policy: &Policy, record: &Record, before: &Before<'_>) -> Verdict {
    let left = match &record.state {
        State::Pending(pending) => lease_end(&pending.lease).since(before.now),
        State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
            Millis::ZERO
        }
    };
    // A stale lease has nothing left: only somebody's decision ends it, so ask again at leisure.
    let retry_after = if left == Millis::ZERO { policy.lease } else { left };
    Verdict::InFlight { retry_after, attempt: record.attempt.number }
}

fn replay_of(record: &Record, done: &Final) -> Replay {
    Replay {
        answer: Recorded::Whole(done.outcome.clone()),
        rejected: matches!(record.state, State::Rejected(_)),
        decided_wall: done.decided_wall,
        expires: done.retention.end(at(done.decided)),
        attempt: record.attempt.number,
        asked_first: record.about.principal.clone(),
    }
}

/// The answer that a final record gives, whatever the time.
#[must_use]
pub fn final_answer(record: &Record) -> Option<Replay> {
    match &record.state {
        State::Committed(done) | State::Rejected(done) => Some(replay_of(record, done)),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Tombstone(_) => None,
    }
}

fn answered(before: &Before<'_>, verdict: Verdict) -> Step {
    let cause = match &verdict {
        Verdict::WindowClosed { .. } => Cause::WindowClosed,
        Verdict::Mismatch => Cause::Mismatch,
        Verdict::Replay(_) => Cause::Replay,
        Verdict::InFlight { .. } => Cause::InFlight,
        Verdict::InDoubt { .. } => Cause::InDoubt,
        Verdict::Refused(_) => Cause::Refused,
        Verdict::Fenced => Cause::Fenced,
        Verdict::Execute(_) => Cause::Begin,
    };
    let attempt = before.read.as_ref().map_or(0, |record| record.attempt.number);
    let event = before.event(cause, before.state(), attempt);
    Step::new(Write::Nothing, Reply::Verdict(Box::new(verdict)), Some(event))
}

fn execute(policy: &Policy, before: &Before<'_>, begin: &Begin, run: Run, moment: Moment) -> Step {
    let length = begin.lease.unwrap_or(policy.lease);
    let lease = Lease { from: Anchor::Write, length };
    let mismatch_observed = before.read.as_deref().is_some_and(|record| differs(record, begin.fingerprint.as_ref()));
    let (record, cause) = match (run, before.read.as_deref()) {
        (Run::SameTicket, Some(held)) => {
            let mut record = held.clone();
            let was_started = match (&held.state, held.attempt.end) {
                (State::Pending(pending), _) => pending.started,
                (
                    State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_),
                    end,
                ) => match end {
                    End::Lapsed { started } => started,
                    End::Running
                    | End::Completed
                    | End::Rejected
                    | End::Failed
                    | End::FailedUnknown
                    | End::Released
                    | End::Resolved
                    | End::TakenOver => true,
                },
            };
            record.state = State::Pending(Pending { started: was_started || begin.started, lease });
            record.attempt.end = End::Running;
            record.attempt.lease = None;
            record.print = begin.fingerprint.as_ref().or(held.print.as_ref()).cloned();
            (Arc::new(record), Cause::BeginAgain)
        }
        (run, held) => {
            let number = held.map_or(1, |record| record.attempt.number.saturating_add(1));
            let attempt = Attempt {
                number,
                nonce: begin.nonce,
                owner: Arc::clone(&begin.owner),
                epoch: begin.epoch.map(|epochs| epochs.caller),
                begun: Anchor::Write,
                begun_wall: moment.wall,
                fence: Fence::Write,
                lease: None,
                end: End::Running,
            };
            let rules = policy.rules_for(begin.effect);
            let state = State::Pending(Pending { started: begin.started, lease });
            match held {
                None => {
                    // Made where it is shared from: it is too large to be moved about.
                    let record = Arc::new(Record {
                        about: Arc::clone(&begin.about),
                        effect: begin.effect,
                        print: begin.fingerprint.clone(),
                        guard_before: None,
                        attempt,
                        rules,
                        state,
                        past: Vec::new(),
                        evidence: Vec::new(),
                        resolved: None,
                        ties: begin.ties.clone(),
                        earlier_doubt: None,
                    });
                    (record, Cause::Begin)
                }
                Some(held) => {
                    // What a taken-over attempt found is what its successor goes back to: it never started.
                    let (ended, cause, guard_before) = match run {
                        Run::TakeOver => (End::TakenOver, Cause::TakeOver, held.guard_before.as_ref()),
                        Run::Fresh | Run::Next | Run::SameTicket => (held.attempt.end, Cause::Begin, held.guard()),
                    };
                    let mut record = held.with_attempt(attempt, ended);
                    record.earlier_doubt = doubt_beside(held);
                    record.effect = begin.effect;
                    record.print = begin.fingerprint.as_ref().or(guard_before).cloned();
                    record.guard_before = guard_before.cloned();
                    record.rules = rules;
                    record.ties = Ties::then(held.ties.as_ref(), begin.ties.as_ref());
                    record.state = state;
                    (Arc::new(record), cause)
                }
            }
        }
    };
    let fence = match record.attempt.fence {
        Fence::Write => None,
        Fence::At(version) => Some(version),
    };
    let verdict = Verdict::Execute(Grant { token: record.token(), lease: length, fence });
    let event = Event { mismatch_observed, ..before.event(cause, StateName::Pending, record.attempt.number) };
    Step::new(Write::Put(record), Reply::Verdict(Box::new(verdict)), Some(event))
}

/// The doubt beside which a next attempt runs: the one that it found, or the one that was there before that.
fn doubt_beside(held: &Record) -> Option<Arc<EarlierDoubt>> {
    let first = match (&held.earlier_doubt, &held.state) {
        (Some(earlier), _) => EarlierDoubt { failure: None, ..EarlierDoubt::clone(earlier) },
        (None, State::InDoubt(doubt)) => {
            EarlierDoubt { attempt: held.attempt.number, since: at(doubt.since), failure: None }
        }
        (None, State::Pending(_) | State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_)) => {
            return None;
        }
    };
    Some(Arc::new(first))
}

/// What a waiter that wakes is told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Waiting {
    /// Still under way; whoever cannot wait any longer may ask again after so long.
    Wait { retry_after: Millis },
    /// Judged as a begin that may not execute.
    Answer(Verdict),
    /// The attempt that was waited for failed retryably: its failure, which is no recorded answer.
    Joined(Outcome),
}

/// A waking waiter is judged as a begin that may not execute, fingerprint included.
pub fn judge_waiter(
    policy: &Policy,
    current: Current<'_>,
    fingerprint: Option<&Fingerprint>,
    waited_for: u32,
    moment: Moment,
) -> Waiting {
    let read = current.record.and_then(|record| read_at(record, moment.now));
    let before = Before { stored: current.record, read, version: current.version, now: moment.now };
    let asking = Asking { fingerprint, nonce: None, epoch: None };
    let retry_now = Verdict::InFlight { retry_after: Millis::ZERO, attempt: waited_for };
    match find(policy, &before, &asking) {
        Found::Answer(Verdict::InFlight { retry_after, .. }) => Waiting::Wait { retry_after },
        Found::Answer(verdict) => Waiting::Answer(verdict),
        Found::Run(Run::Fresh | Run::TakeOver | Run::SameTicket) => Waiting::Answer(retry_now),
        Found::Run(Run::Next) => match before.read.as_deref().map(|record| &record.state) {
            Some(State::Open(open)) => joined(open.failure.as_ref(), retry_now),
            Some(State::InDoubt(_)) => {
                let beside = before.read.as_deref().and_then(|record| record.earlier_doubt.as_ref());
                joined(beside.and_then(|doubt| doubt.failure.as_ref()), retry_now)
            }
            Some(State::Pending(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_)) | None => {
                Waiting::Answer(retry_now)
            }
        },
    }
}

fn joined(failure: Option<&Outcome>, otherwise: Verdict) -> Waiting {
    failure.map_or(Waiting::Answer(otherwise), |failure| Waiting::Joined(failure.clone()))
}
