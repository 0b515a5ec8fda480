use std::sync::Arc;

use hapax_core::{Tag, Version};

use super::{
    check::{Bench, Halt, Outcome},
    sample::{SURFACE, id, ids, numbered, tag},
    step::{overwrite, put, refused, remove, swap},
};
use crate::{Counted, Envelope, Seeded, Store, Usage};

fn of(tenant: Tag, counted: Counted) -> Envelope {
    Envelope { tenant, counted, ..numbered(0) }
}

async fn expect(store: &dyn Store, tag: Tag, records: u64, tombstones: u64, when: &str) -> Outcome {
    let usage = store.usage(tag).await?;
    if !usage.exact {
        return Err(Halt::Skipped("the store estimates".into()));
    }
    let wanted = Usage { records, tombstones, exact: true };
    ensure!(usage == wanted, "{when}: {usage:?} where {wanted:?} is held");
    Ok(())
}

pub(super) async fn follows_every_kind_of_write(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let store = store.as_ref();
    let (one, other) = (tag(10), tag(11));
    expect(store, one, 0, 0, "at the start").await?;
    let first = put(store, &id(1), Version::NEVER, of(one, Counted::Record)).await?;
    put(store, &id(2), Version::NEVER, of(one, Counted::Record)).await?;
    put(store, &id(3), Version::NEVER, of(other, Counted::Record)).await?;
    expect(store, one, 2, 0, "after two records").await?;
    expect(store, SURFACE, 3, 0, "the surface of three records").await?;
    let second = put(store, &id(1), first, of(one, Counted::Record)).await?;
    expect(store, one, 2, 0, "after a record in the place of a record").await?;
    let third = put(store, &id(1), second, of(one, Counted::Tombstone)).await?;
    expect(store, one, 1, 1, "after a record became a tombstone").await?;
    expect(store, SURFACE, 2, 1, "the surface after that").await?;
    let fourth = put(store, &id(1), third, of(other, Counted::Tombstone)).await?;
    expect(store, one, 1, 0, "after a tombstone changed its tenant").await?;
    expect(store, other, 1, 1, "the tenant it changed to").await?;
    let fifth = remove(store, &id(1), fourth).await?;
    expect(store, other, 1, 0, "after a tombstone was removed").await?;
    let sixth = remove(store, &id(1), fifth).await?;
    expect(store, SURFACE, 2, 0, "after what was absent was removed").await?;
    put(store, &id(1), sixth, of(one, Counted::Record)).await?;
    expect(store, one, 2, 0, "after a record came again").await?;
    let moved = Envelope { surface: tag(12), ..of(one, Counted::Record) };
    overwrite(store, &id(1), Some(moved)).await?;
    expect(store, SURFACE, 2, 0, "after a record changed its surface").await?;
    expect(store, tag(12), 1, 0, "the surface it changed to").await?;
    for id in ids(4) {
        overwrite(store, &id, None).await?;
    }
    for tag in [one, other, SURFACE, tag(12)] {
        expect(store, tag, 0, 0, "after all was removed").await?;
    }
    Ok(())
}

pub(super) async fn a_conflict_counts_nothing(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    put(store.as_ref(), &id(1), Version::NEVER, of(tag(10), Counted::Record)).await?;
    refused(store.as_ref(), &id(1), Version::NEVER, Some(of(tag(10), Counted::Record))).await?;
    refused(store.as_ref(), &id(1), Version(u64::MAX), Some(of(tag(11), Counted::Tombstone))).await?;
    refused(store.as_ref(), &id(1), Version(u64::MAX), None).await?;
    expect(store.as_ref(), tag(10), 1, 0, "after three conflicts").await?;
    expect(store.as_ref(), tag(11), 0, 0, "a tenant that only met a conflict").await
}

pub(super) async fn stays_exact_when_many_write(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = Arc::new(ids(25));
    let mut tasks = Vec::new();
    for task in 0..8u64 {
        let (store, all) = (Arc::clone(&store), Arc::clone(&all));
        tasks.push(tokio::spawn(async move {
            let mut dice = Seeded::new(task);
            for _ in 0..60 {
                let id = all[dice.below(25) as usize];
                let held = store.get(&id).await?;
                let next = match dice.below(4) {
                    0 => None,
                    1 => Some(of(tag(10), Counted::Tombstone)),
                    2 => Some(of(tag(10), Counted::Record)),
                    _ => Some(of(tag(11), Counted::Record)),
                };
                let _ = swap(store.as_ref(), &id, held.version, next).await?;
                tokio::task::yield_now().await;
            }
            Ok::<(), Halt>(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    as_held(store.as_ref(), &all, "after eight tasks wrote").await
}

/// Counts what is really there and compares.
async fn as_held(store: &dyn Store, all: &[hapax_core::Id], when: &str) -> Outcome {
    let mut held = Vec::new();
    for id in all {
        held.extend(store.get(id).await?.record);
    }
    for wanted in [tag(10), tag(11), SURFACE] {
        let count = |counted| {
            let here = held.iter().filter(|record| record.tenant == wanted || record.surface == wanted);
            here.filter(|record| record.counted == counted).count() as u64
        };
        expect(store, wanted, count(Counted::Record), count(Counted::Tombstone), when).await?;
    }
    Ok(())
}

pub(super) async fn is_there_after_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(20);
    for (number, id) in all.iter().enumerate() {
        let counted = if number % 3 == 0 { Counted::Tombstone } else { Counted::Record };
        put(store.as_ref(), id, Version::NEVER, of(tag(10 + (number % 2) as u8), counted)).await?;
    }
    overwrite(store.as_ref(), &all[5], None).await?;
    let store = bench.reopen(store).await?;
    as_held(store.as_ref(), &all, "after a reopening").await
}
