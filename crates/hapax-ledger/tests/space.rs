//! Space: at most twice the unexpired data and three segments; and cleaning that nobody has to wait for.

#![allow(clippy::disallowed_methods, reason = "real processes and threads take real time")]

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::common::*;
use hapax_core::{Millis, Stamp, Version};
use hapax_ledger::{
    Ledger, Options,
    disk::{DirectWrites, Op, RecordingDisk},
};
use hapax_store::{Due, Envelope, Index, Store, Swap};

const SEGMENT: u64 = 32 * 1024;
/// How long the version of what is gone is remembered, and what that takes.
const REMEMBERED: Millis = Millis(20);
const REMOVAL: u64 = 72;

fn log_bytes(disk: &RecordingDisk) -> u64 {
    let image = disk.image();
    let of_log = |name: &&std::path::PathBuf| {
        let name = name.file_name().unwrap().to_str().unwrap();
        name.ends_with(".seg") || name.ends_with(".hint") || name.starts_with("spare")
    };
    image.names().iter().filter(of_log).map(|name| image.bytes(name).unwrap().len() as u64).sum()
}

#[test]
fn after_any_mix_the_log_takes_at_most_twice_the_unexpired_data_and_three_segments() {
    let mut random = Random::from_env("space");
    for mix in 0..24 {
        let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
        let options = small("/l")
            .segment_bytes(4096, SEGMENT)
            .removal_memory(REMEMBERED)
            .disk(Arc::new(disk.clone()))
            .clock(clock.clone());
        let mut ledger = Stepped::open(options.clone()).unwrap();
        // How many in a hundred live long, and how long the others live.
        let (long_lived, short) = (random.below(60), 1 + random.below(2_000));
        let mut unexpired: BTreeMap<u64, (Stamp, u64)> = BTreeMap::new();
        let mut gone_since: BTreeMap<u64, Stamp> = BTreeMap::new();
        let mut worst = 0.0_f64;
        for turn in 0..1_500 {
            let number = if random.below(3) == 0 { random.below(400) } else { 1_000 + turn };
            clock.advance(random.below(8));
            let life = if random.below(100) < long_lived { 1_000_000 } else { short };
            let payload = vec![0; random.below(1_500) as usize];
            let record = Envelope { gone: Some(Due::After(Millis(life))), ..envelope(payload) };
            let removed = random.below(20) == 0;
            let bytes = (record.payload.len() as u64 + 64 + 32 + 8).next_multiple_of(8);
            let expected = ledger.get(id(number)).unwrap().version;
            let next = (!removed).then_some(record);
            let Ok(Swap::Swapped { stamp, .. }) = ledger.swap(id(number), expected, next) else { panic!() };
            if removed {
                unexpired.remove(&number);
                gone_since.insert(number, stamp);
            } else {
                unexpired.insert(number, (stamp.plus(Millis(life)), bytes));
                gone_since.remove(&number);
            }
            if random.below(4) == 0 {
                ledger.settle();
                let now = ledger.get(id(1)).unwrap().now;
                for (number, (gone, _)) in unexpired.extract_if(.., |_, (gone, _)| *gone <= now) {
                    gone_since.insert(number, gone);
                }
                gone_since.retain(|_, since| now.since(*since) <= REMEMBERED);
                let data: u64 = unexpired.values().map(|(_, bytes)| bytes).sum();
                // Versions that must be remembered are data too; they are few. The ledger's own figure is not asked.
                let data = data + REMOVAL * gone_since.len() as u64;
                let status = ledger.ledger.status();
                let taken = log_bytes(&disk);
                assert!(taken <= 2 * data + 3 * SEGMENT, "mix {mix}: {taken} bytes for {data}: {status:?}");
                worst = worst.max(taken as f64 / (2 * data + 3 * SEGMENT) as f64);
            }
            if random.below(300) == 0 {
                drop(ledger);
                ledger = Stepped::open(options.clone()).unwrap();
            }
        }
        let status = ledger.ledger.status();
        println!("mix {mix}: {long_lived} % long-lived, others {short} ms: at worst {worst:.2}, {status:?}");
        assert!(status.poisoned.is_none());
    }
}

/// Whoever asks for what has expired while another does and writes go on: each pass over the index keeps what came in meanwhile.
#[test]
fn two_who_look_for_what_expires_lose_nothing_of_what_is_written_meanwhile() {
    let disk = Arc::new(RecordingDisk::untraced());
    let ledger = Arc::new(Ledger::open_with(Options::new("/l").segment_bytes(1 << 20, 8 << 20).disk(disk)).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let base = ledger.now().unwrap().0 + 1_000_000;
    let put = |number: u64, at: u64| {
        let ledger = ledger.clone();
        async move {
            let record = Envelope { expiry: Some(Due::At(Stamp(at))), ..envelope("x") };
            let answer = ledger.swap(&id(number), Version::NEVER, Some(record)).await;
            assert!(matches!(answer, Ok(Swap::Swapped { .. })), "{answer:?}");
        }
    };
    // More than a front holds, so that each question far ahead costs a pass.
    runtime.block_on(async {
        let tasks: Vec<_> = (0..40_000).map(|number| tokio::spawn(put(number, base + 1_000_000 + number))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let far = Index::Expiry { until: Stamp(base + 5_000_000) };
                    let _page = waited(ledger.scan(far, None, 50_000)).unwrap();
                }
            });
        }
        runtime.block_on(async {
            for number in 0..2_000 {
                put(100_000 + number, base + number).await;
            }
        });
        over.store(true, Ordering::SeqCst);
    });
    let early = Index::Expiry { until: Stamp(base + 500_000) };
    let found = waited(ledger.scan(early, None, 10_000)).unwrap().items.len();
    assert_eq!(found, 2_000);
}

/// Everything expires at once: the whole log goes, without a byte being rewritten.
#[test]
fn what_expires_together_goes_by_whole_segments() {
    let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
    let options = small("/l").segment_bytes(4096, SEGMENT).removal_memory(Millis(20));
    let mut ledger = Stepped::open(options.disk(Arc::new(disk.clone())).clock(clock.clone())).unwrap();
    for number in 0..1_000 {
        let record = Envelope { gone: Some(Due::After(Millis(60_000))), ..envelope(vec![0; 400]) };
        ledger.put(id(number), Some(record));
        ledger.settle();
    }
    assert!(log_bytes(&disk) > 12 * SEGMENT);
    clock.advance(61_000);
    for _ in 0..10 {
        ledger.settle();
    }
    let status = ledger.ledger.status();
    assert_eq!((status.carried, status.slots), (0, 0), "{status:?}");
    assert!(log_bytes(&disk) <= 3 * SEGMENT, "{}", log_bytes(&disk));
}

/// What a request shares its frame with is bounded: an eighth of a segment, and the one entry that goes beyond it.
#[test]
fn what_is_cleaned_in_one_frame_is_bounded() {
    const ENTRY: usize = 1_024;
    let mut random = Random::from_env("slices");
    // Where blocks are written whole, a write does not show how long its frame is.
    let (disk, clock) = (RecordingDisk::default().direct_writes(DirectWrites::CannotOpen), ManualClock::new());
    let options = small("/l").segment_bytes(SEGMENT, SEGMENT).removal_memory(Millis(20));
    let mut ledger = Stepped::open(options.disk(Arc::new(disk.clone())).clock(clock.clone())).unwrap();
    for _ in 0..1_500 {
        clock.advance(2);
        ledger.stepper.keep();
        let id = id(random.below(60));
        let expected = ledger.get(id).unwrap().version;
        let life = if id.0[12].is_multiple_of(2) { 1_000_000 } else { 50 };
        let record = Envelope { gone: Some(Due::After(Millis(life))), ..envelope(vec![7; random.below(800) as usize]) };
        let mut swap = pin!(ledger.ledger.swap(&id, expected, Some(record)));
        assert!(poll(swap.as_mut()).is_none());
        ledger.stepper.write();
        assert!(matches!(poll(swap.as_mut()), Some(Ok(Swap::Swapped { .. }))));
    }
    let length = |op: &Op| if let Op::Write { bytes, .. } = op { Some(bytes.clone()) } else { None };
    let frames = disk.trace().iter().filter_map(length).filter(|bytes| bytes.starts_with(b"HXF1")).collect::<Vec<_>>();
    let longest = frames.iter().map(|bytes| bytes.len()).max().unwrap();
    assert!(ledger.ledger.status().carried > 100, "hardly any cleaning: {:?}", ledger.ledger.status());
    assert!(longest <= SEGMENT as usize / 8 + 2 * ENTRY, "a frame of {longest} bytes");
    assert!(longest > 2 * ENTRY, "no frame took any cleaning along");
}

/// Cleaning rides in the frames of requests, behind them: a request that is queued when a batch begins is answered by that
/// batch, whether or not there is something to clean.
#[test]
fn no_request_waits_more_than_a_batch_for_the_cleaning() {
    let mut random = Random::from_env("stalls");
    let (disk, clock) = (RecordingDisk::untraced(), ManualClock::new());
    let options = small("/l").segment_bytes(SEGMENT, SEGMENT).removal_memory(Millis(20));
    let mut ledger = Stepped::open(options.disk(Arc::new(disk)).clock(clock.clone())).unwrap();
    for turn in 0..6_000 {
        clock.advance(2);
        let number = random.below(60);
        let id = id(number);
        ledger.stepper.keep();
        let expected = ledger.get(id).unwrap().version;
        let life = if number.is_multiple_of(2) { 1_000_000 } else { 50 };
        let record = Envelope { gone: Some(Due::After(Millis(life))), ..envelope(vec![0; random.below(800) as usize]) };
        let frames = ledger.ledger.status().frames;
        let answer = {
            let mut swap = pin!(ledger.ledger.swap(&id, expected, Some(record)));
            assert!(poll(swap.as_mut()).is_none());
            ledger.stepper.write();
            poll(swap.as_mut())
        };
        assert!(matches!(answer, Some(Ok(Swap::Swapped { .. }))), "turn {turn}: {answer:?}");
        assert_eq!(ledger.ledger.status().frames, frames + 1, "turn {turn}");
    }
    let status = ledger.ledger.status();
    let cleaned = status.carried > 500 && status.retired > 50;
    assert!(cleaned || !Random::is_fixed(), "hardly any cleaning: {status:?}");
}
