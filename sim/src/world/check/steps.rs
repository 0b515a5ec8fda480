//! A stale token is refused and said to be; one that counts is not.

use std::collections::BTreeMap;

use hapax_core::{Record, State, Token, record::End};

use super::{Log, records};
use crate::world::history::{History, Said, Verb, What};

pub(super) fn check(log: &Log, history: &History) {
    let mut open = BTreeMap::new();
    for (place, entry) in log.entries.iter().enumerate() {
        match &entry.what {
            What::Step { step, id, token, verb, digest } => {
                open.insert(*step, (place, *id, *token, *verb, *digest));
            }
            What::Stepped { step, said } => {
                let Some((from, id, token, verb, digest)) = open.remove(step) else { continue };
                let mut stood = log.stood(&id, from, place).peekable();
                let fine = match said {
                    Said::Fenced => stood.any(|write| match write {
                        None => true,
                        Some(write) => {
                            let peak = log.peak(write.place, write.stamp, place);
                            write.record.as_deref().is_none_or(|record| no_longer_counts(record, token, verb, peak))
                        }
                    }),
                    Said::Done { already, .. } => match verb {
                        Verb::Complete | Verb::Reject => stood.any(|write| {
                            let record = write.and_then(|write| write.record.as_deref());
                            record.is_some_and(|record| holds(record, token, digest))
                        }),
                        Verb::Start | Verb::Renew => stood.any(|write| {
                            let record = write.and_then(|write| write.record.as_deref());
                            record.is_some_and(|record| record.token() == token)
                        }),
                        Verb::Fail | Verb::Release => stood.any(|write| {
                            let record = write.and_then(|write| write.record.as_deref());
                            record.is_none_or(|record| *already || record.token() == token)
                        }),
                    },
                    Said::Conflict(_) | Said::Refused(_) | Said::Error(_) | Said::Unheard => true,
                };
                if !fine {
                    let what = if matches!(said, Said::Fenced) {
                        "a token that counts was refused"
                    } else {
                        "said to be done, and is not"
                    };
                    history.violation(format!("6: {what}: step {step}, {verb:?} of {id:?} at entry {place}"));
                }
            }
            What::Write { .. }
            | What::Call { .. }
            | What::Told { .. }
            | What::Effect { .. }
            | What::Leave { .. }
            | What::Jump { .. }
            | What::Crash { .. }
            | What::Note(_) => {}
        }
    }
}

fn no_longer_counts(record: &Record, token: Token, verb: Verb, peak: u64) -> bool {
    if record.token() != token || records::gone(record, peak) {
        return true;
    }
    let given_up = matches!(record.attempt.end, End::Released | End::Resolved | End::TakenOver);
    match verb {
        Verb::Start | Verb::Renew => match &record.state {
            State::Pending(pending) => records::lapsed(pending, peak),
            State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => true,
        },
        Verb::Complete | Verb::Reject => given_up,
        Verb::Fail | Verb::Release => given_up || matches!(record.state, State::Tombstone(_)),
    }
}

/// Whether the record holds this outcome of this token.
fn holds(record: &Record, token: Token, digest: Option<[u8; 32]>) -> bool {
    let held = match &record.state {
        State::Committed(done) | State::Rejected(done) => done.outcome.digest(),
        State::Tombstone(stone) => stone.digest,
        State::Pending(_) | State::Open(_) | State::InDoubt(_) => return false,
    };
    record.token() == token && digest == Some(held)
}
