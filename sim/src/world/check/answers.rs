//! Answers do not change, belong to whoever asked, and are there once they were acknowledged.

use std::collections::BTreeMap;

use hapax_core::{Effect, Record, State};

use super::{Log, records};
use crate::world::history::{Asked, History, Said, Told, Verb, What};

/// How long a process may believe its gate where others write too, with some time for the answer itself.
const BELIEVED: u64 = 2_000;

struct Answer<'a> {
    from: usize,
    to: usize,
    call: usize,
    asked: &'a Asked,
    told: &'a Told,
}

pub(super) fn check(log: &Log, history: &History, jumps: bool) {
    let mut asked = BTreeMap::new();
    let mut steps = BTreeMap::new();
    let mut answers: Vec<Answer<'_>> = Vec::new();
    let mut kept = Vec::new();
    for (place, entry) in log.entries.iter().enumerate() {
        match &entry.what {
            What::Call { call, asked: what, .. } => {
                asked.insert(*call, (place, what));
            }
            What::Told { call, told, .. } => {
                let Some((from, what)) = asked.remove(call) else { continue };
                if let Told::Ran { digests, unrecorded: false } = told
                    && what.enforced
                {
                    kept.push((place, what.id, digests.clone()));
                }
                answers.push(Answer { from, to: place, call: *call, asked: what, told });
            }
            What::Step { step, id, verb: Verb::Complete | Verb::Reject, digest, .. } => {
                steps.insert(*step, (*id, *digest));
            }
            What::Stepped { step, said: Said::Done { .. } } => {
                if let Some((id, Some(digest))) = steps.remove(step) {
                    kept.push((place, id, vec![digest]));
                }
            }
            What::Step { .. }
            | What::Stepped { .. }
            | What::Write { .. }
            | What::Effect { .. }
            | What::Leave { .. }
            | What::Jump { .. }
            | What::Crash { .. }
            | What::Note(_) => {}
        }
    }
    for answer in &answers {
        if let Err(broken) = judge_replay(log, answer, jumps) {
            let Answer { call, asked, .. } = answer;
            history.violation(format!("{broken}: call {call} on {}", asked.name));
        }
    }
    for (place, id, digests) in kept {
        judge_kept(log, history, &answers, place, &id, &digests);
    }
}

fn final_digest(record: &Record) -> Option<[u8; 32]> {
    match &record.state {
        State::Committed(done) | State::Rejected(done) => Some(done.outcome.digest()),
        State::Tombstone(stone) => Some(stone.digest),
        State::Pending(_) | State::Open(_) | State::InDoubt(_) => None,
    }
}

fn judge_replay(log: &Log, answer: &Answer<'_>, jumps: bool) -> Result<(), String> {
    let Asked { id, name, print, guarded, enforced, .. } = answer.asked;
    let (text, digests) = match answer.told {
        Told::Replay { text, digests, .. } => (text.as_deref(), digests),
        Told::JoinedFailure(text) => return belongs(text, name),
        Told::Execute(_)
        | Told::Ran { .. }
        | Told::RanInVain
        | Told::InFlight
        | Told::InDoubt
        | Told::Mismatch
        | Told::Refused(_)
        | Told::Superseded
        | Told::WindowClosed
        | Told::Error(_)
        | Told::Cancelled
        | Told::Crashed => return Ok(()),
    };
    if !enforced {
        return Ok(());
    }
    if let Some(text) = text {
        belongs(text, name)?;
        // The message of a recorded failure whose body was too long to keep.
        if text.is_empty() {
            return Ok(());
        }
    }
    let began = log.entries[answer.from].at;
    let believed = log.entries[..=answer.from].partition_point(|entry| entry.at + BELIEVED < began);
    let mut closest = "4: an answer that was never recorded";
    for write in log.stood(id, believed, answer.to).flatten() {
        let Some(record) = write.record.as_deref() else { continue };
        let Some(digest) = final_digest(record) else { continue };
        if !digests.contains(&digest) {
            continue;
        }
        let asked_at = log.entries[answer.from].clock;
        if !jumps && records::retention_end(record).is_some_and(|end| end < asked_at) {
            closest = "8: an answer was given again after its retention";
            continue;
        }
        if *guarded && record.print.as_ref().is_some_and(|kept| !kept.matches(&crate::bridge::print(*print))) {
            closest = "4: the answer to another request";
            continue;
        }
        return Ok(());
    }
    // A clock that was set back lengthens a window, also one that the sweeper has closed: a process may go on giving the
    // answer, as long as nothing has begun since.
    if jumps && last_answer(log, id, answer.from).is_some_and(|digest| digests.contains(&digest)) {
        return Ok(());
    }
    Err(closest.to_owned())
}

/// The answer that was there before it was removed, if nothing came after it.
fn last_answer(log: &Log, id: &hapax_core::Id, before: usize) -> Option<[u8; 32]> {
    let mut earlier = log.of(id).iter().rev().filter(|write| write.place < before);
    earlier.find_map(|write| write.record.as_deref()).and_then(final_digest)
}

/// Every answer names its operation, unless an operator gave it.
fn belongs(text: &str, name: &str) -> Result<(), String> {
    let plain = text.trim_start_matches('"');
    let by_hand = plain.is_empty() || plain.starts_with("refused by hand") || plain.starts_with("another story");
    let panicked = plain.starts_with("the work panicked");
    match plain.split_once('|') {
        Some((whose, _)) if whose == name => Ok(()),
        _ if by_hand || panicked => Ok(()),
        _ => Err(format!("10: an answer of another operation ({text})")),
    }
}

/// What was acknowledged is there for every later caller, as long as it is kept.
fn judge_kept(
    log: &Log,
    history: &History,
    answers: &[Answer<'_>],
    place: usize,
    id: &hapax_core::Id,
    digests: &[[u8; 32]],
) {
    let recorded = log.of(id).iter().rev().find(|write| {
        let digest = write.record.as_deref().and_then(final_digest);
        write.place <= place && digest.is_some_and(|digest| digests.contains(&digest))
    });
    let Some(recorded) = recorded else {
        history.violation(format!("5: acknowledged at entry {place} and never recorded: {id:?}"));
        return;
    };
    let Some(record) = recorded.record.as_deref() else { return };
    let until = records::retention_end(record).unwrap_or(u64::MAX);
    for answer in answers.iter().filter(|answer| answer.asked.id == *id && answer.from > place) {
        if log.peak(recorded.place, recorded.stamp, answer.to) >= until {
            continue;
        }
        let lost = match answer.told {
            Told::Execute(_)
            | Told::Ran { unrecorded: false, .. }
            | Told::JoinedFailure(_)
            | Told::InFlight
            | Told::InDoubt
            | Told::Refused(_)
            | Told::Superseded
            | Told::WindowClosed => true,
            // Pure work may run without a record where the store is gone.
            Told::RanInVain => answer.asked.effect != Effect::Pure,
            Told::Ran { unrecorded: true, .. }
            | Told::Replay { .. }
            | Told::Mismatch
            | Told::Error(_)
            | Told::Cancelled
            | Told::Crashed => false,
        };
        if lost && answer.asked.enforced {
            let Answer { call, told, .. } = answer;
            history.violation(format!(
                "5: acknowledged at entry {place}, yet call {call} on {} was told {told:?}",
                answer.asked.name
            ));
        }
    }
}
