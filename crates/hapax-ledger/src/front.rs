//! The earliest of many moments, without keeping a tree of all of them.
//!
//! A front holds every record whose moment lies at or before its bound, and nothing is known of the others. When it runs
//! dry, one pass over the index fills it again with the next sixteenth. So a moment costs the index the bytes in its
//! slot and no more, and a record costs a sixteenth of a pass at most.

use std::collections::BTreeSet;

use hapax_core::Stamp;

use crate::slot::Key;

pub(crate) type Moment = (u64, Key);

const END: Moment = (u64::MAX, Key(u64::MAX, u64::MAX));

#[derive(Debug)]
pub(crate) struct Front {
    held: BTreeSet<Moment>,
    bound: Moment,
    /// What came in while a pass was under way.
    meanwhile: Option<Vec<Moment>>,
    most: usize,
}

pub(crate) const LEAST: usize = 16 * 1024;

impl Front {
    /// Of an empty index.
    pub(crate) fn new() -> Self {
        Self { held: BTreeSet::new(), bound: END, meanwhile: None, most: LEAST }
    }

    pub(crate) fn add(&mut self, at: Stamp, key: Key) {
        let moment = (at.0, key);
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.push(moment);
        }
        if moment <= self.bound {
            self.held.insert(moment);
            self.trim();
        }
    }

    pub(crate) fn remove(&mut self, at: Stamp, key: Key) {
        if (at.0, key) <= self.bound {
            self.held.remove(&(at.0, key));
        }
    }

    fn trim(&mut self) {
        if self.held.len() > 2 * self.most {
            let first_out = self.held.iter().nth(self.most).copied();
            if let Some(first_out) = first_out {
                drop(self.held.split_off(&first_out));
                self.bound = self.held.last().copied().unwrap_or((0, Key(0, 0)));
            }
        }
    }

    /// The earliest one at or before `until`, which stays until it is removed.
    pub(crate) fn first(&self, until: Stamp) -> Option<Moment> {
        self.held.first().copied().filter(|(at, _)| *at <= until.0)
    }

    /// Those after `after` up to `until`, as far as the front goes.
    pub(crate) fn range(&self, after: Option<Moment>, until: Stamp) -> impl Iterator<Item = Moment> {
        let start = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.held.range((start, std::ops::Bound::Unbounded)).copied().take_while(move |(at, _)| *at <= until.0)
    }

    /// Whether it can answer for everything up to `until`.
    pub(crate) fn covers(&self, until: Stamp) -> bool {
        self.bound >= (until.0, Key(u64::MAX, u64::MAX))
    }

    /// Before a pass over the index.
    pub(crate) fn start_pass(&mut self) {
        self.meanwhile = Some(Vec::new());
    }

    /// `found`: the earliest `asked` of the index, or all of them if there are fewer.
    pub(crate) fn end_pass(&mut self, found: Vec<Moment>, asked: usize) {
        self.most = asked.max(LEAST);
        let found: BTreeSet<Moment> = found.into_iter().collect();
        self.bound = if found.len() < asked { END } else { found.last().copied().unwrap_or(END) };
        self.held = found;
        let bound = self.bound;
        self.held.extend(self.meanwhile.take().into_iter().flatten().filter(|moment| *moment <= bound));
        self.trim();
    }
}

/// Gathers the earliest few.
#[derive(Debug)]
pub(crate) struct Earliest<T> {
    most: usize,
    kept: std::collections::BinaryHeap<T>,
}

impl<T: Ord> Earliest<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), kept: std::collections::BinaryHeap::new() }
    }

    pub(crate) fn offer(&mut self, item: T) {
        if self.kept.len() < self.most {
            self.kept.push(item);
        } else if let Some(mut last) = self.kept.peek_mut()
            && item < *last
        {
            *last = item;
        }
    }

    pub(crate) fn finish(self) -> Vec<T> {
        self.kept.into_sorted_vec()
    }
}
