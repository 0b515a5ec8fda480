//! The store's time without asking for it.
//!
//! Reads do not tell the time, but each message is stamped by the server. So a message is sent now and then; the server
//! stamped it after it was sent and before it was acknowledged, and in between runs this machine's monotonic clock. The
//! wall clock of this machine is never read.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use async_nats::HeaderMap;
use bytes::Bytes;
use hapax_core::{Millis, Stamp};
use parking_lot::Mutex;

use crate::{api::Lookup, error::Failed, shared::Shared};

/// A reading is made anew after this; until then two clocks drift apart by no more than [`DRIFT_PPM`].
const FRESH: Duration = Duration::from_secs(30);
const DRIFT_PPM: u64 = 200;
const SAMPLES: usize = 3;
/// Two processes that share a slot spoil each other's sample.
const SLOTS: u8 = 64;

#[derive(Debug)]
pub(crate) struct Clock {
    since: Instant,
    reading: Mutex<Option<Reading>>,
    refreshing: Arc<AtomicBool>,
}

/// In microseconds: the server's clock minus ours, and how far that may be off.
#[derive(Clone, Copy, Debug)]
struct Reading {
    offset_us: i64,
    error_us: u64,
    taken_us: i64,
    /// A new connection may lead to a server with another clock.
    connection: u64,
    /// Something was seen that does not fit.
    doubted: bool,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the one place where this store meets real time")]
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), reading: Mutex::default(), refreshing: Arc::default() }
    }

    fn elapsed_us(&self) -> i64 {
        i64::try_from(self.since.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    /// The time, and whether the reading behind it is fresh.
    pub(crate) fn read(&self, connection: u64) -> Option<(Stamp, bool)> {
        let reading = (*self.reading.lock())?;
        let elapsed = self.elapsed_us();
        let now = elapsed.saturating_add(reading.offset_us).max(0) as u64;
        let young = elapsed - reading.taken_us < FRESH.as_micros() as i64;
        Some((Stamp(now / 1_000), young && !reading.doubted && reading.connection == connection))
    }

    /// How far it may be off now.
    pub(crate) fn error(&self) -> Millis {
        let Some(reading) = *self.reading.lock() else { return Millis(0) };
        let age = self.elapsed_us().saturating_sub(reading.taken_us).max(0) as u64;
        Millis((reading.error_us + age * DRIFT_PPM / 1_000_000).div_ceil(1_000))
    }

    /// Whoever gets this makes the reading anew; nobody else does meanwhile.
    pub(crate) fn refreshing(&self) -> Option<Refreshing> {
        let taken = self.refreshing.compare_exchange(false, true, SeqCst, SeqCst).is_ok();
        taken.then(|| Refreshing(Arc::clone(&self.refreshing)))
    }

    /// A message with this stamp exists, so it is at least that late. If that is news, the reading is wrong.
    pub(crate) fn at_least(&self, stamp: Stamp) {
        let mut reading = self.reading.lock();
        let Some(reading) = reading.as_mut() else { return };
        let now = self.elapsed_us().saturating_add(reading.offset_us).max(0) as u64 / 1_000;
        if stamp.0 > now + reading.error_us.div_ceil(1_000) + 1 {
            reading.offset_us = reading.offset_us.saturating_add_unsigned((stamp.0 - now).saturating_mul(1_000));
            reading.doubted = true;
        }
    }
}

pub(crate) struct Refreshing(Arc<AtomicBool>);

impl Drop for Refreshing {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Shared {
    /// Takes the best of a few samples.
    pub(crate) async fn calibrate(&self) -> Result<(), Failed> {
        let mut best: Option<Reading> = None;
        for _ in 0..SAMPLES {
            let Some(sample) = self.sample().await? else { continue };
            if best.is_none_or(|best| sample.error_us < best.error_us) {
                best = Some(sample);
            }
        }
        match best {
            Some(best) => *self.clock.reading.lock() = Some(best),
            None => return Err(Failed::Strange("the stamp of a message is none".into())),
        }
        Ok(())
    }

    /// `None` if somebody else took the slot before it was read.
    async fn sample(&self) -> Result<Option<Reading>, Failed> {
        let mut slot = [0];
        getrandom::fill(&mut slot).map_err(|error| Failed::Connecting(error.to_string()))?;
        let subject = self.names.clock(slot[0] % SLOTS);
        // A connection that has to be made first is not part of the way.
        self.link.client().await?;
        let before = self.clock.elapsed_us();
        let sequence = self.publish(subject, HeaderMap::new(), Bytes::new()).await?;
        let after = self.clock.elapsed_us();
        let lookup = Lookup { seq: Some(sequence), last_by_subj: None, next_by_subj: None };
        let Some(held) = self.look_up(&self.names.bodies, &lookup).await? else { return Ok(None) };
        let stamped = micros(&held.time).ok_or_else(|| Failed::Strange(format!("`{}` is no time", held.time)))?;
        Ok(Some(Reading {
            offset_us: stamped.saturating_sub(before.midpoint(after)),
            error_us: (after - before).unsigned_abs().div_ceil(2) + 1,
            taken_us: after,
            connection: self.link.number(),
            doubted: false,
        }))
    }
}

/// `2026-11-16T03:36:08.123456789Z`, the only form in which the server writes it, in microseconds since 1970.
fn micros(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let in_range = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    // Years begin in March here, so that the day that is not always there comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_way_to_write_a_time_is_read() {
        assert_eq!(micros("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(micros("2000-02-29T12:00:00.5Z"), Some(951_825_600_500_000));
        assert_eq!(micros("2026-11-16T03:36:08.123456789Z"), Some(1_794_800_168_123_456));
        assert_eq!(micros("2024-12-31T23:59:59.999999999Z"), Some(1_735_689_599_999_999));
        for wrong in ["", "2026-11-16", "2026-11-16T03:36:08", "a-b-cTd:e:fZ", "2026-13-01T00:00:00Z", "…Z"] {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
    }

    /// A process was stopped for an hour with its machine: what others have stamped meanwhile shows it.
    #[test]
    fn a_clock_that_stood_still_is_moved_by_what_others_stamped() {
        let clock = Clock::new();
        let reading = Reading { offset_us: 1_000_000_000, error_us: 2_000, taken_us: 0, connection: 1, doubted: false };
        *clock.reading.lock() = Some(reading);
        let (now, fresh) = clock.read(1).unwrap();
        assert!(fresh && clock.error() >= Millis(2), "{now:?}");
        clock.at_least(Stamp(now.0 + 1));
        assert!(clock.read(1).unwrap().1, "what lies within the error is no news");
        clock.at_least(Stamp(now.0 + 3_600_000));
        let (later, fresh) = clock.read(1).unwrap();
        assert!(later.0 >= now.0 + 3_600_000 && !fresh, "{later:?}");
        assert!(!clock.read(2).unwrap().1, "another connection, another server");
    }
}
