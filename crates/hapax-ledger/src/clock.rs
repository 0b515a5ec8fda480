//! The store's time: a persisted anchor plus monotonic time.
//!
//! The wall clock sets the anchor when the ledger is opened and nothing afterwards: it may be stepped by a year and back
//! without a single window noticing. Steps are counted, so that an operator can see them.
//!
//! The anchor of the next start is the last durable stamp at least. What was told to somebody must therefore become
//! durable even if nobody writes: else a record that was read as expired could come back after a restart under a wall
//! clock that was set back. A kill leaves no time for that, but the machine goes on counting since its boot, and a file
//! says how the store's time stands to that count ([`crate::hands`]).

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use hapax_core::{Millis, Stamp};

use crate::hands::Hands;

/// Where time comes from; handed in so that tests can jump it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Milliseconds since 1970. May jump in either direction.
    fn wall_ms(&self) -> u64;
    /// Milliseconds since some moment of its own. Never goes back.
    fn monotonic_ms(&self) -> u64;
    /// How long the machine is up, which goes on between one process and the next. `None` where nobody can tell.
    fn since_boot(&self) -> Option<SinceBoot> {
        None
    }
}

/// A moment, as the machine counts since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinceBoot {
    /// Another one after each start of the machine.
    pub boot: [u8; 16],
    pub ms: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    since: Instant,
    boot: Option<[u8; 16]>,
}

impl SystemClock {
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place where the ledger meets real time")]
    pub fn new() -> Self {
        Self { since: Instant::now(), boot: boot_id() }
    }
}

#[cfg(target_os = "linux")]
fn boot_id() -> Option<[u8; 16]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    if pairs.len() != id.len() {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> Option<[u8; 16]> {
    None
}

#[cfg(target_os = "linux")]
fn up_for_ms() -> Option<u64> {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(up.tv_sec).ok()?, u64::try_from(up.tv_nsec).ok()?);
    Some(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
}

#[cfg(not(target_os = "linux"))]
fn up_for_ms() -> Option<u64> {
    None
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where the ledger meets real time")]
    fn wall_ms(&self) -> u64 {
        Millis::from_std(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()).0
    }

    fn monotonic_ms(&self) -> u64 {
        Millis::from_std(self.since.elapsed()).0
    }

    fn since_boot(&self) -> Option<SinceBoot> {
        Some(SinceBoot { boot: self.boot?, ms: up_for_ms()? })
    }
}

/// How far the anchor may move ahead at an open. A wall clock that is wrong by more only lengthens windows.
pub(crate) const MOST_AHEAD: Millis = Millis::from_days(7);

/// While the ledger is open, time that was told is durable after so long at the latest.
pub(crate) const KEPT_WITHIN: Millis = Millis::from_secs(10);

/// How often it is looked whether they have to be made durable.
const LOOKED_AT: Millis = Millis::from_secs(1);

/// Times that were told are remembered to the next multiple of this, so that readers seldom have to write.
const TOLD_BITS: u32 = 10;

/// A difference below this is drift, above it a step.
const STEP_MS: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct StoreTime {
    clock: Arc<dyn Clock>,
    anchor: u64,
    /// For the next start.
    pub(crate) hands: Option<Hands>,
    monotonic_at_anchor: u64,
    wall_minus_monotonic: AtomicI64,
    steps: AtomicU64,
    /// Nothing at or after this many [`TOLD_BITS`] was told to anybody.
    untold: AtomicU64,
}

impl StoreTime {
    /// `last`: the last durable stamp, if there is one. `kept`: how the store's time stood to the machine's count before.
    pub(crate) fn open(clock: Arc<dyn Clock>, last: Option<Stamp>, kept: Option<Hands>) -> Self {
        let wall = clock.wall_ms();
        let since_boot = clock.since_boot();
        let least = least(last, kept, since_boot);
        let anchor = match least {
            None => wall,
            Some(least) => match last {
                None => wall.max(least.0),
                Some(last) => wall.clamp(least.0, last.plus(MOST_AHEAD).max(least).0),
            },
        };
        let hands = since_boot.map(|at| Hands { at, stamp: Stamp(anchor) });
        let monotonic_at_anchor = clock.monotonic_ms();
        let apart = apart(wall, monotonic_at_anchor);
        Self {
            clock,
            anchor,
            hands,
            monotonic_at_anchor,
            wall_minus_monotonic: apart.into(),
            steps: AtomicU64::new(0),
            untold: AtomicU64::new(0),
        }
    }

    /// For somebody outside, who may draw conclusions from it.
    pub(crate) fn tell(&self) -> Stamp {
        let now = self.now();
        let untold = (now.0 >> TOLD_BITS) + 1;
        if self.untold.load(Ordering::Relaxed) < untold {
            self.untold.fetch_max(untold, Ordering::Relaxed);
        }
        now
    }

    /// Whether somebody may know a time after `durable`.
    pub(crate) fn told_after(&self, durable: Stamp) -> bool {
        self.untold.load(Ordering::Relaxed) << TOLD_BITS > durable.0
    }

    /// For the ledger's own use.
    pub(crate) fn now(&self) -> Stamp {
        Stamp(self.anchor.saturating_add(self.clock.monotonic_ms().saturating_sub(self.monotonic_at_anchor)))
    }

    /// Looks whether the wall clock has been stepped since it was last looked at.
    pub(crate) fn watch_wall(&self) {
        let apart = apart(self.clock.wall_ms(), self.clock.monotonic_ms());
        let before = self.wall_minus_monotonic.swap(apart, Ordering::Relaxed);
        if apart.abs_diff(before) >= STEP_MS.unsigned_abs() {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// The earliest moment that does not contradict what was told before; `None`: nothing was.
fn least(last: Option<Stamp>, kept: Option<Hands>, since_boot: Option<SinceBoot>) -> Option<Stamp> {
    let Some(now) = since_boot else { return last };
    let went_on = kept.filter(|kept| kept.at.boot == now.boot).and_then(|kept| {
        // A count that is so far ahead is another's, such as a container's with an offset of its own; or all that was told in so long a
        // time has become durable, but for the last seconds.
        let passed = now.ms.checked_sub(kept.at.ms).filter(|passed| *passed <= MOST_AHEAD.0)?;
        // Both counts were cut to whole milliseconds.
        Some(kept.stamp.plus(Millis(passed)).plus(Millis(1)))
    });
    match went_on {
        Some(went_on) => Some(last.map_or(went_on, |last| last.max(went_on))),
        // The machine was started again, which takes longer than this; no more was told without becoming durable.
        None => last.map(|last| last.plus(KEPT_WITHIN).plus(LOOKED_AT)),
    }
}

const fn apart(wall: u64, monotonic: u64) -> i64 {
    wall.wrapping_sub(monotonic).cast_signed()
}
