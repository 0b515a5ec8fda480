use std::collections::BTreeSet;

use hapax_core::{Id, Millis, Version};

use super::{
    check::{Bench, Halt, Outcome},
    sample::{id, ids, numbered},
    step::{put, remove},
};
use crate::Store;

pub(super) async fn grows_with_every_write(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut last = Version::NEVER;
    for number in 0..100 {
        let version = put(store.as_ref(), &id(1), last, numbered(number)).await?;
        ensure!(version > last, "version {version} after {last}");
        last = version;
    }
    Ok(())
}

pub(super) async fn never_repeats_after_a_removal(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut used = BTreeSet::new();
    for _ in 0..10 {
        live_and_die(store.as_ref(), &id(1), &mut used).await?;
    }
    Ok(())
}

pub(super) async fn never_repeats_once_a_removal_is_forgotten(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut used = BTreeSet::new();
    for round in 0..3 {
        live_and_die(store.as_ref(), &id(0), &mut used).await?;
        bench.advance(Millis(bench.0.late_write_window().0.saturating_mul(10))).await?;
        for other in ids(500).iter().skip(1) {
            let held = store.get(other).await?;
            put(store.as_ref(), other, held.version, numbered(round)).await?;
        }
    }
    Ok(())
}

pub(super) async fn never_repeats_over_a_reopening(bench: Bench) -> Outcome {
    let mut store = bench.open().await?;
    let mut used = BTreeSet::new();
    for _ in 0..5 {
        live_and_die(store.as_ref(), &id(1), &mut used).await?;
        store = bench.reopen(store).await?;
    }
    Ok(())
}

async fn live_and_die(store: &dyn Store, id: &Id, used: &mut BTreeSet<Version>) -> Result<(), Halt> {
    let expected = store.get(id).await?.version;
    let first = put(store, id, expected, numbered(1)).await?;
    let second = put(store, id, first, numbered(2)).await?;
    let removed = remove(store, id, second).await?;
    let again = remove(store, id, removed).await?;
    for version in [first, second, removed, again] {
        ensure!(!used.contains(&version), "version {version} is given out a second time");
        ensure!(used.last().is_none_or(|last| *last < version), "version {version} comes after {:?}", used.last());
        used.insert(version);
    }
    Ok(())
}
