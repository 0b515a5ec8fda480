use std::sync::Arc;

use hapax_core::{Tag, Version};

use super::{
    check::{Bench, Halt, Outcome},
    sample::{SURFACE, id, ids, numbered, record, tag},
    step::{overwrite, put, refused, remove, swap},
};
use crate::{Counted, Envelope, Seeded, Store};

fn of(tenant: Tag, counted: Counted) -> Envelope {
    Envelope { tenant, counted, ..numbered(0) }
}

fn sized(tenant: Tag, payload: usize, beside: u64) -> Envelope {
    Envelope { tenant, beside, ..record(vec![7; payload]) }
}

async fn expect(store: &dyn Store, tag: Tag, records: u64, tombstones: u64, when: &str) -> Outcome {
    let held = (0..records).map(|_| of(tag, Counted::Record));
    let held: Vec<_> = held.chain((0..tombstones).map(|_| of(tag, Counted::Tombstone))).collect();
    expect_all(store, tag, held.iter(), when).await.map(drop)
}

/// What the tag's bytes are said to be, if all is as it is held.
async fn expect_all(
    store: &dyn Store,
    tag: Tag,
    held: impl Iterator<Item = &Envelope> + Clone,
    when: &str,
) -> Result<u64, Halt> {
    let usage = store.usage(tag).await?;
    if !usage.exact {
        return Err(Halt::Skipped("the store estimates".into()));
    }
    let weights = held.clone().map(|record| (record.counted, record.weight()));
    ensure!(usage.counts(held), "{when}: {usage:?} where this is held: {:?}", weights.collect::<Vec<_>>());
    Ok(usage.bytes)
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
                let (length, beside) = (dice.below(5_000) as usize, dice.below(2) * dice.below(1 << 30));
                let next = match dice.below(4) {
                    0 => None,
                    1 => Some(Envelope { counted: Counted::Tombstone, ..sized(tag(10), length, beside) }),
                    2 => Some(sized(tag(10), length, beside)),
                    _ => Some(sized(tag(11), length, beside)),
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
    as_held(store.as_ref(), &all, "after eight tasks wrote").await?;
    for id in all.iter() {
        overwrite(store.as_ref(), id, None).await?;
    }
    as_held(store.as_ref(), &all, "after all that eight tasks wrote was removed").await
}

/// Counts what is really there and compares.
async fn as_held(store: &dyn Store, all: &[hapax_core::Id], when: &str) -> Outcome {
    let mut held = Vec::new();
    for id in all {
        held.extend(store.get(id).await?.record);
    }
    for wanted in [tag(10), tag(11), SURFACE] {
        let here = held.iter().filter(|record| record.tenant == wanted || record.surface == wanted);
        expect_all(store, wanted, here, when).await?;
    }
    Ok(())
}

pub(super) async fn weighs_what_is_kept(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let store = store.as_ref();
    let (one, other) = (tag(10), tag(11));
    let mut version = Version::NEVER;
    // A begin, a completion, one whose body lies beside it, and back.
    for (payload, beside) in [(300, 0), (5_000, 0), (700, 1 << 20), (700, 3 << 30), (0, 0), (9_000, 1)] {
        let record = sized(one, payload, beside);
        version = put(store, &id(1), version, record.clone()).await?;
        for tag in [one, SURFACE] {
            expect_all(store, tag, [&record].into_iter(), "after a record of another size").await?;
        }
    }
    let neighbour = sized(other, 2_000, 70_000);
    put(store, &id(2), Version::NEVER, neighbour.clone()).await?;
    let before = store.usage(one).await?.bytes;
    refused(store, &id(1), Version(u64::MAX), Some(sized(one, 100_000, 1 << 20))).await?;
    ensure!(store.usage(one).await?.bytes == before, "a conflict was weighed");
    // The same again and again adds up to nothing.
    let same = sized(one, 9_000, 1);
    for _ in 0..50 {
        version = put(store, &id(1), version, same.clone()).await?;
    }
    let after = store.usage(one).await?.bytes;
    ensure!(after == before, "{after} bytes after what took {before} was written over with the same");
    expect_all(store, SURFACE, [&same, &neighbour].into_iter(), "the surface of both").await?;
    let stone = Envelope { counted: Counted::Tombstone, ..sized(one, 200, 0) };
    version = put(store, &id(1), version, stone.clone()).await?;
    expect_all(store, one, [&stone].into_iter(), "after its body was given up").await?;
    let moved = sized(other, 40, 1 << 10);
    version = put(store, &id(1), version, moved.clone()).await?;
    expect_all(store, one, [].into_iter(), "after it changed its tenant").await?;
    expect_all(store, other, [&moved, &neighbour].into_iter(), "the tenant it changed to").await?;
    remove(store, &id(1), version).await?;
    expect_all(store, other, [&neighbour].into_iter(), "after it was removed").await?;
    overwrite(store, &id(2), None).await?;
    for tag in [one, other, SURFACE] {
        expect_all(store, tag, [].into_iter(), "after all was removed").await?;
    }
    Ok(())
}

pub(super) async fn is_there_after_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(20);
    for (number, id) in all.iter().enumerate() {
        let counted = if number % 3 == 0 { Counted::Tombstone } else { Counted::Record };
        let size = sized(tag(10 + (number % 2) as u8), 100 * number, if number % 4 == 0 { 0 } else { 5_000 });
        put(store.as_ref(), id, Version::NEVER, Envelope { counted, ..size }).await?;
    }
    overwrite(store.as_ref(), &all[5], None).await?;
    let before = (store.usage(tag(10)).await?, store.usage(tag(11)).await?, store.usage(SURFACE).await?);
    let store = bench.reopen(store).await?;
    as_held(store.as_ref(), &all, "after a reopening").await?;
    let after = (store.usage(tag(10)).await?, store.usage(tag(11)).await?, store.usage(SURFACE).await?);
    ensure!(before == after, "{after:?} after a reopening, {before:?} before it");
    Ok(())
}
