//! Random histories through the faulty twin, judged by an oracle.

use std::sync::Arc;

use hapax_core::{Id, Version};

use super::{
    Harness, Report, Verdict,
    check::{Bench, Halt, Outcome},
    oracle::{Fate, Oracle},
    sample::{ids, number_in, numbered},
};
use crate::{FaultyStore, Landing, Odds, Plan, Seeded, Snapshot, Store, StoreError, Swap};

const STEPS: u64 = 60;
const CALLERS: usize = 4;
/// More than any run of faults can take.
const PATIENCE: usize = 1_000;

/// Plays so many random histories, each on a store of its own behind the faulty twin. The callers keep to the contract:
/// after *unknown* they read, recognise their own write by its nonce, and disown by a write what is still under way.
/// Then each version has one content, no acknowledged write is lost, nothing that was refused or disowned is ever seen,
/// and a late write lands only on the version that it expected.
pub async fn run_faulty(harness: Arc<dyn Harness>, seed: u64, cases: u64) -> Report {
    let mut report = Report::default();
    for case in 0..cases {
        // Case 0 runs under the seed itself, so that a failed one is had again with it and `cases = 1`.
        let own = seed.wrapping_add(case);
        let bench = Bench(Arc::clone(&harness));
        let verdict = match tokio::spawn(async move { play(bench, own).await }).await {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(Halt::Failed(why))) => Verdict::Failed(format!("{why} (HAPAX_SEED={own})")),
            Ok(Err(Halt::Skipped(why))) => Verdict::Skipped(why),
            Err(error) => Verdict::Failed(format!("a panic: {error} (HAPAX_SEED={own})")),
        };
        report.add(format!("twin::history_{own}"), verdict);
    }
    report
}

/// One caller: what it last read, and the write it is unsure of.
#[derive(Default)]
struct Caller {
    known: Option<(Id, Version)>,
    unsure: Option<(u64, Id, Version)>,
}

struct History {
    inner: Arc<dyn Store>,
    twin: FaultyStore,
    dice: Seeded,
    all: Vec<Id>,
    oracle: Oracle,
    /// Every version that was ever read.
    past: Vec<(Id, Version)>,
    nonces: u64,
}

async fn play(bench: Bench, seed: u64) -> Outcome {
    let inner = bench.open().await?;
    // Late writes land as steps of their own, so that no step hides two changes.
    let plan = Plan::seeded(seed, Odds::ROUGH).landing(Landing::Released);
    let twin = FaultyStore::new(Arc::clone(&inner), plan);
    let mut history = History {
        inner,
        twin,
        dice: Seeded::new(!seed),
        all: ids(3),
        oracle: Oracle::default(),
        past: Vec::new(),
        nonces: 0,
    };
    let mut callers: [Caller; CALLERS] = Default::default();
    for _ in 0..STEPS {
        let turn = history.dice.below(CALLERS as u64 + 1) as usize;
        match callers.get_mut(turn) {
            Some(caller) => history.turn(caller).await?,
            None => history.land().await?,
        }
    }
    // Everybody comes to know what became of its writes, then all that is late lands.
    for caller in &mut callers {
        for _ in 0..PATIENCE {
            if caller.unsure.is_none() {
                break;
            }
            history.turn(caller).await?;
        }
        ensure!(caller.unsure.is_none(), "a caller never comes to know what became of its write");
    }
    history.twin.calm();
    while history.twin.waiting() > 0 {
        history.land().await?;
    }
    history.oracle.close()
}

impl History {
    async fn turn(&mut self, caller: &mut Caller) -> Outcome {
        match (caller.unsure, caller.known) {
            (Some((nonce, id, expected)), _) => self.make_sure(caller, nonce, id, expected).await,
            (None, Some((id, version))) if self.dice.chance(800) => self.swap(caller, id, version).await,
            (None, _) => {
                // Now and then somebody believes what was true long ago.
                if self.dice.chance(150) {
                    caller.known = self.dice.pick(&self.past).copied();
                    return Ok(());
                }
                let id = *self.dice.pick(&self.all).unwrap_or(&self.all[0]);
                caller.known = self.read(&id).await?.map(|held| (id, held.version));
                Ok(())
            }
        }
    }

    async fn swap(&mut self, caller: &mut Caller, id: Id, expected: Version) -> Outcome {
        self.nonces += 1;
        let nonce = self.nonces;
        let removal = self.dice.chance(200);
        self.oracle.attempt(nonce, id, expected, removal);
        let next = (!removal).then(|| numbered(nonce));
        caller.known = None;
        match self.twin.swap(&id, expected, next).await {
            Ok(Swap::Swapped { version, .. }) => {
                self.oracle.settle(nonce, Fate::Acknowledged(version));
                self.oracle.shown(id, version, (!removal).then_some(nonce))?;
                caller.known = Some((id, version));
            }
            Ok(Swap::Conflict(held)) => {
                ensure!(held.version != expected, "a conflict shows version {expected}, which was expected");
                self.oracle.settle(nonce, Fate::Dead);
                self.oracle.shown(id, held.version, number_in(held.record.as_ref()))?;
                caller.known = Some((id, held.version));
            }
            Err(StoreError::Unknown { .. }) => caller.unsure = Some((nonce, id, expected)),
            Err(StoreError::Unavailable { .. }) => self.oracle.settle(nonce, Fate::Dead),
            Err(other) => return Err(other.into()),
        }
        self.look().await
    }

    /// After *unknown*: read, recognise, or disown.
    async fn make_sure(&mut self, caller: &mut Caller, nonce: u64, id: Id, expected: Version) -> Outcome {
        let Some(held) = self.read(&id).await? else { return Ok(()) };
        if number_in(held.record.as_ref()) == Some(nonce) {
            self.oracle.settle(nonce, Fate::Acknowledged(held.version));
        } else if held.version == expected {
            // Still under way, or lost for good; moving the version makes sure of it.
            return self.disown(caller, nonce, id, held).await;
        }
        // Otherwise the version has moved, by this very write if it was a removal: it can land no more.
        caller.unsure = None;
        caller.known = Some((id, held.version));
        if number_in(held.record.as_ref()) != Some(nonce) {
            self.oracle.settle(nonce, Fate::Dead);
        }
        self.look().await
    }

    async fn disown(&mut self, caller: &mut Caller, nonce: u64, id: Id, held: Snapshot) -> Outcome {
        self.nonces += 1;
        let own = self.nonces;
        let removal = held.record.is_none();
        self.oracle.attempt(own, id, held.version, removal);
        match self.twin.swap(&id, held.version, (!removal).then(|| numbered(own))).await {
            Ok(Swap::Swapped { version, .. }) => {
                self.oracle.settle(own, Fate::Acknowledged(version));
                self.oracle.shown(id, version, (!removal).then_some(own))?;
                // The truth first: it may have changed by the disowning alone.
                self.look().await?;
                self.oracle.settle(nonce, Fate::Dead);
                caller.unsure = None;
                caller.known = Some((id, version));
                return Ok(());
            }
            // Moved by somebody, perhaps by the write in question: the next turn reads.
            Ok(Swap::Conflict(_)) | Err(StoreError::Unavailable { .. }) => self.oracle.settle(own, Fate::Dead),
            // Of the two only one can land. The next turn moves the version again if neither has.
            Err(StoreError::Unknown { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        self.look().await
    }

    async fn read(&mut self, id: &Id) -> Result<Option<Snapshot>, Halt> {
        match self.twin.get(id).await {
            Ok(held) => {
                self.oracle.shown(*id, held.version, number_in(held.record.as_ref()))?;
                self.past.push((*id, held.version));
                Ok(Some(held))
            }
            Err(StoreError::Unavailable { .. }) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    async fn land(&mut self) -> Outcome {
        self.twin.release_one().await?;
        self.look().await
    }

    /// What is really there.
    async fn look(&mut self) -> Outcome {
        for id in self.all.clone() {
            let held = self.inner.get(&id).await?;
            self.oracle.truth(id, &held, number_in(held.record.as_ref()))?;
        }
        Ok(())
    }
}
