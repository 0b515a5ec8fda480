//! The store's time over restarts, also for those who only read: what was told as over stays over, even if the wall clock
//! is set back while nobody looks.

use std::{path::Path, sync::Arc};

use crate::common::*;
use hapax_core::{Millis, Stamp};
use hapax_ledger::{
    Clock as _, Ledger, Options, SystemClock,
    disk::{Disk as _, Mode, RecordingDisk},
    repair_on,
};
use hapax_store::{Due, Envelope, Store, Swap};

const DIR: &str = "/l";
const HOUR_MS: u64 = 3_600_000;
/// How much of what was only read may be told again after a kill: ten seconds, and the time to the next look.
const AT_MOST_MS: u64 = 11_000;

fn on(disk: &RecordingDisk, clock: &Arc<ManualClock>) -> Options {
    small(DIR).disk(Arc::new(disk.clone())).clock(clock.clone())
}

fn expiring(ms: u64) -> Envelope {
    Envelope { gone: Some(Due::After(Millis(ms))), ..live("x") }
}

fn opened_a_year_earlier(disk: &RecordingDisk) -> Stepped {
    Stepped::open(on(disk, &ManualClock::at(START_MS - YEAR_MS))).unwrap()
}

/// Hours of nothing but reads. Then a restart, with the wall clock set back.
#[tokio::test]
async fn what_was_read_as_expired_does_not_come_back_after_a_restart() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let ledger = Ledger::open_with(on(&disk, &clock)).unwrap();
    let begun = ledger.swap(&id(1), hapax_core::Version::NEVER, Some(expiring(HOUR_MS))).await.unwrap();
    assert!(matches!(begun, Swap::Swapped { .. }));
    // The mark behind it, which is the last thing that an idle ledger has to say of its own.
    while ledger.status().frames < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    clock.advance(2 * HOUR_MS);
    let read = ledger.get(&id(1)).await.unwrap();
    assert!(read.record.is_none(), "not expired");
    let told = ledger.now().unwrap();
    drop(ledger);
    let again = opened_a_year_earlier(&disk);
    let snapshot = again.get(id(1)).unwrap();
    assert!(snapshot.now >= told, "{told:?} was told, and now it is {:?}", snapshot.now);
    assert_eq!(snapshot.record, None, "it came back");
}

/// The same for a ledger to which nothing was ever written.
#[tokio::test]
async fn time_that_an_empty_ledger_told_is_kept_by_its_end() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let ledger = Ledger::open_with(on(&disk, &clock)).unwrap();
    clock.advance(HOUR_MS);
    let told = ledger.now().unwrap();
    ledger.close();
    drop(ledger);
    assert!(opened_a_year_earlier(&disk).ledger.now().unwrap() >= told);
}

/// A kill leaves no time for a last word: what was told is kept by a mark every ten seconds, and by no more than that.
#[test]
fn a_kill_takes_back_at_most_ten_seconds_of_what_was_only_read() {
    let mut random = Random::from_env("killed while only read");
    for _ in 0..50 {
        let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
        let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
        ledger.put(id(1), Some(envelope("x")));
        ledger.stepper.mark();
        let frames = ledger.ledger.status().frames;
        let mut told = Stamp::default();
        let seconds = 1 + random.below(100);
        for _ in 0..seconds {
            clock.advance(1_000);
            told = ledger.get(id(1)).unwrap().now;
            // The writer looks once a second.
            ledger.stepper.mark();
        }
        let marks = ledger.ledger.status().frames - frames;
        assert!(marks <= seconds / 10, "{marks} marks in {seconds} seconds");
        disk.forget_lock();
        let again = opened_a_year_earlier(&disk).ledger.now().unwrap();
        assert!(again.0 + AT_MOST_MS >= told.0, "after {seconds} s: {told:?} was told, and now it is {again:?}");
        drop(ledger);
    }
}

/// Where the machine counts since its start, a kill takes nothing back: not in the same boot, however the wall clock is set and however
/// often it happens; nor after another one, which takes longer than what could be forgotten.
#[test]
fn a_kill_takes_nothing_back_where_the_machine_counts_since_its_boot() {
    let mut random = Random::from_env("killed, and the machine counts");
    for _ in 0..50 {
        let disk = RecordingDisk::default();
        let (mut boot, mut up) = (1, 100_000);
        let mut told = Stamp::default();
        for round in 0..6 {
            let wall = START_MS - YEAR_MS + random.below(2 * YEAR_MS);
            let clock = ManualClock::booted(wall, boot, up);
            let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
            let now = ledger.ledger.now().unwrap();
            assert!(now >= told, "round {round}: {told:?} was told, and now it is {now:?}");
            if round == 0 || random.below(2) == 0 {
                ledger.put(id(1), Some(envelope("x")));
            }
            for _ in 0..random.below(15) {
                clock.advance(random.below(1_000));
                told = ledger.get(id(1)).unwrap().now;
                ledger.stepper.mark();
            }
            told = told.max(ledger.ledger.now().unwrap());
            disk.forget_lock();
            drop(ledger);
            up = clock.since_boot().unwrap().ms + random.below(20_000);
            if random.below(3) == 0 {
                (boot, up) = (boot + 1, random.below(1_000));
            }
        }
    }
}

/// The file is lost, damaged, or of a machine that has been up for longer than this one: then the last stamp counts, and what could be
/// told after it.
#[test]
fn a_count_that_cannot_be_believed_is_not() {
    for damage in [Damage::Lost, Damage::Flipped, Damage::Ahead] {
        let disk = RecordingDisk::default();
        let clock = ManualClock::booted(START_MS, 1, 100_000);
        let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
        ledger.put(id(1), Some(envelope("x")));
        clock.advance(5_000);
        let told = ledger.get(id(1)).unwrap().now;
        disk.forget_lock();
        drop(ledger);
        let path = Path::new(DIR).join("clock");
        let up = match damage {
            Damage::Lost => {
                disk.remove(&path).unwrap();
                105_000
            }
            Damage::Flipped => {
                let file = disk.open(&path, Mode::Write).unwrap();
                file.write_at(&[0xff; 8], 32).unwrap();
                105_000
            }
            Damage::Ahead => 50_000,
        };
        let again = ManualClock::booted(START_MS - YEAR_MS, 1, up);
        let now = Stepped::open(on(&disk, &again)).unwrap().ledger.now().unwrap();
        assert!(now >= told && now.0 < told.0 + 60_000, "{told:?} was told, and now it is {now:?}");
    }
}

/// The first open came before the wall clock was set, and nothing was written: the next one follows the wall clock ahead, and
/// still goes back behind nothing that was told.
#[test]
fn an_empty_ledger_follows_the_wall_clock_ahead() {
    let disk = RecordingDisk::default();
    drop(Stepped::open(on(&disk, &ManualClock::booted(1_000, 1, 500))).unwrap());
    disk.forget_lock();
    let set = Stepped::open(on(&disk, &ManualClock::booted(START_MS, 1, 900))).unwrap().ledger.now().unwrap();
    assert!(set.0 >= START_MS, "{set:?}");
    disk.forget_lock();
    // Another machine's count, or one with an offset of its own, does not carry the time years ahead.
    let years = 3 * YEAR_MS;
    let later =
        Stepped::open(on(&disk, &ManualClock::booted(START_MS + 1_000, 1, years))).unwrap().ledger.now().unwrap();
    assert!(later >= set && later.0 < START_MS + 60_000, "{later:?}");
}

enum Damage {
    Lost,
    Flipped,
    Ahead,
}

/// The real clocks: a boot has a name here, and what it counts goes on.
#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::disallowed_methods, reason = "real time")]
fn this_machine_counts_since_its_boot() {
    let before = SystemClock::new().since_boot().expect("Linux says so");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let after = SystemClock::new().since_boot().unwrap();
    assert!(after.boot == before.boot && after.ms >= before.ms + 20, "{before:?} {after:?}");
}

#[test]
fn a_ledger_that_nobody_reads_writes_nothing() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    ledger.put(id(1), Some(envelope("x")));
    ledger.stepper.mark();
    let frames = ledger.ledger.status().frames;
    for _ in 0..1_000 {
        clock.advance(60_000);
        ledger.settle();
        ledger.stepper.mark();
    }
    let marks = ledger.ledger.status().frames - frames;
    assert!(marks <= 1, "{marks} marks for nobody");
}

/// The wall clock is days ahead when the ledger is opened, somebody reads, the process is killed at once, and the wall
/// clock is put right.
#[test]
fn a_time_that_the_wall_clock_set_is_durable_before_anybody_hears_of_it() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    ledger.put(id(1), Some(expiring(HOUR_MS)));
    drop(ledger);
    let ahead = Stepped::open(on(&disk, &ManualClock::at(START_MS + 50 * HOUR_MS))).unwrap();
    let read = ahead.get(id(1)).unwrap();
    assert!(read.record.is_none(), "not expired");
    drop(ahead);
    let again = Stepped::open(on(&disk, &clock)).unwrap().get(id(1)).unwrap();
    assert!(again.now >= read.now && again.record.is_none(), "{again:?}");
}

/// A repair keeps the time as well: marks count.
#[test]
fn a_repaired_copy_goes_on_from_the_time_that_was_told() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut ledger = Stepped::open(on(&disk, &clock)).unwrap();
    ledger.put(id(1), Some(envelope("x")));
    clock.advance(HOUR_MS);
    let told = ledger.get(id(1)).unwrap().now;
    ledger.stepper.end();
    drop(ledger);
    let copy = RecordingDisk::default();
    let target = small("/copy").disk(Arc::new(copy)).clock(ManualClock::at(START_MS - YEAR_MS));
    repair_on(Arc::new(disk), Path::new(DIR), &target).unwrap();
    assert!(Stepped::open(target).unwrap().ledger.now().unwrap() >= told);
}
