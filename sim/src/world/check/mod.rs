//! What was promised, held against what happened.

mod answers;
mod effects;
mod records;
mod rest;
mod steps;

use std::{collections::BTreeMap, sync::Arc};

use hapax_core::{Id, Record};

use super::history::{Entry, History, What};

pub(super) use rest::at_rest;

/// Everything that can be judged from the history alone.
pub(super) fn check(history: &History, jumps: bool) {
    let log = Log::new(history.entries());
    records::check(&log, history);
    effects::check(&log, history);
    steps::check(&log, history);
    answers::check(&log, history, jumps);
}

/// The history, with the writes of each record at hand.
struct Log {
    entries: Vec<Entry>,
    writes: BTreeMap<Id, Vec<Written>>,
    jumps: Vec<(usize, u64)>,
}

/// One accepted write. It stands until the next one of the same id.
#[derive(Clone)]
struct Written {
    place: usize,
    stamp: u64,
    record: Option<Arc<Record>>,
}

impl Log {
    fn new(entries: Vec<Entry>) -> Self {
        let mut writes: BTreeMap<Id, Vec<Written>> = BTreeMap::new();
        let mut jumps = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            match &entry.what {
                What::Write { id, stamp, record, .. } => {
                    writes.entry(*id).or_default().push(Written { place, stamp: stamp.0, record: record.clone() });
                }
                What::Jump { from, .. } => jumps.push((place, *from)),
                What::Call { .. }
                | What::Told { .. }
                | What::Step { .. }
                | What::Stepped { .. }
                | What::Effect { .. }
                | What::Leave { .. }
                | What::Crash { .. }
                | What::Note(_) => {}
            }
        }
        Self { entries, writes, jumps }
    }

    fn of(&self, id: &Id) -> &[Written] {
        self.writes.get(id).map_or(&[], Vec::as_slice)
    }

    /// The latest moment that anybody could take for the store's time between two entries: whoever asked before a jump
    /// back may go on counting from what it was told.
    fn peak(&self, from: usize, stamp: u64, to: usize) -> u64 {
        let at = self.entries[to].at;
        let counted = |place: usize, clock: u64| clock + (at - self.entries[place].at);
        let jumped = self.jumps.iter().filter(|(place, _)| (from..=to).contains(place));
        let jumped = jumped.map(|(place, clock)| counted(*place, *clock)).max().unwrap_or(0);
        jumped.max(counted(from, stamp)).max(counted(from, self.entries[from].clock)).max(self.entries[to].clock) + 1
    }

    /// What was stored at some time between two entries, with the time until which it stood.
    fn stood<'a>(&'a self, id: &Id, from: usize, to: usize) -> impl Iterator<Item = Option<&'a Written>> {
        let writes = self.of(id);
        let before = writes.partition_point(|write| write.place <= from);
        let until = writes.partition_point(|write| write.place <= to);
        let first = if before == 0 { None } else { writes.get(before - 1) };
        std::iter::once(first).chain(writes[before..until.max(before)].iter().map(Some))
    }
}
