use std::time::{Duration, Instant};

/// The middle one.
pub(crate) fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// The value below which `share` of all lie.
pub(crate) fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let at = (samples.len() as f64 * share) as usize;
    samples.get(at.min(samples.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Runs `round` until the time is up, at least five times.
pub(crate) fn rounds(seconds: f64, mut round: impl FnMut()) {
    let end = Instant::now() + Duration::from_secs_f64(seconds.max(0.1));
    let mut done = 0;
    while done < 5 || Instant::now() < end {
        round();
        done += 1;
    }
}

/// Seconds that `work` takes.
pub(crate) fn time<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed().as_secs_f64()
}
