//! Accidents found on paper, and those that every log has had at some time.

#![allow(clippy::disallowed_methods, reason = "real processes and threads take real time")]

use std::{path::Path, pin::pin, sync::Arc, time::Duration};

use crate::common::*;
use hapax_core::{Millis, Version};
use hapax_ledger::{
    Ledger, OpenError, Options,
    disk::{Disk, File, Held, Mode, RealDisk, RecordingDisk},
};
use hapax_store::{Changes, Due, Envelope, Index, Store, StoreError, Swap};
use parking_lot::{Condvar, Mutex};

const DIR: &str = "/l";

fn on(disk: &RecordingDisk, clock: &Arc<ManualClock>) -> Options {
    small(DIR).disk(Arc::new(disk.clone())).clock(clock.clone())
}

/// L1. A segment is recycled: behind the new tail lie whole frames of the old one, each with a valid checksum. A log
/// that trusts checksums alone would read them as its own.
#[test]
fn l1_an_old_frame_with_a_valid_checksum_behind_the_tail_is_not_data() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let options = || on(&disk, &clock).removal_memory(Millis(10));
    let mut ledger = Stepped::open(options()).unwrap();
    // Many small frames of the same size, so that old frames stand exactly where new ones would follow.
    let write = |ledger: &mut Stepped, number: u64| {
        let record = Envelope { gone: Some(Due::After(Millis(50))), ..envelope(vec![number as u8; 300]) };
        ledger.put(id(number), Some(record))
    };
    let mut number = 0;
    while ledger.ledger.status().retired < 6 {
        number += 1;
        assert!(number < 2_000, "nothing is recycled: {:?}", ledger.ledger.status());
        write(&mut ledger, number);
        clock.advance(10);
        ledger.settle();
    }
    // Into a fresh segment that is a recycled one, by a few frames only.
    let names = disk.image().names();
    for _ in 0..3 {
        number += 1;
        write(&mut ledger, number);
    }
    let last = write(&mut ledger, number + 1);
    drop(ledger);
    let newest = disk.image().names().into_iter().filter(|name| name.extension().is_some_and(|end| end == "seg"));
    let ghosts =
        newest.filter(|name| disk.image().bytes(name).unwrap().windows(4).filter(|w| *w == b"HXF1").count() > 10);
    assert!(ghosts.count() > 0, "no ghosts to be afraid of: {names:?}");
    let mut again = Stepped::open(options()).unwrap();
    assert_eq!(again.get(id(number + 1)).unwrap().version, last);
    assert_eq!(again.put(id(9_999), Some(envelope("x"))), Version(last.0 + 1), "a ghost has moved the versions");
    for old in 1..number.saturating_sub(20) {
        assert!(again.get(id(old)).unwrap().record.is_none(), "{old} has come back");
    }
}

/// A disk whose syncs wait to be let through, and what has to be read from it too.
#[derive(Debug)]
struct GatedDisk {
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    shut: bool,
    /// Nothing of the disk is in memory.
    cold: bool,
    /// How many may still pass while it is shut.
    let_through: usize,
    waiting: usize,
}

#[derive(Debug)]
struct GatedFile {
    inner: Arc<dyn File>,
    gate: Arc<Gate>,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.shut && state.let_through == 0 {
            self.moved.wait(&mut state);
        }
        state.let_through = state.let_through.saturating_sub(1);
        state.waiting -= 1;
    }

    fn set(&self, shut: bool, let_through: usize) {
        let mut state = self.state.lock();
        (state.shut, state.let_through) = (shut, let_through);
        self.moved.notify_all();
    }

    fn is_cold(&self) -> bool {
        self.state.lock().cold
    }

    async fn somebody_waits(&self) {
        while self.state.lock().waiting == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A test that fails must not leave the writer waiting.
struct Opened(Arc<Gate>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.set(false, 0);
    }
}

impl Disk for GatedDisk {
    fn create_dir(&self, dir: &Path) -> std::io::Result<()> {
        RealDisk.create_dir(dir)
    }
    fn list(&self, dir: &Path) -> std::io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn open(&self, path: &Path, mode: Mode) -> std::io::Result<Arc<dyn File>> {
        Ok(Arc::new(GatedFile { inner: RealDisk.open(path, mode)?, gate: self.gate.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> std::io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> std::io::Result<Box<dyn Held>> {
        RealDisk.lock(path)
    }
}

impl File for GatedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        if self.gate.is_cold() {
            self.gate.pass();
        }
        self.inner.read_at(buffer, offset)
    }
    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<Option<usize>> {
        if self.gate.is_cold() { Ok(None) } else { self.inner.read_at_once(buffer, offset) }
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.gate.pass();
        self.inner.sync()
    }
    fn length(&self) -> std::io::Result<u64> {
        self.inner.length()
    }
}

/// L2. Two begins of one key in one batch. The loser must not learn of the winner before the winner is durable: a power
/// cut in between would make what the loser was told a lie. Nor may a reader, the feed or a watcher.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l2_nobody_learns_of_a_winner_before_it_is_durable() {
    let dir = TempDir::new("l2");
    let gate = Arc::new(Gate::default());
    // A clock that stands still: nothing is written for the sake of time.
    let options = Options::new(&dir.0)
        .segment_bytes(1 << 20, 1 << 20)
        .disk(Arc::new(GatedDisk { gate: gate.clone() }))
        .clock(ManualClock::new());
    let ledger = Arc::new(Ledger::open_with(options).unwrap());
    let Ok(Swap::Swapped { .. }) = ledger.swap(&id(0), Version::NEVER, Some(envelope("warm"))).await else { panic!() };
    // The mark behind it is written, and the next segment is ready: nothing else is left to sync.
    while ledger.status().frames < 2 || !dir.0.join("00000002.seg").exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let _opened_in_the_end = Opened(gate.clone());
    gate.set(true, 0);
    // Holds the writer at its sync, so that the others meet in one batch.
    let first = {
        let ledger = ledger.clone();
        tokio::spawn(async move { ledger.swap(&id(2), Version::NEVER, Some(live("first"))).await })
    };
    gate.somebody_waits().await;
    let mut watch = ledger.watch(&id(1)).await.unwrap();
    let contested = id(1);
    let mut contenders =
        ["a", "b", "c", "d"].map(|payload| ledger.swap(&contested, Version::NEVER, Some(live(payload))));
    // Polled once, each is handed in.
    assert!(contenders.iter_mut().all(|contender| poll(contender.as_mut()).is_none()));
    gate.set(true, 1);
    assert!(matches!(first.await.unwrap(), Ok(Swap::Swapped { .. })));
    // The batch of all four is written, and stands before its sync.
    gate.somebody_waits().await;
    let unanswered = contenders.iter_mut().all(|contender| poll(contender.as_mut()).is_none());
    assert!(unanswered, "somebody was answered before the sync");
    assert_eq!(ledger.get(&id(1)).await.unwrap().version, Version::NEVER);
    let Ok(Changes::Page { items, .. }) = ledger.changes(None, 100).await else { panic!() };
    assert!(items.iter().all(|change| change.id != id(1)), "the feed knows too early");
    assert!(poll(pin!(watch.changed())).is_none(), "a watcher was woken too early");
    let frames = ledger.status().frames;
    gate.set(false, 0);
    let mut won = 0;
    for contender in contenders {
        match contender.await.unwrap() {
            Swap::Swapped { .. } => won += 1,
            Swap::Conflict(snapshot) => assert!(snapshot.record.is_some()),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(ledger.status().frames, frames + 1, "they did not meet in one batch");
    watch.changed().await;
}

/// Somebody asks for a record of yesterday, which is no longer in memory, and the disk takes its time. Whoever else is served by the same thread
/// does not wait for that.
#[tokio::test]
async fn who_asks_for_what_is_on_a_slow_disk_keeps_nobody_else_waiting() {
    let dir = TempDir::new("slow-disk");
    let gate = Arc::new(Gate::default());
    let options = Options::new(&dir.0).disk(Arc::new(GatedDisk { gate: gate.clone() }));
    let ledger = Ledger::open_with(options).unwrap();
    let Ok(Swap::Swapped { version, .. }) = ledger.swap(&id(1), Version::NEVER, Some(envelope("old"))).await else {
        panic!()
    };
    assert_eq!(ledger.get(&id(1)).await.unwrap().version, version);
    let _opened_in_the_end = Opened(gate.clone());
    gate.state.lock().cold = true;
    gate.set(true, 0);
    let late = gate.clone();
    // Whoever waits here waits no longer than this test.
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(10));
        late.set(false, 0);
    });
    let (old, lost) = (id(1), id(1));
    let mut read = ledger.get(&old);
    let mut conflict = ledger.swap(&lost, Version::NEVER, Some(envelope("new")));
    assert!(poll(read.as_mut()).is_none() && poll(conflict.as_mut()).is_none(), "it waited for the disk");
    gate.somebody_waits().await;
    assert_eq!(ledger.get(&id(2)).await.unwrap().version, Version::NEVER);
    gate.set(false, 0);
    assert_eq!(read.await.unwrap().record.unwrap().payload, envelope("old").payload);
    let Ok(Swap::Conflict(told)) = conflict.await else { panic!() };
    assert_eq!(told.version, version);
}

/// L3. The wall clock jumps a year ahead while the process runs, and back again. If that were the store's time, nothing
/// would lapse or expire for a year afterwards.
#[test]
fn l3_a_wall_clock_that_jumps_a_year_ahead_and_back_moves_no_window() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    let record = Envelope { gone: Some(Due::After(Millis(60_000))), ..live("x") };
    ledger.put(id(1), Some(record));
    let before = ledger.get(id(1)).unwrap().now;
    clock.set_wall(START_MS + YEAR_MS);
    ledger.settle();
    assert_eq!(ledger.get(id(1)).unwrap().now, before, "a step moved the store's time");
    assert!(ledger.get(id(1)).unwrap().record.is_some());
    ledger.put(id(2), Some(envelope("written in between")));
    clock.set_wall(START_MS);
    ledger.settle();
    assert_eq!(ledger.ledger.status().clock_steps, 2, "both steps are counted");
    clock.advance(59_999);
    assert!(ledger.get(id(1)).unwrap().record.is_some(), "too early");
    clock.advance(1);
    assert!(ledger.get(id(1)).unwrap().record.is_none(), "and on time");
    assert_eq!(
        now(ledger.ledger.scan(Index::LeaseEnd { until: ledger.get(id(1)).unwrap().now }, None, 9))
            .unwrap()
            .items
            .len(),
        1
    );
}

/// L3, over a restart: what the clock says while the ledger is opened counts for at most seven days ahead and for
/// nothing backward.
#[test]
fn l3_a_wall_clock_that_is_wrong_at_a_restart_costs_at_most_seven_days() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    clock.advance(1_000);
    ledger.put(id(1), Some(envelope("x")));
    let stamp = ledger.get(id(1)).unwrap().stamp;
    drop(ledger);
    let behind = ManualClock::at(START_MS - YEAR_MS);
    let ledger = Stepped::open(on(&disk, &behind)).unwrap();
    assert_eq!(ledger.get(id(1)).unwrap().now, stamp, "time ran backward");
    drop(ledger);
    let ahead = ManualClock::at(START_MS + YEAR_MS);
    let ledger = Stepped::open(on(&disk, &ahead)).unwrap();
    assert_eq!(ledger.get(id(1)).unwrap().now, stamp.plus(Millis::from_days(7)));
}

/// A process is killed between write and sync: the page cache still has the frame, the disk does not. The next process
/// reads it and shows it; then the power fails.
#[test]
fn a_frame_that_only_the_page_cache_holds_is_synced_before_it_is_shown() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    ledger.put(id(1), Some(envelope("x")));
    drop(ledger);
    // What if the last sync had never come? Then this is what the disk is sure of.
    let mut trace = disk.trace();
    let last_sync = trace.iter().rposition(|op| matches!(op, hapax_ledger::disk::Op::Sync { .. })).unwrap();
    trace.remove(last_sync);
    let reopened = Stepped::open(on(&disk, &clock)).unwrap();
    assert!(reopened.get(id(1)).unwrap().record.is_some());
    let after = disk.trace();
    let mut survivors = hapax_ledger::disk::Survivors::new(hapax_ledger::disk::Image::default());
    for op in trace.iter().chain(&after[trace.len() + 1..]) {
        survivors.advance(op);
    }
    // Nothing that is pending survives.
    let image = survivors.image(&mut |end| if end == 8 { 1 } else { 0 });
    let ledger = Stepped::open(on(&RecordingDisk::new(image), &clock)).unwrap();
    assert!(ledger.get(id(1)).unwrap().record.is_some(), "it was shown, and then lost");
}

/// The version of what was removed is kept while a write can be late, over restarts and over cleaning, and then forgotten.
#[test]
fn a_late_begin_cannot_land_in_the_place_of_a_removed_record() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let options = || on(&disk, &clock).removal_memory(Millis(60_000));
    let mut ledger = Stepped::open(options()).unwrap();
    ledger.put(id(1), Some(envelope("x")));
    let removed = ledger.put(id(1), None);
    let again = ledger.put(id(1), None);
    assert!(again > removed, "a removal of what is absent is a write as well");
    for number in 0..200 {
        let record = Envelope { gone: Some(Due::After(Millis(1))), ..envelope(vec![0; 500]) };
        ledger.put(id(100 + number), Some(record));
        clock.advance(10);
        ledger.settle();
    }
    assert!(ledger.ledger.status().retired > 3, "{:?}", ledger.ledger.status());
    let mut ledger = {
        drop(ledger);
        Stepped::open(options()).unwrap()
    };
    let Ok(Swap::Conflict(snapshot)) = ledger.swap(id(1), Version::NEVER, Some(envelope("late"))) else { panic!() };
    assert_eq!((snapshot.record, snapshot.version), (None, again));
    clock.advance(60_000);
    ledger.settle();
    assert_eq!(ledger.get(id(1)).unwrap().version, Version::NEVER);
    assert!(ledger.put(id(1), Some(envelope("anew"))) > again);
}

/// An old version with a long life, a newer one with a short one. When the newer one has been forgotten and its segment
/// is gone, the old one must not come back.
#[test]
fn an_expired_record_never_comes_back_through_an_older_version() {
    let mut random = Random::from_env("comes back");
    for _ in 0..20 {
        let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
        let options = || on(&disk, &clock).removal_memory(Millis(20));
        let mut ledger = Stepped::open(options()).unwrap();
        ledger.put(id(1), Some(envelope("for ever")));
        for number in 0..random.below(60) {
            ledger.put(id(10 + number), Some(envelope(vec![1; 400])));
        }
        let short = Envelope { gone: Some(Due::After(Millis(5))), ..envelope("short") };
        ledger.put(id(1), Some(short));
        for number in 0..150 {
            let record = Envelope { gone: Some(Due::After(Millis(5))), ..envelope(vec![1; 400]) };
            ledger.put(id(1_000 + number), Some(record));
            clock.advance(random.below(4));
            if random.below(3) == 0 {
                ledger.settle();
            }
            if random.below(20) == 0 {
                drop(ledger);
                ledger = Stepped::open(options()).unwrap();
            }
        }
        clock.advance(1_000);
        ledger.settle();
        assert!(ledger.get(id(1)).unwrap().record.is_none());
        drop(ledger);
        let ledger = Stepped::open(options()).unwrap();
        assert!(ledger.get(id(1)).unwrap().record.is_none(), "it came back");
    }
}

#[test]
fn a_second_process_waits_a_moment_and_then_says_who_is_in_the_way() {
    let dir = TempDir::new("second");
    let first = Ledger::open(&dir.0).unwrap();
    let since = std::time::Instant::now();
    let second = Ledger::open_with(Options::new(&dir.0).lock_wait(Duration::from_millis(200)));
    let Err(error @ OpenError::InUse { .. }) = second else { panic!("{second:?}") };
    assert!(since.elapsed() >= Duration::from_millis(200));
    assert!(error.to_string().contains("in use by another process"), "{error}");
    // A rolling restart: the first one ends while the second waits.
    let path = dir.0.clone();
    let waiting = std::thread::spawn(move || Ledger::open(path));
    std::thread::sleep(Duration::from_millis(100));
    drop(first);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_directory_of_a_newer_version_is_named_as_such() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    drop(Stepped::open(on(&disk, &clock)).unwrap());
    let mut image = disk.image();
    image.edit(Path::new("/l/ledger"), |bytes| bytes[8] = 9);
    let error = Stepped::open(on(&RecordingDisk::new(image), &clock)).err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 9, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("newer version"), "{error}");
}

#[test]
fn a_directory_that_is_no_ledger_is_left_alone() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let file = disk.open(Path::new("/l/00000001.seg"), Mode::Create).unwrap();
    file.write_at(b"somebody's film", 0).unwrap();
    let error = Stepped::open(on(&disk, &clock)).err().unwrap();
    assert!(matches!(error, OpenError::NotALedger { .. }), "{error}");
    assert_eq!(disk.image().bytes(Path::new("/l/00000001.seg")).unwrap(), b"somebody's film");
}

/// Two ids that look alike in sixteen bytes out of thirty-two are still two ids.
#[test]
fn ids_that_share_half_of_their_bytes_do_not_meet() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    for at in 0..32 {
        let mut bytes = [0; 32];
        bytes[at] = 1;
        ledger.put(hapax_core::Id(bytes), Some(envelope(vec![at as u8; 3])));
    }
    for at in 0..32 {
        let mut bytes = [0; 32];
        bytes[at] = 1;
        assert_eq!(ledger.get(hapax_core::Id(bytes)).unwrap().record.unwrap().payload, vec![at as u8; 3]);
    }
}

#[test]
fn a_record_that_is_too_large_is_refused_before_it_is_queued() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    let error = ledger.swap(id(1), Version::NEVER, Some(envelope(vec![0; 4_000]))).unwrap_err();
    assert!(matches!(error, StoreError::Unsupported { .. }), "{error}");
    ledger.put(id(1), Some(envelope(vec![0; 3_900])));
}

/// The feed goes on where it was after a restart; a reader that slept through the cleaning is told so.
#[test]
fn a_feed_resumes_over_a_restart_and_admits_a_gap() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let options = || on(&disk, &clock).removal_memory(Millis(1));
    let mut ledger = Stepped::open(options()).unwrap();
    for number in 0..10 {
        ledger.put(id(number), Some(envelope(vec![number as u8; 100])));
    }
    let Ok(Changes::Page { items, next }) = now(ledger.ledger.changes(None, 4)) else { panic!() };
    assert_eq!(items.iter().map(|change| change.id).collect::<Vec<_>>(), (0..4).map(id).collect::<Vec<_>>());
    let long_ago = next.clone();
    ledger.put(id(2), None);
    ledger.put(id(7), Some(envelope("later")));
    drop(ledger);
    let mut ledger = Stepped::open(options()).unwrap();
    let Ok(Changes::Page { items, next }) = now(ledger.ledger.changes(Some(&next), 100)) else { panic!() };
    let seen: Vec<_> = items.iter().map(|change| (change.id, change.snapshot.record.is_some())).collect();
    let mut expected: Vec<_> = [4, 5, 6, 8, 9].map(|number| (id(number), true)).to_vec();
    expected.extend([(id(2), false), (id(7), true)]);
    assert_eq!(seen, expected);
    let Ok(Changes::Page { items, next }) = now(ledger.ledger.changes(Some(&next), 100)) else { panic!() };
    assert!(items.is_empty());
    for number in 0..200 {
        let record = Envelope { gone: Some(Due::After(Millis(1))), ..envelope(vec![0; 500]) };
        ledger.put(id(100 + number), Some(record));
        clock.advance(10);
        ledger.settle();
    }
    assert!(ledger.ledger.status().carried > 0);
    let Ok(Changes::Gap { oldest }) = now(ledger.ledger.changes(Some(&long_ago), 100)) else { panic!() };
    let Ok(Changes::Gap { .. }) = now(ledger.ledger.changes(Some(&next), 100)) else { panic!() };
    let Ok(Changes::Page { items, .. }) = now(ledger.ledger.changes(Some(&oldest), 1_000)) else { panic!() };
    assert!(!items.is_empty());
    assert!(items.iter().all(|change| change.id != id(4)), "what was carried over is no change");
    assert!(ledger.get(id(4)).unwrap().record.is_some());
}

#[tokio::test]
async fn more_requests_than_the_queue_holds_wait_and_are_all_answered() {
    let dir = TempDir::new("backpressure");
    let ledger = Arc::new(Ledger::open_with(Options::new(&dir.0).most_queued(2)).unwrap());
    let all: Vec<_> = (0..200)
        .map(|number| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.swap(&id(number), Version::NEVER, Some(live("x"))).await })
        })
        .collect();
    for one in all {
        assert!(matches!(one.await.unwrap(), Ok(Swap::Swapped { .. })));
    }
    assert_eq!(ledger.status().writes, 200);
}

#[tokio::test]
async fn a_closed_ledger_finishes_what_it_was_given_and_refuses_the_rest() {
    let dir = TempDir::new("closed");
    let ledger = Arc::new(Ledger::open(&dir.0).unwrap());
    let begun: Vec<_> = (0..50)
        .map(|number| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.swap(&id(number), Version::NEVER, Some(live("x"))).await })
        })
        .collect();
    tokio::task::yield_now().await;
    ledger.close();
    for one in begun {
        let answer = one.await.unwrap();
        assert!(matches!(answer, Ok(Swap::Swapped { .. }) | Err(StoreError::Unavailable { .. })), "{answer:?}");
    }
    let late = ledger.swap(&id(99), Version::NEVER, Some(live("x"))).await;
    assert!(matches!(late, Err(StoreError::Unavailable { .. })), "{late:?}");
}
