//! What is written in part of a block, the system first reads from the disk: a wait for it before each such frame, since
//! neither spare nor recycled segments are kept in memory.

use std::{collections::HashMap, path::Path, sync::Arc};

use crate::common::*;
use hapax_ledger::disk::{Op, RecordingDisk};

const BLOCK: u64 = 4096;

#[test]
fn a_frame_never_ends_in_a_block_that_nothing_was_written_to_before() {
    let (disk, clock) = (RecordingDisk::default(), ManualClock::new());
    let options = small("/l").disk(Arc::new(disk.clone())).clock(clock).segment_bytes(16 * 1024, 64 * 1024);
    let mut ledger = Stepped::open(options).unwrap();
    ledger.settle();
    for number in 0..300 {
        ledger.put(id(number), Some(envelope(vec![1; 1 + number as usize * 37 % 3_000])));
        ledger.settle();
    }
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
    assert!(disk.image().bytes(Path::new("/l/00000003.seg")).is_some(), "several segments were filled");
}
