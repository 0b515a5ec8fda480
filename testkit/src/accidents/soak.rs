use std::time::{Duration, Instant};

/// How long a soak goes on; the runner says it in `HAPAX_SOAK_SECONDS`.
fn soak_time() -> Duration {
    let said = std::env::var("HAPAX_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(said.unwrap_or(60))
}

/// The same again until the time is up, at least once.
pub async fn soak<F: Future<Output = String>>(what: &str, mut round: impl FnMut(u64) -> F) {
    let started = Instant::now();
    let mut number = 0;
    loop {
        number += 1;
        let said = round(number).await;
        println!("{what}, round {number}, {} s: {said}", started.elapsed().as_secs());
        if started.elapsed() >= soak_time() {
            return;
        }
    }
}
