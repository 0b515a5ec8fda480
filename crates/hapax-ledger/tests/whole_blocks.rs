//! What is written in part of a block, the system first reads from the disk: a wait for it before each such frame, since
//! neither spare nor recycled segments are kept in memory. So the log is written in whole blocks, past the system's copies of them,
//! or, where a disk cannot do that, over blocks that were cleared before.

use std::{collections::HashMap, path::Path, sync::Arc};

use crate::common::*;
use hapax_core::Version;
use hapax_ledger::{
    Ledger, Options,
    disk::{DirectWrites, Op, RecordingDisk},
};
use hapax_store::{Store as _, Swap};

const BLOCK: u64 = 4096;

/// A ledger of several segments, each record of another length.
fn filled(disk: &RecordingDisk) {
    let options = || {
        let clock = ManualClock::new();
        small("/l").disk(Arc::new(disk.clone())).clock(clock).segment_bytes(16 * 1024, 64 * 1024)
    };
    let payload = |number: u64| vec![1; 1 + number as usize * 37 % 3_000];
    let mut ledger = Stepped::open(options()).unwrap();
    ledger.settle();
    for number in 0..300 {
        ledger.put(id(number), Some(envelope(payload(number))));
        ledger.settle();
    }
    assert!(disk.image().bytes(Path::new("/l/00000003.seg")).is_some(), "several segments were filled");
    drop(ledger);
    disk.forget_lock();
    let mut again = Stepped::open(options()).unwrap();
    again.put(id(300), Some(envelope(payload(300))));
    for number in 0..=300 {
        let found = now(again.ledger.get(&id(number))).unwrap().record.unwrap();
        assert_eq!(found.payload, payload(number), "record {number}");
    }
}

#[test]
fn frames_go_out_in_whole_blocks_and_leave_what_was_written_before_as_it_was() {
    let disk = RecordingDisk::default();
    filled(&disk);
    let mut files: HashMap<usize, Vec<u8>> = HashMap::new();
    let (mut frames, mut shared) = (0, 0);
    for op in disk.trace() {
        let Op::Write { file, offset, bytes } = op else { continue };
        let (held, from) = (files.entry(file).or_default(), offset as usize);
        held.resize(held.len().max(from + bytes.len()), 0);
        let (before, is_segment) = (&held[from..from + bytes.len()], held.len() >= 16 * 1024);
        if is_segment && before != &*bytes {
            assert!((offset | bytes.len() as u64).is_multiple_of(BLOCK), "{} bytes at {offset}", bytes.len());
            let kept = before.iter().zip(bytes.iter()).all(|(old, new)| *old == 0 || old == new);
            assert!(kept, "what stood at {offset} was changed");
            frames += 1;
            shared += u64::from(before.starts_with(b"HXF1") || !bytes.starts_with(b"HXF1"));
        }
        held[from..from + bytes.len()].copy_from_slice(&bytes);
    }
    assert!(frames >= 300 && shared > 100, "{frames} frames, {shared} of them behind another one in its block");
}

/// Some say so when a file is opened, some when it is first written to.
#[test]
fn a_disk_that_cannot_write_past_its_cache_is_written_through_it() {
    // Where it goes on through the cache, a frame may begin anywhere in a block.
    let half_way = (0..40).map(|many| DirectWrites::CanSoMany(many * 7));
    for direct in [DirectWrites::CannotOpen, DirectWrites::CannotWrite].into_iter().chain(half_way) {
        filled(&RecordingDisk::default().direct_writes(direct));
    }
}

/// Some other reader has the system keep a copy of the block that the next frame is written into.
#[tokio::test]
async fn who_reads_a_block_that_is_still_written_to_sees_all_of_it() {
    let dir = TempDir::new("read-while-written");
    let ledger = Ledger::open_with(Options::new(&dir.0).segment_bytes(64 << 10, 256 << 10)).unwrap();
    for number in 0..600 {
        let put = |number: u64| envelope(vec![number as u8; 10 + number as usize * 37 % 900]);
        let swapped = ledger.swap(&id(number), Version::NEVER, Some(put(number))).await;
        assert!(matches!(swapped, Ok(Swap::Swapped { .. })), "{swapped:?}");
        for before in [number, number.saturating_sub(1), number / 2] {
            let found = ledger.get(&id(before)).await.unwrap().record.unwrap();
            assert_eq!(found.payload, put(before).payload, "record {before} after {number}");
        }
    }
}

#[test]
fn through_the_cache_a_frame_never_ends_in_a_block_that_nothing_was_written_to_before() {
    let disk = RecordingDisk::default().direct_writes(DirectWrites::CannotOpen);
    filled(&disk);
    // Of each file: the end of the blocks that were written to since it became a segment, and are in memory.
    let mut touched: HashMap<usize, u64> = HashMap::new();
    let (mut entered, mut cleared) = (0, 0);
    for op in disk.trace() {
        let Op::Write { file, offset, bytes } = op else { continue };
        let (end, touched) = (offset + bytes.len() as u64, touched.entry(file).or_default());
        if bytes.starts_with(b"HXF1") {
            let last = end - end % BLOCK;
            assert!(last == end || last < *touched, "a frame ends at {end}, nothing was written behind {touched}");
            entered += u64::from(offset / BLOCK != end / BLOCK);
            *touched = end.next_multiple_of(BLOCK).max(*touched);
        } else if bytes.len() as u64 == BLOCK {
            assert!(offset >= *touched, "what is cleared at {offset} holds frames up to {touched}");
            cleared += 1;
            *touched = end;
        }
    }
    assert!(entered > 50 && cleared > 50, "{entered} frames entered a block, {cleared} blocks were cleared");
}
