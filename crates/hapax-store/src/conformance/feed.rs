use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hapax_core::{Id, Millis, Version};

use super::{
    check::{Bench, Halt, Outcome},
    sample::{id, ids, numbered},
    step::{feed_all, latest, overwrite, put, remove, same},
};
use crate::{Changes, Seeded, Snapshot, Store};

pub(super) async fn shows_every_record_from_the_start(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(100);
    for id in &all {
        put(store.as_ref(), id, Version::NEVER, numbered(0)).await?;
    }
    for limit in [1, 7, 1_000] {
        let seen = latest(feed_all(store.as_ref(), None, limit).await?.0);
        as_held(store.as_ref(), &all, &seen).await?;
    }
    Ok(())
}

pub(super) async fn shows_the_latest_state(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(10);
    for number in 0..100 {
        overwrite(store.as_ref(), &all[number as usize * 7 % 10], Some(numbered(number))).await?;
    }
    let seen = latest(feed_all(store.as_ref(), None, 3).await?.0);
    as_held(store.as_ref(), &all, &seen).await
}

pub(super) async fn shows_removals(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let version = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    put(store.as_ref(), &id(2), Version::NEVER, numbered(2)).await?;
    let (_, cursor) = feed_all(store.as_ref(), None, 10).await?;
    let removed = remove(store.as_ref(), &id(1), version).await?;
    let seen = latest(feed_all(store.as_ref(), Some(cursor), 10).await?.0);
    let Some(seen) = seen.get(&id(1)) else { return Err(Halt::Failed("a removal is not in the feed".into())) };
    ensure!(seen.record.is_none() && seen.version == removed, "the removal {removed} is shown as {seen:?}");
    Ok(())
}

/// Whoever comes back with any cursor ever given out learns of everything that happened since.
pub(super) async fn resumes_from_every_cursor(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(12);
    let mut dice = Seeded::new(5);
    let mut cursors = Vec::new();
    let mut cursor = None;
    let mut versions: BTreeMap<Id, Version> = BTreeMap::new();
    for number in 0..120 {
        let id = all[dice.below(12) as usize];
        let next = dice.chance(800).then(|| numbered(number));
        versions.insert(id, overwrite(store.as_ref(), &id, next).await?.0);
        if number % 3 == 0 {
            match store.changes(cursor.as_ref(), 1 + dice.below(4) as usize).await? {
                Changes::Gap { .. } => return Err(Halt::Failed("a gap where nothing can be forgotten".into())),
                Changes::Page { items, next } => {
                    // What this cursor vouches for: it must not be shown again, but all that is newer must.
                    let mut known =
                        cursors.last().map_or_else(BTreeMap::new, |(_, known): &(_, BTreeMap<_, _>)| known.clone());
                    known.extend(items.into_iter().map(|change| (change.id, change.snapshot.version)));
                    cursors.push((next.clone(), known));
                    cursor = Some(next);
                }
            }
        }
    }
    for (cursor, mut known) in cursors {
        let seen = latest(feed_all(store.as_ref(), Some(cursor), 5).await?.0);
        known.extend(seen.into_iter().map(|(id, snapshot)| (id, snapshot.version)));
        for (id, version) in &versions {
            ensure!(known.get(id) == Some(version), "version {version} is never shown; {:?} is", known.get(id));
        }
    }
    Ok(())
}

pub(super) async fn misses_nothing_while_many_write(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = Arc::new(ids(50));
    let mut tasks = Vec::new();
    for task in 0..6u64 {
        let (store, all) = (Arc::clone(&store), Arc::clone(&all));
        tasks.push(tokio::spawn(async move {
            let mut dice = Seeded::new(task);
            for number in 0..200 {
                let id = all[dice.below(50) as usize];
                overwrite(store.as_ref(), &id, dice.chance(900).then(|| numbered(number))).await?;
                tokio::task::yield_now().await;
            }
            Ok::<(), Halt>(())
        }));
    }
    let mut seen: BTreeMap<Id, Snapshot> = BTreeMap::new();
    let mut cursor = None;
    loop {
        let done = tasks.iter().all(tokio::task::JoinHandle::is_finished);
        let (changes, next) = feed_all(store.as_ref(), cursor, 9).await?;
        seen.extend(latest(changes));
        cursor = Some(next);
        if done {
            break;
        }
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await??;
    }
    let (changes, _) = feed_all(store.as_ref(), cursor, 9).await?;
    seen.extend(latest(changes));
    as_held(store.as_ref(), &all, &seen).await
}

/// A write with a lower version may end later than one with a higher version. A reader that has gone past it would never
/// see it, and since each id is written only once, nothing makes up for it.
pub(super) async fn never_passes_a_write_that_ends_late(bench: Bench) -> Outcome {
    const LEAST: u32 = 3;
    const MOST: u32 = 20;
    let start = tokio::time::Instant::now();
    // It takes luck to meet the moment: a fast store is tried more often, and a slow one on a slow day still a few times.
    for round in 1..=MOST {
        race_with_writers(bench.open().await?).await?;
        if round >= LEAST && start.elapsed() > Duration::from_millis(500) {
            break;
        }
    }
    Ok(())
}

async fn race_with_writers(store: Arc<dyn Store>) -> Outcome {
    const WRITERS: u64 = 4;
    const EACH: u64 = 500;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            for number in 0..EACH {
                put(store.as_ref(), &id(writer * EACH + number), Version::NEVER, numbered(number)).await?;
            }
            Ok::<(), Halt>(())
        }));
    }
    let mut seen = BTreeMap::new();
    let mut cursor = None;
    loop {
        let done = tasks.iter().all(tokio::task::JoinHandle::is_finished);
        let Changes::Page { items, next } = store.changes(cursor.as_ref(), 10_000).await? else {
            return Err(Halt::Failed("a gap where nothing can be forgotten".into()));
        };
        let end = items.is_empty();
        seen.extend(items.into_iter().map(|change| (change.id, change.snapshot)));
        cursor = Some(next);
        if done && end {
            break;
        }
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await??;
    }
    as_held(store.as_ref(), &ids(WRITERS * EACH), &seen).await
}

pub(super) async fn a_removal_is_shown_or_the_gap_is_said(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    put(store.as_ref(), &id(2), Version::NEVER, numbered(2)).await?;
    let (_, cursor) = feed_all(store.as_ref(), None, 10).await?;
    overwrite(store.as_ref(), &id(1), None).await?;
    bench.advance(Millis(bench.0.late_write_window().0.saturating_mul(10))).await?;
    let others: Vec<Id> = (10..1_000).map(id).collect();
    for other in &others {
        put(store.as_ref(), other, Version::NEVER, numbered(3)).await?;
    }
    match store.changes(Some(&cursor), 1_000_000).await? {
        Changes::Page { items, .. } => {
            let seen = latest(items);
            let shown = seen.get(&id(1)).is_some_and(|snapshot| snapshot.record.is_none());
            ensure!(shown, "a removal is neither shown nor said to be forgotten");
        }
        Changes::Gap { oldest } => {
            let (changes, cursor) = feed_all(store.as_ref(), Some(oldest), 50).await?;
            let seen = latest(changes);
            ensure!(seen.get(&id(1)).is_none_or(|seen| seen.record.is_none()), "a removed record is shown after a gap");
            // From `oldest` on nothing that is written later is missed, and there is no second gap.
            overwrite(store.as_ref(), &id(2), Some(numbered(7))).await?;
            let seen = latest(feed_all(store.as_ref(), Some(cursor), 50).await?.0);
            ensure!(seen.contains_key(&id(2)), "what is written after a gap is not shown");
        }
    }
    Ok(())
}

pub(super) async fn resumes_after_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(20);
    for id in &all[..10] {
        put(store.as_ref(), id, Version::NEVER, numbered(1)).await?;
    }
    let (changes, cursor) = feed_all(store.as_ref(), None, 3).await?;
    let mut seen = latest(changes);
    for id in &all[5..] {
        overwrite(store.as_ref(), id, Some(numbered(2))).await?;
    }
    overwrite(store.as_ref(), &all[0], None).await?;
    let store = bench.reopen(store).await?;
    overwrite(store.as_ref(), &all[1], Some(numbered(3))).await?;
    seen.extend(latest(feed_all(store.as_ref(), Some(cursor), 3).await?.0));
    as_held(store.as_ref(), &all, &seen).await
}

async fn as_held(store: &dyn Store, all: &[Id], seen: &BTreeMap<Id, Snapshot>) -> Outcome {
    for id in all {
        let held = store.get(id).await?;
        match seen.get(id) {
            Some(seen) => same(seen, &held, "the feed")?,
            None => ensure!(held.version == Version::NEVER, "the feed never showed version {}", held.version),
        }
    }
    Ok(())
}
