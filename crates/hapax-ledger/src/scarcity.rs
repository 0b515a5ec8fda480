//! Whether processors are scarce: whether a thread that could run waits for one, be it that it gave way to others.
//!
//! The system counts that for each thread. It is asked now and then, not each time: the answer is for what comes next, not for what was.

use std::time::{Duration, Instant};

/// So long is looked at together.
const SPAN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Scarcity {
    waits: Option<Waits>,
    since: Instant,
    waited: Duration,
    scarce: bool,
}

impl Scarcity {
    /// For the thread that calls it, and for nobody else to use.
    pub(crate) fn here() -> Self {
        let waits = Waits::of_this_thread();
        let waited = waits.as_ref().and_then(Waits::so_far).unwrap_or_default();
        Self { waits, since: now(), waited, scarce: false }
    }

    /// Whether it is, and when this was looked at.
    pub(crate) fn look(&mut self) -> (bool, Instant) {
        let now = now();
        (self.is_here(now), now)
    }

    /// Where the system does not tell, they never are.
    fn is_here(&mut self, now: Instant) -> bool {
        let Some(waits) = &self.waits else { return false };
        let span = now.saturating_duration_since(self.since);
        if span < SPAN {
            return self.scarce;
        }
        let Some(waited) = waits.so_far() else {
            self.scarce = false;
            return false;
        };
        self.scarce = is_scarce(self.scarce, span, waited.saturating_sub(self.waited));
        (self.since, self.waited) = (now, waited);
        self.scarce
    }
}

/// More than a tenth of the time is much. What it was makes a difference, so that it is not one thing
/// and the other by turns.
fn is_scarce(was: bool, span: Duration, waited: Duration) -> bool {
    waited > span / if was { 20 } else { 10 }
}

#[allow(clippy::disallowed_methods, reason = "how long the system lets a thread wait is told by real time alone")]
fn now() -> Instant {
    Instant::now()
}

/// What the system has counted for one thread.
#[derive(Debug)]
struct Waits(#[cfg(target_os = "linux")] std::fs::File);

impl Waits {
    #[cfg(target_os = "linux")]
    fn of_this_thread() -> Option<Self> {
        std::fs::File::open("/proc/thread-self/schedstat").ok().map(Self)
    }

    #[cfg(not(target_os = "linux"))]
    fn of_this_thread() -> Option<Self> {
        None
    }

    /// How long it could have run and had no processor.
    #[cfg(target_os = "linux")]
    fn so_far(&self) -> Option<Duration> {
        use std::os::unix::fs::FileExt as _;
        let mut text = [0; 96];
        let read = self.0.read_at(&mut text, 0).ok()?;
        waited(std::str::from_utf8(text.get(..read)?).ok()?)
    }

    #[cfg(not(target_os = "linux"))]
    fn so_far(&self) -> Option<Duration> {
        None
    }
}

/// Nanoseconds that it ran, nanoseconds that it waited, how often it ran.
#[cfg(any(target_os = "linux", test))]
fn waited(counts: &str) -> Option<Duration> {
    counts.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More threads that compute than there are processors.
    #[cfg(target_os = "linux")]
    #[test]
    fn who_waits_for_a_processor_notices() {
        use std::sync::atomic::{AtomicBool, Ordering};
        // A system that does not count, or not here.
        if !std::fs::read_to_string("/proc/thread-self/schedstat").is_ok_and(|counts| !counts.starts_with("0 0 ")) {
            return;
        }
        let many = 2 * std::thread::available_parallelism().unwrap().get();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..many {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let mut scarcity = Scarcity::here();
            let end = now() + Duration::from_secs(30);
            while !scarcity.look().0 && now() < end {}
            done.store(true, Ordering::Relaxed);
            assert!(now() < end, "the system does not say that a thread waits");
        });
    }

    #[test]
    fn what_the_system_counts_is_read() {
        assert_eq!(waited("12 34 5\n"), Some(Duration::from_nanos(34)));
        assert_eq!(waited(""), None);
    }

    #[test]
    fn what_was_scarce_stays_so_for_longer() {
        let percent = |percent: u32| SPAN * percent / 100;
        assert!(!is_scarce(false, SPAN, percent(8)) && is_scarce(false, SPAN, percent(12)));
        assert!(is_scarce(true, SPAN, percent(8)) && !is_scarce(true, SPAN, percent(3)));
    }
}
