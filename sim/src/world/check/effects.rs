//! No second effect without leave: what the provider saw, held against who was allowed to run.

use std::collections::{BTreeMap, BTreeSet};

use hapax_core::{Id, State, Token};

use super::Log;
use crate::world::history::{History, What};

/// What is known of one operation while the history is walked through.
#[derive(Default)]
struct Operation {
    /// Raised by each first attempt: what was before has ended by its retention, or left nothing.
    generation: u32,
    begun: BTreeMap<[u8; 16], u32>,
    done: Vec<(u32, Token)>,
    forgiven: BTreeSet<[u8; 16]>,
}

pub(super) fn check(log: &Log, history: &History) {
    let mut operations: BTreeMap<Id, Operation> = BTreeMap::new();
    for (place, entry) in log.entries.iter().enumerate() {
        match &entry.what {
            What::Write { id, record: Some(record), .. } if matches!(record.state, State::Pending(_)) => {
                let operation = operations.entry(*id).or_default();
                let nonce = record.attempt.nonce.0;
                if !operation.begun.contains_key(&nonce) {
                    operation.generation += u32::from(record.attempt.number == 1);
                    operation.begun.insert(nonce, operation.generation);
                }
            }
            What::Leave { id, token } => {
                operations.entry(*id).or_default().forgiven.insert(token.nonce.0);
            }
            What::Effect { id, token, effect, applied: true, enforced: true } if !effect.may_rerun() => {
                let operation = operations.entry(*id).or_default();
                let Some(generation) = operation.begun.get(&token.nonce.0).copied() else {
                    history.violation(format!("2: an effect of {id:?} at entry {place} by a token that never began"));
                    continue;
                };
                // Leave was given to run it again although this one may act, now or later.
                let forgiven = |first: &Token, then: &Token| {
                    first.attempt < then.attempt && operation.forgiven.contains(&first.nonce.0)
                };
                let second = operation.done.iter().find(|(other, by)| {
                    *other == generation && (by == token || !(forgiven(by, token) || forgiven(token, by)))
                });
                if let Some((_, by)) = second {
                    history.violation(format!("2: two effects of {id:?}: {token:?} at entry {place} after {by:?}"));
                }
                operation.done.push((generation, *token));
            }
            What::Write { .. }
            | What::Call { .. }
            | What::Told { .. }
            | What::Step { .. }
            | What::Stepped { .. }
            | What::Effect { .. }
            | What::Jump { .. }
            | What::Crash { .. }
            | What::Note(_) => {}
        }
    }
}
