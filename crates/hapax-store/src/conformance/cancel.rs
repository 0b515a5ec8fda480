use std::task::{Context, Waker};

use hapax_core::Version;

use super::{
    check::{Bench, Outcome},
    sample::{SURFACE, id, number_in, numbered},
    step::{overwrite, put, refused},
};

/// A caller goes away in the middle of a write. What it wrote is there or is not; nothing in between, and nobody else
/// is held up.
pub(super) async fn a_dropped_swap_leaves_old_or_new(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut known = put(store.as_ref(), &id(1), Version::NEVER, numbered(0)).await?;
    for number in 1..200 {
        {
            let id = id(1);
            let mut swap = store.swap(&id, known, Some(numbered(number)));
            // Given up untouched, after a first look, or after a second one a little later.
            if number % 3 > 0 {
                let _ = swap.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
            if number % 3 > 1 {
                tokio::task::yield_now().await;
            }
        }
        // It may still be on its way, so it is disowned as a lost answer is: by a write.
        let (version, _) = overwrite(store.as_ref(), &id(1), Some(numbered(1_000 + number))).await?;
        let late = refused(store.as_ref(), &id(1), known, Some(numbered(9))).await?;
        ensure!(late.version >= version, "the version moved back to {} from {version}", late.version);
        let held = store.get(&id(1)).await?;
        let seen = number_in(held.record.as_ref());
        ensure!(seen == Some(1_000 + number), "holds {seen:?} after {number} was given up and overwritten");
        let usage = store.usage(SURFACE).await?;
        ensure!(!usage.exact || usage.records == 1, "{} records are counted where there is one", usage.records);
        known = held.version;
    }
    Ok(())
}
