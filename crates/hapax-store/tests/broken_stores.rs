//! A suite that cannot fail proves nothing. Each store in here has one bug that somebody could really write, and the
//! suite has to name it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::wildcard_enum_match_arm)]

use std::{
    collections::BTreeMap,
    fmt,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, BoxFuture, Changes, Clock, Cursor, Due, Durability, Envelope, Index, Level, ManualClock,
    MemoryStore, Page, Snapshot, Store, Swap, Usage, Watch,
    conformance::{self, Harness},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// None: the wrapper itself is sound.
    None,
    /// A removed id reads as never written.
    RemovalForgotten,
    /// Versions start again after a removal.
    VersionReused,
    /// Removing what is absent is answered without a write.
    AbsentNotMoved,
    /// The conflict says what the caller believed, not what is there.
    ConflictBlind,
    /// The version is checked first and written later, with a gap between.
    CheckThenWrite,
    /// Only changes after the first look wake.
    WatchDeafAtFirst,
    /// A watch wakes once.
    WatchOnce,
    /// Usage counts writes.
    UsageDrifts,
    /// What was once weighed stays so.
    WeightKept,
    /// The last id of a full page is skipped.
    ScanSkips,
    /// The feed knows no removals.
    FeedHidesRemovals,
    /// `After` is counted from zero.
    DueFromZero,
    /// The payload is cut.
    PayloadCut,
    /// `now` stands still while stamps move.
    NowBehind,
    /// Dropping a body does nothing.
    BodyNotDropped,
    /// A wrong version is written all the same.
    NoCompare,
    /// The same, but only where it is asked at once.
    NoCompareAtOnce,
    /// Opened again, it is empty.
    ForgetsAll,
    /// A call ends in a panic, which must not end the suite.
    Panics,
}

struct Broken {
    inner: MemoryStore,
    bug: Bug,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// For `VersionReused`: the version inside, and the one that is shown, which counts the writes of one life.
    shown: BTreeMap<Id, (Version, u64)>,
    writes: BTreeMap<Tag, u64>,
    /// For `WeightKept`: the most that was ever told.
    weights: BTreeMap<Tag, u64>,
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Broken({:?})", self.bug)
    }
}

impl Broken {
    fn show(&self, id: &Id, mut held: Snapshot) -> Snapshot {
        match self.bug {
            Bug::RemovalForgotten if held.record.is_none() => held.version = Version::NEVER,
            Bug::VersionReused => {
                held.version = Version(self.state.lock().unwrap().shown.get(id).map_or(0, |(_, shown)| *shown));
            }
            Bug::NowBehind => held.now = Stamp(held.stamp.0.saturating_sub(1)),
            _ => {}
        }
        held
    }
}

impl Store for Broken {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(async move { Ok(self.show(id, self.inner.get(id).await?)) })
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            let (mut expected, mut next) = (expected, next);
            let held = self.inner.get(id).await?;
            match self.bug {
                Bug::RemovalForgotten if held.record.is_none() && expected == Version::NEVER => expected = held.version,
                Bug::VersionReused => {
                    let (inside, shown) = self.state.lock().unwrap().shown.get(id).copied().unwrap_or_default();
                    expected = if expected == Version(shown) { inside } else { Version(u64::MAX) };
                }
                Bug::AbsentNotMoved if held.record.is_none() && next.is_none() && held.version == expected => {
                    return Ok(Swap::Swapped { version: held.version, stamp: held.stamp });
                }
                Bug::CheckThenWrite if held.version == expected => {
                    tokio::task::yield_now().await;
                    expected = self.inner.get(id).await?.version;
                }
                Bug::NoCompare => expected = held.version,
                Bug::DueFromZero => {
                    if let Some(record) = &mut next {
                        for due in [&mut record.lease_end, &mut record.expiry].into_iter().flatten() {
                            *due = Due::At(due.resolve(Stamp(0)));
                        }
                    }
                }
                Bug::PayloadCut => {
                    if let Some(record) = &mut next {
                        record.payload.truncate(250);
                    }
                }
                _ => {}
            }
            let tenant = next.as_ref().map(|record| record.tenant);
            let removal = next.is_none();
            let answer = self.inner.swap(id, expected, next).await?;
            let mut state = self.state.lock().unwrap();
            match &answer {
                Swap::Swapped { version, stamp } => {
                    if let Some(tenant) = tenant {
                        *state.writes.entry(tenant).or_default() += 1;
                    }
                    let life = state.shown.entry(*id).or_default();
                    // A removed one starts again from one; its absence has the next number of the life that ended.
                    *life = (*version, if held.record.is_none() && !removal { 1 } else { life.1 + 1 });
                    if self.bug == Bug::VersionReused {
                        return Ok(Swap::Swapped { version: Version(life.1), stamp: *stamp });
                    }
                    Ok(answer)
                }
                Swap::Conflict(held) => {
                    drop(state);
                    let mut held = self.show(id, held.clone());
                    if self.bug == Bug::ConflictBlind {
                        held.record = None;
                    }
                    Ok(Swap::Conflict(held))
                }
            }
        })
    }

    fn swap_now(
        &self,
        id: &Id,
        expected: Version,
        next: &mut Option<Envelope>,
    ) -> Option<Result<Swap, hapax_store::StoreError>> {
        if self.bug != Bug::NoCompareAtOnce {
            return None;
        }
        match self.inner.swap_now(id, expected, next)? {
            Ok(Swap::Conflict(held)) => self.inner.swap_now(id, held.version, next),
            answer => Some(answer),
        }
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let inner = self.inner.watch(id).await?;
            Ok(match self.bug {
                Bug::WatchOnce => Box::new(Once { inner, woke: false }) as Box<dyn Watch>,
                Bug::WatchDeafAtFirst => Box::new(Deaf { inner, looked: false }),
                _ => inner,
            })
        })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(async move {
            let mut page = self.inner.scan(index, after, limit).await?;
            if self.bug == Bug::ScanSkips && page.next.is_some() && limit > 1 {
                page.items.pop();
            }
            Ok(page)
        })
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        Box::pin(async move {
            Ok(match self.inner.changes(after, limit).await? {
                Changes::Page { mut items, next } => {
                    for change in &mut items {
                        change.snapshot = self.show(&change.id, change.snapshot.clone());
                    }
                    if self.bug == Bug::FeedHidesRemovals {
                        items.retain(|change| change.snapshot.record.is_some());
                    }
                    Changes::Page { items, next }
                }
                gap @ Changes::Gap { .. } => gap,
            })
        })
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        self.inner.put_body(owner, body, bytes)
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        self.inner.get_body(body)
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        assert!(self.bug != Bug::Panics, "on purpose");
        if self.bug == Bug::BodyNotDropped { Box::pin(async { Ok(()) }) } else { self.inner.drop_body(body) }
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        self.inner.bodies(after, limit)
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(async move {
            let mut usage = self.inner.usage(tag).await?;
            if self.bug == Bug::UsageDrifts {
                usage.records = self.state.lock().unwrap().writes.get(&tag).copied().unwrap_or(usage.records);
            }
            if self.bug == Bug::WeightKept {
                let mut state = self.state.lock().unwrap();
                let most = state.weights.entry(tag).or_default();
                *most = usage.bytes.max(*most);
                usage.bytes = *most;
            }
            Ok(usage)
        })
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn level(&self) -> Level {
        self.inner.level()
    }

    fn name(&self) -> String {
        "broken".into()
    }

    fn single_writer(&self) -> bool {
        true
    }
}

struct Once {
    inner: Box<dyn Watch>,
    woke: bool,
}

impl Watch for Once {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.woke {
                pending::<()>().await;
            }
            self.inner.changed().await;
            self.woke = true;
        })
    }
}

struct Deaf {
    inner: Box<dyn Watch>,
    looked: bool,
}

impl Watch for Deaf {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if !self.looked {
                self.looked = true;
                // Swallows what came before.
                let _ = tokio::time::timeout(Duration::ZERO, self.inner.changed()).await;
            }
            self.inner.changed().await;
        })
    }
}

struct Workshop {
    bug: Bug,
    clock: Arc<ManualClock>,
}

impl Harness for Workshop {
    fn open(&self) -> Answer<'_, Arc<dyn Store>> {
        let inner = MemoryStore::new(Arc::clone(&self.clock) as Arc<dyn Clock>);
        let store = Arc::new(Broken { inner, bug: self.bug, state: Mutex::default() });
        Box::pin(async { Ok(store as Arc<dyn Store>) })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Answer<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move { Ok(Some(if self.bug == Bug::ForgetsAll { self.open().await? } else { store })) })
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, bool> {
        self.clock.advance(by);
        Box::pin(async { true })
    }

    fn patience(&self) -> Duration {
        if self.bug == Bug::None { Duration::from_secs(10) } else { Duration::from_millis(200) }
    }
}

async fn examine(bug: Bug) -> Vec<String> {
    let report = conformance::run(Arc::new(Workshop { bug, clock: Arc::default() })).await;
    report.failures().map(str::to_owned).collect()
}

/// The suite fails the check that this bug is about.
async fn named(bug: Bug, check: &str) {
    let failed = examine(bug).await;
    assert!(failed.iter().any(|name| name == check), "{bug:?} should fail {check}; failed: {failed:?}");
}

#[tokio::test]
async fn the_wrapper_without_a_bug_passes() {
    assert_eq!(examine(Bug::None).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_removal_that_forgets_its_version() {
    named(Bug::RemovalForgotten, "removal::has_a_version_of_its_own").await;
    named(Bug::RemovalForgotten, "removal::a_late_write_conflicts").await;
}

#[tokio::test]
async fn a_version_used_again_after_a_removal() {
    named(Bug::VersionReused, "version::never_repeats_after_a_removal").await;
}

#[tokio::test]
async fn an_absence_that_does_not_move() {
    named(Bug::AbsentNotMoved, "removal::of_what_is_absent_moves_the_version").await;
}

#[tokio::test]
async fn a_conflict_that_does_not_return_what_is_there() {
    named(Bug::ConflictBlind, "swap::a_conflict_returns_the_current_snapshot").await;
}

#[tokio::test]
async fn a_check_with_a_gap_before_the_write() {
    named(Bug::CheckThenWrite, "race::a_first_write_has_one_winner").await;
    named(Bug::CheckThenWrite, "race::each_version_has_one_winner").await;
}

#[tokio::test]
async fn a_swap_that_never_compares() {
    named(Bug::NoCompare, "swap::a_wrong_version_changes_nothing").await;
}

#[tokio::test]
async fn a_swap_that_does_not_compare_where_it_is_asked_at_once() {
    named(Bug::NoCompareAtOnce, "race::a_first_write_has_one_winner").await;
}

#[tokio::test]
async fn a_watch_that_misses_what_comes_before_the_first_wait() {
    named(Bug::WatchDeafAtFirst, "watch::a_change_right_after_set_up_wakes").await;
}

#[tokio::test]
async fn a_watch_that_wakes_only_once() {
    named(Bug::WatchOnce, "watch::wakes_on_removals").await;
}

#[tokio::test]
async fn a_usage_that_drifts() {
    named(Bug::UsageDrifts, "usage::follows_every_kind_of_write").await;
}

#[tokio::test]
async fn a_weight_that_is_never_taken_off() {
    named(Bug::WeightKept, "usage::weighs_what_is_kept").await;
}

#[tokio::test]
async fn a_scan_that_skips_between_pages() {
    named(Bug::ScanSkips, "index::pages_miss_nothing_while_writes_go_on").await;
    named(Bug::ScanSkips, "index::doubt_is_found").await;
}

#[tokio::test]
async fn a_feed_without_removals() {
    named(Bug::FeedHidesRemovals, "feed::shows_removals").await;
}

#[tokio::test]
async fn a_moment_that_does_not_count_from_the_write() {
    named(Bug::DueFromZero, "index::lease_end_counts_from_the_stamp_of_the_write").await;
    named(Bug::DueFromZero, "index::expiry_counts_from_the_stamp_of_the_write").await;
}

#[tokio::test]
async fn a_payload_that_is_cut() {
    named(Bug::PayloadCut, "envelope::comes_back_as_it_went").await;
}

#[tokio::test]
async fn a_now_before_the_stamp() {
    named(Bug::NowBehind, "time::now_is_never_before_the_stamp").await;
}

#[tokio::test]
async fn a_body_that_cannot_be_dropped() {
    named(Bug::BodyNotDropped, "body::a_dropped_one_is_gone").await;
}

#[tokio::test]
async fn a_store_that_forgets() {
    let failed = examine(Bug::ForgetsAll).await;
    assert!(failed.iter().all(|name| name.contains("reopening")), "{failed:?}");
    assert!(failed.len() >= 6, "{failed:?}");
}

#[tokio::test]
async fn a_store_that_panics() {
    let failed = examine(Bug::Panics).await;
    assert!(failed.iter().all(|name| name.starts_with("body::")) && !failed.is_empty(), "{failed:?}");
}

/// The histories through the faulty twin find by themselves what late writes do to a store without versions of absence.
#[tokio::test]
async fn histories_find_what_late_writes_break() {
    for bug in [Bug::RemovalForgotten, Bug::VersionReused, Bug::NoCompare] {
        let report = conformance::run_faulty(Arc::new(Workshop { bug, clock: Arc::default() }), 1, 200).await;
        assert!(!report.passed(), "{bug:?} is not found by any of 200 histories");
    }
}
