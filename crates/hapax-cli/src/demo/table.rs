//! Both halves side by side.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use super::{order::Order, tally::Tally};

pub(crate) struct Column {
    orders: usize,
    requests: u32,
    charges: u32,
    pub(crate) charged_twice: usize,
    replays: u32,
    mismatches: u32,
    in_flight: u32,
    in_doubt: u32,
    gave_up: u32,
}

impl Column {
    pub(crate) fn new(orders: &[Order], tally: &Tally, charges: &BTreeMap<u32, u32>) -> Self {
        Self {
            orders: orders.len(),
            requests: tally.requests.load(Relaxed),
            charges: charges.values().sum(),
            charged_twice: charges.values().filter(|charges| **charges > 1).count(),
            replays: tally.replays.load(Relaxed),
            mismatches: tally.mismatches.load(Relaxed),
            in_flight: tally.in_flight.load(Relaxed),
            in_doubt: tally.in_doubt.load(Relaxed),
            gave_up: tally.gave_up.load(Relaxed),
        }
    }

    fn rows(&self) -> [(&'static str, u64); 9] {
        [
            ("orders", self.orders as u64),
            ("requests sent", self.requests.into()),
            ("charges that really happened", self.charges.into()),
            ("orders charged more than once", self.charged_twice as u64),
            ("answers replayed", self.replays.into()),
            ("conflicts: same key, other order", self.mismatches.into()),
            ("told that it still runs", self.in_flight.into()),
            ("in doubt, for a person to resolve", self.in_doubt.into()),
            ("customers left without an answer", self.gave_up.into()),
        ]
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let rows = self.rows().map(|(name, value)| (name.to_owned(), value.into()));
        serde_json::Value::Object(rows.into_iter().collect())
    }
}

pub(crate) fn print(without: &Column, with: &Column) {
    outln!("\n{:36}{:>14}{:>14}", "", "without Hapax", "with Hapax");
    for ((name, without), (_, with)) in without.rows().into_iter().zip(with.rows()) {
        outln!("{name:36}{without:>14}{with:>14}");
    }
    outln!("\nAn order in doubt was charged at most once; who asks again is told so instead of being charged again.");
}
