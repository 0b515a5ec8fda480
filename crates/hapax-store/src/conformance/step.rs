//! What every check does again and again.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use hapax_core::{Id, Stamp, Version};

use super::check::{Halt, Outcome};
use crate::{Change, Changes, Cursor, Envelope, Index, Level, Snapshot, Store, StoreError, Swap};

/// More pages than any check can need.
const MOST_PAGES: usize = 100_000;

/// A swap, every second time asked for at once: a store that answers so does the same either way.
pub(super) async fn swap(
    store: &dyn Store,
    id: &Id,
    expected: Version,
    mut next: Option<Envelope>,
) -> Result<Swap, StoreError> {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    if TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
        && let Some(answer) = store.swap_now(id, expected, &mut next)
    {
        return answer;
    }
    store.swap(id, expected, next).await
}

/// A write that has to go through.
pub(super) async fn write(
    store: &dyn Store,
    id: &Id,
    expected: Version,
    next: Option<Envelope>,
) -> Result<(Version, Stamp), Halt> {
    match swap(store, id, expected, next).await? {
        Swap::Swapped { version, stamp } => Ok((version, stamp)),
        Swap::Conflict(snapshot) => {
            Err(Halt::Failed(format!("a swap on {id:?} that expects {expected} meets {snapshot:?}")))
        }
    }
}

pub(super) async fn put(store: &dyn Store, id: &Id, expected: Version, next: Envelope) -> Result<Version, Halt> {
    Ok(write(store, id, expected, Some(next)).await?.0)
}

pub(super) async fn remove(store: &dyn Store, id: &Id, expected: Version) -> Result<Version, Halt> {
    Ok(write(store, id, expected, None).await?.0)
}

/// Whatever the version is.
pub(super) async fn overwrite(store: &dyn Store, id: &Id, next: Option<Envelope>) -> Result<(Version, Stamp), Halt> {
    for _ in 0..MOST_PAGES {
        let held = store.get(id).await?;
        if let Swap::Swapped { version, stamp } = swap(store, id, held.version, next.clone()).await? {
            return Ok((version, stamp));
        }
    }
    Err(Halt::Failed("a swap on the version just read never goes through".into()))
}

/// A write that must not go through.
pub(super) async fn refused(
    store: &dyn Store,
    id: &Id,
    expected: Version,
    next: Option<Envelope>,
) -> Result<Snapshot, Halt> {
    match swap(store, id, expected, next).await? {
        Swap::Conflict(snapshot) => Ok(snapshot),
        Swap::Swapped { version, .. } => Err(Halt::Failed(format!(
            "a swap that expects {expected} goes through as {version}, though that version was not the current one"
        ))),
    }
}

pub(super) async fn scan_all(store: &dyn Store, index: Index, limit: usize) -> Result<Vec<Id>, Halt> {
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..MOST_PAGES {
        let page = store.scan(index, after.as_ref(), limit).await?;
        ensure!(page.items.len() <= limit, "a page of {} where at most {limit} were asked for", page.items.len());
        found.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
    Err(Halt::Failed(format!("a scan of {index:?} has no end")))
}

/// All of these, and in this order; others may stand between.
pub(super) fn ordered(found: &[Id], wanted: &[Id], what: &str) -> Outcome {
    let places: BTreeMap<&Id, usize> = found.iter().enumerate().map(|(place, id)| (id, place)).rev().collect();
    let mut before = None;
    for (number, id) in wanted.iter().enumerate() {
        let Some(place) = places.get(id) else {
            return Err(Halt::Failed(format!("{what}: misses number {number} of {}", wanted.len())));
        };
        ensure!(before < Some(place), "{what}: number {number} of {} comes too early", wanted.len());
        before = Some(place);
    }
    Ok(())
}

/// All of these, in any order.
pub(super) fn holds(found: &[Id], wanted: &[Id], what: &str) -> Outcome {
    let missing = wanted.iter().filter(|id| !found.contains(id)).count();
    ensure!(missing == 0, "{what}: misses {missing} of {}", wanted.len());
    Ok(())
}

/// Reads the feed to its end, which is an empty page.
pub(super) async fn feed_all(
    store: &dyn Store,
    after: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<Change>, Cursor), Halt> {
    let mut seen = Vec::new();
    let mut after = after;
    for _ in 0..MOST_PAGES {
        match store.changes(after.as_ref(), limit).await? {
            Changes::Gap { .. } => return Err(Halt::Failed("a gap in the feed where nothing can be forgotten".into())),
            Changes::Page { items, next } if items.is_empty() => return Ok((seen, next)),
            Changes::Page { items, next } => {
                ensure!(items.len() <= limit, "{} changes where at most {limit} were asked for", items.len());
                seen.extend(items);
                after = Some(next);
            }
        }
    }
    Err(Halt::Failed("the feed has no end".into()))
}

/// The last that was said of each id.
pub(super) fn latest(changes: Vec<Change>) -> BTreeMap<Id, Snapshot> {
    let mut latest: BTreeMap<Id, Snapshot> = BTreeMap::new();
    for Change { id, snapshot } in changes {
        match latest.get(&id) {
            Some(known) if known.version > snapshot.version => {}
            _ => drop(latest.insert(id, snapshot)),
        }
    }
    latest
}

pub(super) fn same(seen: &Snapshot, held: &Snapshot, what: &str) -> Outcome {
    ensure!(
        seen.version == held.version && seen.stamp == held.stamp && seen.record == held.record,
        "{what}: {seen:?} where {held:?} is held"
    );
    Ok(())
}

pub(super) fn full_only(store: &dyn Store) -> Outcome {
    match store.level() {
        Level::Full => Ok(()),
        Level::Basic => Err(Halt::Skipped("the store is of level basic".into())),
    }
}

pub(super) async fn within<T>(patience: Duration, future: impl Future<Output = T>, what: &str) -> Result<T, Halt> {
    tokio::time::timeout(patience, future)
        .await
        .map_err(|_| Halt::Failed(format!("{what}: not within {} ms", patience.as_millis())))
}
