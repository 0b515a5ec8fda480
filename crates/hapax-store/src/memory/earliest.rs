use std::{cmp::Ordering, collections::BinaryHeap};

/// Gathers the first few of what many sorted lists offer.
#[derive(Debug)]
pub(super) struct Earliest<K, T> {
    limit: usize,
    kept: BinaryHeap<Kept<K, T>>,
}

#[derive(Debug)]
struct Kept<K, T>(K, T);

impl<K: Ord, T> Earliest<K, T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), kept: BinaryHeap::new() }
    }

    /// False: this one comes too late, and so does all that follows it in its own list.
    pub(super) fn offer(&mut self, key: K, item: impl FnOnce() -> T) -> bool {
        if self.is_full() {
            match self.kept.peek() {
                Some(last) if key < last.0 => drop(self.kept.pop()),
                _ => return false,
            }
        }
        self.kept.push(Kept(key, item()));
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.kept.len() >= self.limit
    }

    /// The items in order, and the key of the last one.
    pub(super) fn finish(self) -> (Vec<T>, Option<K>) {
        let mut items = Vec::with_capacity(self.kept.len());
        let mut last = None;
        for Kept(key, item) in self.kept.into_sorted_vec() {
            items.push(item);
            last = Some(key);
        }
        (items, last)
    }
}

impl<K: Ord, T> Ord for Kept<K, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<K: Ord, T> PartialOrd for Kept<K, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord, T> PartialEq for Kept<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Ord, T> Eq for Kept<K, T> {}
