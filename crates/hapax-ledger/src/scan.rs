//! Scans. What each one costs is written in `docs/ledger-format.md`.

use std::ops::Bound::{Excluded, Included, Unbounded};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{Cursor, Entry as Listed, Index as Which, List, Page, StoreError};
use parking_lot::Mutex;

use crate::{
    front::LEAST,
    index::Live,
    shared::Shared,
    slot::{GONE, Key, REMOVED, Slot},
};

/// How many tenants' runs are remembered.
const MOST_RUNS: usize = 64;

/// The least recently written records of one tenant: all of them after `from` up to `through`, in order.
///
/// A later write always has a higher version, so a run never becomes wrong: what has changed since is passed over.
#[derive(Debug)]
struct Run {
    tag: Tag,
    from: Version,
    through: Version,
    items: std::collections::VecDeque<(Version, Key)>,
}

#[derive(Debug, Default)]
pub(crate) struct Runs(Mutex<Vec<Run>>);

/// Whether ids of final records are asked for, which are not in memory.
pub(crate) const fn reads_the_disk(index: Which) -> bool {
    match index {
        Which::Expiry { .. } | Which::TenantAge(_) => true,
        Which::LeaseEnd { .. } | Which::InDoubt | Which::Group(_) | Which::Queue(_) => false,
    }
}

/// A place in any order: a moment, version or order first, then what tells equals apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place(u64, [u8; 32]);

impl Place {
    fn of_key(first: u64, key: Key) -> Self {
        let mut rest = [0; 32];
        rest[..8].copy_from_slice(&key.0.to_be_bytes());
        rest[8..16].copy_from_slice(&key.1.to_be_bytes());
        Self(first, rest)
    }

    fn key(&self) -> Key {
        let half = |at: usize| self.1[at..].first_chunk().copied().map_or(0, u64::from_be_bytes);
        Key(half(0), half(8))
    }

    fn cursor(&self) -> Cursor {
        let mut bytes = Vec::with_capacity(40);
        bytes.extend_from_slice(&self.0.to_be_bytes());
        bytes.extend_from_slice(&self.1);
        Cursor(Bytes::from(bytes))
    }

    fn parse(cursor: &Cursor) -> Option<Self> {
        let (first, rest) = cursor.0.split_first_chunk::<8>()?;
        Some(Self(u64::from_be_bytes(*first), rest.try_into().ok()?))
    }
}

pub(crate) fn scan(
    shared: &Shared,
    runs: &Runs,
    index: Which,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page<Id>, StoreError> {
    shared.healthy()?;
    let limit = limit.max(1);
    let after = match after {
        None => None,
        Some(cursor) => {
            Some(Place::parse(cursor).ok_or_else(|| shared.unsupported("this cursor is not one of its own"))?)
        }
    };
    match index {
        Which::LeaseEnd { until } => {
            let start = after.map_or(Unbounded, |place| Excluded((place.0, Id(place.1))));
            let books = shared.index.books();
            let found = books.lease.range((start, Unbounded)).take_while(|(at, _)| *at <= until.0);
            Ok(page(found.map(|(at, id)| (Place(*at, id.0), *id)), limit))
        }
        Which::InDoubt => {
            let start = after.map_or(Unbounded, |place| Excluded(Id(place.1)));
            let books = shared.index.books();
            Ok(page(books.doubt.range((start, Unbounded)).map(|id| (Place(0, id.0), *id)), limit))
        }
        Which::Group(tag) => Ok(list(shared, List::Group, tag, after, limit)),
        Which::Queue(tag) => Ok(list(shared, List::Queue, tag, after, limit)),
        Which::Expiry { until } => expiry(shared, until, after, limit),
        Which::TenantAge(tag) => age(shared, runs, tag, after, limit),
    }
}

fn page(found: impl Iterator<Item = (Place, Id)>, limit: usize) -> Page<Id> {
    let mut found: Vec<_> = found.take(limit + 1).collect();
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(place, _)| place.cursor());
    Page { items: found.into_iter().map(|(_, id)| id).collect(), next }
}

fn list(shared: &Shared, list: List, tag: Tag, after: Option<Place>, limit: usize) -> Page<Id> {
    let start = match after {
        None => Included((Listed { list, tag, order: 0 }, Id([0; 32]))),
        Some(place) => Excluded((Listed { list, tag, order: place.0 }, Id(place.1))),
    };
    let books = shared.index.books();
    let found =
        books.lists.range((start, Unbounded)).take_while(|(listed, _)| listed.list == list && listed.tag == tag);
    page(found.map(|(listed, id)| (Place(listed.order, id.0), *id)), limit)
}

fn expiry(shared: &Shared, until: Stamp, after: Option<Place>, limit: usize) -> Result<Page<Id>, StoreError> {
    let after = after.map(|place| (place.0, place.key()));
    let from_front = || {
        let books = shared.index.books();
        let found: Vec<_> = books.expiry.range(after, until).take(limit + 1).collect();
        (found.len() > limit || books.expiry.covers(until)).then_some(found)
    };
    let mut found = from_front();
    if found.is_none() && after.is_none() {
        shared.index.refill_expiry(until);
        found = from_front();
    }
    let found = found.unwrap_or_else(|| {
        let mut found = shared.index.earliest_expiries(after, limit + 1);
        found.retain(|(at, _)| *at <= until.0);
        found
    });
    let more = found.len() > limit;
    let next = found.get(limit - 1).filter(|_| more).map(|(at, key)| Place::of_key(*at, *key).cursor());
    let mut items = Vec::new();
    for (at, key) in found.into_iter().take(limit) {
        items.extend(id_of(shared, key, |slot| slot.expiry() == Some(Stamp(at)))?);
    }
    Ok(Page { items, next })
}

/// The whole id behind a key, if what it stands for is still there.
fn id_of(shared: &Shared, key: Key, still: impl Fn(&Slot) -> bool) -> Result<Option<Id>, StoreError> {
    loop {
        let Some((slot, live)) = shared.index.find(key) else { return Ok(None) };
        if slot.has(GONE) || slot.has(REMOVED) || !still(&slot) {
            return Ok(None);
        }
        if let Some(live) = live {
            let Live { id, .. } = *live;
            return Ok(Some(id));
        }
        if let Some(stored) = shared.read(&slot)? {
            return Ok(Some(stored.id));
        }
    }
}

fn age(shared: &Shared, runs: &Runs, tag: Tag, after: Option<Place>, limit: usize) -> Result<Page<Id>, StoreError> {
    let mut after = Version(after.map_or(0, |place| place.0));
    let mut items = Vec::new();
    // What is written from here on is not asked for.
    let visible = shared.visible();
    loop {
        let (found, through, end) = runs.stretch(shared, tag, after, visible, limit + 1 - items.len());
        for (version, key) in found {
            if items.len() == limit {
                return Ok(Page { items, next: Some(Place(after.0, [0; 32]).cursor()) });
            }
            after = version;
            items.extend(id_of(shared, key, |slot| slot.version() == version)?);
        }
        after = after.max(through);
        if end {
            return Ok(Page { items, next: None });
        }
    }
}

impl Runs {
    /// Some of a tenant's records after a version, how far that goes, and whether this is the end of them.
    fn stretch(
        &self,
        shared: &Shared,
        tag: Tag,
        after: Version,
        visible: Version,
        most: usize,
    ) -> (Vec<(Version, Key)>, Version, bool) {
        let mut runs = self.0.lock();
        let known = runs.iter().position(|run| run.tag == tag && run.from <= after && after < run.through);
        let mut run = match known {
            Some(at) => runs.remove(at),
            None => {
                let accounts = shared.index.books().accounts.of_tenant(tag);
                let asked = (shared.index.len() / 16).max(LEAST);
                let found =
                    if accounts.is_empty() { Vec::new() } else { shared.index.oldest_of(&accounts, after, asked) };
                let items = found.into_iter().map(|(version, key)| (Version(version), key));
                let items: std::collections::VecDeque<_> = items.filter(|(version, _)| *version <= visible).collect();
                let through = if items.len() < asked { visible } else { items.back().map_or(visible, |last| last.0) };
                // If all that came before is known to be gone, this run also answers for the beginning.
                let joins = runs.iter().position(|run| run.tag == tag && run.through == after && run.items.is_empty());
                let from = joins.map_or(after, |at| runs.remove(at).from);
                Run { tag, from, through, items }
            }
        };
        let is_current = |version: Version, key: Key| {
            shared
                .index
                .slot(key)
                .is_some_and(|slot| slot.version() == version && !slot.has(GONE) && !slot.has(REMOVED))
        };
        while let Some((version, key)) = run.items.front().copied()
            && !is_current(version, key)
        {
            run.items.pop_front();
        }
        let start = run.items.partition_point(|(version, _)| *version <= after);
        let found: Vec<_> = run.items.range(start..).take(most).copied().collect();
        let whole = start + found.len() == run.items.len();
        let through = if whole { run.through } else { found.last().map_or(after, |last| last.0) };
        // A tenant with few records need not be looked for again if all of them are already here.
        let all_here = || {
            let held = shared.index.books().accounts.slots_of(tag);
            run.from == Version::NEVER
                && held == run.items.iter().filter(|item| is_current(item.0, item.1)).count() as u64
        };
        let end = whole && (run.through >= visible || all_here());
        if run.through != run.from {
            runs.insert(0, run);
            runs.truncate(MOST_RUNS);
        }
        (found, through, end)
    }
}
