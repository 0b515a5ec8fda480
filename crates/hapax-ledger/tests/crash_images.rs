//! What a power cut could have left of a recorded history, at any moment of it: 50,000 images, each of which must open
//! with everything that was acknowledged, and with nothing that was never written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::common::*;
use hapax_core::{Id, Millis, Stamp, Version};
use hapax_ledger::disk::{Image, Op, RecordingDisk, Survivors};
use hapax_store::{Changes, Due, Envelope, Store, Swap};

const DIR: &str = "/l";
const IDS: u64 = 14;
/// Counted over all threads; more with `HAPAX_CRASH_IMAGES`.
const IMAGES: u64 = 50_000;

/// Everything that was ever written, by version. A record of nothing is a removal.
#[derive(Clone, Default)]
struct History {
    writes: BTreeMap<u64, (Id, Option<Envelope>, Stamp)>,
    /// The last version of each frame: a power cut takes a frame or leaves it, whole.
    frames: BTreeSet<u64>,
}

impl History {
    fn at(&self, id: Id, through: u64) -> (Version, Option<&Envelope>, Stamp) {
        let newest = self.writes.range(..=through).rev().find(|(_, write)| write.0 == id);
        newest.map_or((Version::NEVER, None, Stamp::default()), |(version, write)| {
            (Version(*version), write.1.as_ref(), write.2)
        })
    }
}

fn options(disk: &RecordingDisk, clock: &Arc<ManualClock>) -> hapax_ledger::Options {
    small(DIR).disk(Arc::new(disk.clone())).clock(clock.clone())
}

fn random_record(random: &mut Random) -> Option<Envelope> {
    let payload = vec![random.next() as u8; random.below(700) as usize];
    match random.below(8) {
        0 | 1 => None,
        2 | 3 => Some(live(payload)),
        4 | 5 => Some(Envelope { gone: Some(Due::After(Millis(random.below(400)))), ..envelope(payload) }),
        _ => Some(envelope(payload)),
    }
}

/// Goes on from `history`; each acknowledged write leaves a note with its version in the trace.
fn work(
    ledger: &mut Stepped,
    disk: &RecordingDisk,
    clock: &ManualClock,
    history: &mut History,
    random: &mut Random,
    turns: u64,
) {
    for _ in 0..turns {
        clock.advance(random.below(40));
        let mut batch = Vec::new();
        for _ in 0..=random.below(4) {
            let id = id(random.below(IDS));
            let expected =
                if random.below(10) == 0 { Version(random.below(50)) } else { ledger.get(id).unwrap().version };
            // A body is durable before the record that names it is handed in.
            let next = if random.below(8) == 0 {
                let body = random_body(random);
                now(ledger.ledger.put_body(&id, body, body_bytes(body))).unwrap();
                Some(envelope(naming(body)))
            } else {
                random_record(random)
            };
            batch.push((id, expected, next));
        }
        let answers = ledger.swap_all(batch.clone());
        let mut last = 0;
        for ((id, _, next), answer) in batch.into_iter().zip(answers) {
            if let Swap::Swapped { version, stamp } = answer.unwrap() {
                // Nobody needs the body any more that the record before has named.
                let unneeded = history.at(id, u64::MAX).1.and_then(named);
                if let Some(body) = unneeded.filter(|_| random.below(2) == 0) {
                    now(ledger.ledger.drop_body(body)).unwrap();
                }
                let twice = history.writes.insert(version.0, (id, next, stamp));
                assert!(twice.is_none(), "version {version} was given twice");
                last = last.max(version.0);
            }
        }
        if last > 0 {
            history.frames.extend(ledger.frames.drain(..));
            disk.note(last);
        }
        match random.below(6) {
            0 => ledger.settle(),
            1 => ledger.stepper.mark(),
            2 | 3 => {
                ledger.stepper.keep();
            }
            _ => {}
        }
    }
}

/// Opens an image and compares it with what was promised. Returns the ledger if it is to be worked on.
fn verify(image: Image, history: &History, promised: u64, clock: &Arc<ManualClock>) -> (Stepped, RecordingDisk, u64) {
    let disk = RecordingDisk::new(image);
    let mut ledger = Stepped::open(options(&disk, clock)).unwrap_or_else(|error| panic!("does not open: {error}"));
    let last_stamp = history.writes.range(..=promised).map(|(_, write)| write.2).max().unwrap_or_default();
    let probe = ledger.swap(id(9_999), ledger.get(id(9_999)).unwrap().version, None).unwrap();
    let Swap::Swapped { version, stamp } = probe else { panic!("{probe:?}") };
    let through = version.0 - 1;
    assert!(through >= promised, "version {version} was promised before, up to {promised}");
    assert!(stamp >= last_stamp, "time ran backward");
    assert!(
        through == 0 || through == promised || history.frames.contains(&through),
        "half a frame: {through} of {:?}",
        history.frames
    );
    for number in 0..IDS {
        let snapshot = ledger.get(id(number)).unwrap();
        let (version, record, stamp) = history.at(id(number), through);
        let gone = record.and_then(|record| record.gone).is_some_and(|gone| gone.resolve(stamp) <= snapshot.now);
        assert_eq!(snapshot.version, version, "id {number} through {through}, promised {promised}");
        assert_eq!(snapshot.record.as_ref(), record.filter(|_| !gone), "id {number} at version {version}");
        assert!(snapshot.stamp == stamp && snapshot.now >= stamp);
        has_its_body(&ledger.ledger, snapshot.record.as_ref(), &format!("id {number} at version {version}"));
    }
    (ledger, disk, through)
}

fn reopening_clock(random: &mut Random, was: u64) -> Arc<ManualClock> {
    ManualClock::at(match random.below(4) {
        0 => was - YEAR_MS,
        1 => was + random.below(2 * YEAR_MS),
        _ => was,
    })
}

fn one_history(seed: u64, images: u64, seen: &AtomicU64) {
    let mut random = Random::new(seed);
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let mut history = History::default();
    let mut ledger = Stepped::open(options(&disk, &clock)).unwrap();
    work(&mut ledger, &disk, &clock, &mut history, &mut random, 120);
    let status = ledger.ledger.status();
    let cleaned = status.retired > 0 && status.carried > 0;
    assert!(cleaned || !Random::is_fixed(), "a history without cleaning: {status:?}");
    drop(ledger);
    crash_everywhere(&disk.trace(), Image::default(), &history, 0, &clock, images, &mut random, seen, true);
}

#[allow(clippy::too_many_arguments, reason = "it calls itself once")]
fn crash_everywhere(
    trace: &[Op],
    base: Image,
    history: &History,
    promised: u64,
    clock: &Arc<ManualClock>,
    images: u64,
    random: &mut Random,
    seen: &AtomicU64,
    again: bool,
) {
    let mut survivors = Survivors::new(base);
    let mut done = 0;
    for (at, op) in trace.iter().enumerate() {
        survivors.advance(op);
        // So many images up to here, spread evenly over the history.
        let due = images * (at as u64 + 1) / trace.len() as u64;
        while done < due {
            done += 1;
            seen.fetch_add(1, Ordering::Relaxed);
            let image = survivors.image(&mut |end| random.below(end));
            let promised = survivors.notes().last().copied().unwrap_or(promised);
            let was = clock.wall.load(Ordering::SeqCst);
            let reopened = reopening_clock(random, was);
            let (mut ledger, disk, through) = verify(image.clone(), history, promised, &reopened);
            // Now and then life goes on, and the power fails again.
            if again && done.is_multiple_of(100) {
                let mut later = History {
                    writes: history.writes.range(..=through).map(|(k, v)| (*k, v.clone())).collect(),
                    frames: history.frames.range(..=through).copied().collect(),
                };
                later.writes.insert(through + 1, (id(9_999), None, Stamp::default()));
                later.frames.insert(through + 1);
                disk.note(through + 1);
                work(&mut ledger, &disk, &reopened, &mut later, random, 12);
                drop(ledger);
                crash_everywhere(
                    &disk.trace(),
                    image,
                    &later,
                    promised.max(through),
                    &reopened,
                    25,
                    random,
                    seen,
                    false,
                );
            }
        }
    }
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_acknowledged_and_shows_nothing_else() {
    let mut random = Random::from_env("crash images");
    let images = std::env::var("HAPAX_CRASH_IMAGES").ok().and_then(|images| images.parse().ok()).unwrap_or(IMAGES);
    let histories = (images / 2_500).max(2);
    let seeds: Vec<u64> = (0..histories).map(|_| random.next()).collect();
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for half in seeds.chunks(seeds.len().div_ceil(2)) {
            let seen = &seen;
            scope.spawn(move || {
                for seed in half {
                    one_history(*seed, images / histories, seen);
                }
            });
        }
    });
    println!("{} images", seen.load(Ordering::Relaxed));
    assert!(seen.load(Ordering::Relaxed) >= images);
}

/// The feed over a crash: whoever resumes sees every change that was acknowledged after its place.
#[test]
fn a_feed_that_resumes_after_a_power_cut_misses_nothing() {
    let mut random = Random::from_env("feed over crashes");
    for _ in 0..40 {
        let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
        let mut history = History::default();
        let mut ledger = Stepped::open(options(&disk, &clock)).unwrap();
        work(&mut ledger, &disk, &clock, &mut history, &mut random, 10);
        let Ok(Changes::Page { next, .. }) = now(ledger.ledger.changes(None, 1_000)) else { panic!() };
        let seen = *history.writes.keys().last().unwrap();
        work(&mut ledger, &disk, &clock, &mut history, &mut random, 8);
        drop(ledger);
        let mut survivors = Survivors::new(Image::default());
        disk.trace().iter().for_each(|op| survivors.advance(op));
        let image = survivors.image(&mut |end| random.below(end));
        let ledger = Stepped::open(options(&RecordingDisk::new(image), &clock)).unwrap();
        let items = match now(ledger.ledger.changes(Some(&next), 1_000)).unwrap() {
            Changes::Page { items, .. } => items,
            // Cleaned away meanwhile: it is told so.
            Changes::Gap { .. } => continue,
        };
        for number in 0..IDS {
            let (version, ..) = history.at(id(number), u64::MAX);
            let changed = version.0 > seen;
            assert_eq!(items.iter().any(|change| change.id == id(number)), changed, "id {number} at {version}");
        }
    }
}
