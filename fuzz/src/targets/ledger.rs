use std::{cell::Cell, fs, sync::LazyLock};

use hapax_ledger::{any_bytes, disk::Image};

use super::{Target, must};
use crate::mutate;

/// Far beyond what a small directory can need, and far below what a damaged length can claim.
const MOST_KIB: u64 = 4 << 20;

/// Any bytes in the place of a segment, a hint, the `ledger` file or a body.
pub(super) const TARGET: Target = Target {
    name: "ledger",
    about: "any bytes as a file of the ledger: a start, a check and a repair agree, and nothing is believed that is damaged",
    words: &[
        b"HXF1",
        b"HXH1",
        b"HXB1",
        b"\x28\x00\x00\x00",
        b"\x48\x00\x00\x00",
        b"\xf8\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x80",
        b"\x81",
        b"\x82",
    ],
    seeds: any_bytes::seeds,
    make: mutate::noise,
    run,
};

static BASE: LazyLock<Image> = LazyLock::new(any_bytes::sample);

thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
}

fn run(input: &[u8]) -> Result<u64, String> {
    let answer = any_bytes::run(&BASE, input)?;
    let runs = RUNS.get() + 1;
    RUNS.set(runs);
    if runs.is_multiple_of(64) {
        must(peak_kib() < MOST_KIB, || format!("{} KiB of memory were asked for", peak_kib()))?;
    }
    Ok(answer)
}

/// The most that this process ever asked for, touched or not. 0 where nobody can say.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}
