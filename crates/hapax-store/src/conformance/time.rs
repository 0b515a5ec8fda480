use hapax_core::{Millis, Stamp, Version};

use super::{
    check::{Bench, Outcome},
    sample::{id, numbered},
    step::{overwrite, refused, same, write},
};

pub(super) async fn now_is_never_before_the_stamp(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    for number in 0..50 {
        overwrite(store.as_ref(), &id(number % 3), Some(numbered(number))).await?;
        let held = store.get(&id(number % 3)).await?;
        ensure!(held.now >= held.stamp, "read: now {:?} is before the stamp {:?}", held.now, held.stamp);
        let held = refused(store.as_ref(), &id(number % 3), Version(u64::MAX), None).await?;
        ensure!(held.now >= held.stamp, "conflict: now {:?} is before the stamp {:?}", held.now, held.stamp);
    }
    Ok(())
}

pub(super) async fn stamps_of_one_id_never_run_back(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut last = Stamp(0);
    let mut expected = Version::NEVER;
    for number in 0..200 {
        let next = (number % 5 != 4).then(|| numbered(number));
        let (version, stamp) = write(store.as_ref(), &id(1), expected, next).await?;
        ensure!(stamp >= last, "stamp {stamp:?} after {last:?}");
        (expected, last) = (version, stamp);
    }
    Ok(())
}

pub(super) async fn moves_on(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let (version, before) = write(store.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await?;
    let hour = Millis::from_hours(1);
    bench.advance(hour).await?;
    let held = store.get(&id(1)).await?;
    ensure!(held.stamp == before, "reading moved the stamp from {before:?} to {:?}", held.stamp);
    ensure!(held.now >= before.plus(hour), "an hour after {before:?} it is {:?}", held.now);
    let (_, after) = write(store.as_ref(), &id(1), version, Some(numbered(2))).await?;
    ensure!(after >= before.plus(hour), "a write an hour after {before:?} is stamped {after:?}");
    Ok(())
}

pub(super) async fn stamps_stay_over_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    overwrite(store.as_ref(), &id(1), Some(numbered(1))).await?;
    let before = store.get(&id(1)).await?;
    let store = bench.reopen(store).await?;
    let after = store.get(&id(1)).await?;
    same(&after, &before, "after a reopening")?;
    ensure!(after.now >= after.stamp, "now {:?} is before the stamp {:?}", after.now, after.stamp);
    let (_, stamp) = write(store.as_ref(), &id(1), after.version, Some(numbered(2))).await?;
    ensure!(stamp >= before.stamp, "stamp {stamp:?} after {:?} and a reopening", before.stamp);
    Ok(())
}
