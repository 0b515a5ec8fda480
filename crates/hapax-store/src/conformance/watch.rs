use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use hapax_core::Version;

use super::{
    check::{Bench, Halt, Outcome},
    sample::{id, number_in, numbered},
    step::{overwrite, put, remove, within},
};
use crate::Watch;

/// So long that whoever waits is surely asleep.
const A_MOMENT: Duration = Duration::from_millis(20);

pub(super) async fn wakes_when_somebody_else_writes(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut watch = store.watch(&id(1)).await?;
    let writer = Arc::clone(&store);
    let task = tokio::spawn(async move {
        tokio::time::sleep(A_MOMENT).await;
        put(writer.as_ref(), &id(1), Version::NEVER, numbered(1)).await
    });
    within(bench.patience(), watch.changed(), "woken by a first write").await?;
    let version = task.await??;
    let mut next = store.watch(&id(1)).await?;
    put(store.as_ref(), &id(1), version, numbered(2)).await?;
    within(bench.patience(), watch.changed(), "woken a second time").await?;
    within(bench.patience(), next.changed(), "a second watch").await
}

/// The joiner sets up, reads *pending*, and the answer arrives before it has begun to wait.
pub(super) async fn a_change_right_after_set_up_wakes(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut expected = Version::NEVER;
    for number in 0..20 {
        let mut watch = store.watch(&id(1)).await?;
        expected = put(store.as_ref(), &id(1), expected, numbered(number)).await?;
        within(bench.patience(), watch.changed(), "a change between set-up and the first wait").await?;
    }
    Ok(())
}

pub(super) async fn wakes_on_removals(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut watch = store.watch(&id(1)).await?;
    let absent = remove(store.as_ref(), &id(1), Version::NEVER).await?;
    within(bench.patience(), watch.changed(), "woken by the removal of what was absent").await?;
    let version = put(store.as_ref(), &id(1), absent, numbered(1)).await?;
    within(bench.patience(), watch.changed(), "woken by a write").await?;
    remove(store.as_ref(), &id(1), version).await?;
    within(bench.patience(), watch.changed(), "woken by a removal").await
}

/// One that only reads when woken has to come to the last state, however the wakes fall together.
pub(super) async fn a_thousand_rapid_changes_lose_no_wake(bench: Bench) -> Outcome {
    const LAST: u64 = 1_000;
    let store = bench.open().await?;
    let mut watch = store.watch(&id(1)).await?;
    let reader = Arc::clone(&store);
    let patience = bench.patience();
    let follower = tokio::spawn(async move {
        while number_in(reader.get(&id(1)).await?.record.as_ref()) != Some(LAST) {
            within(patience, watch.changed(), "the next of a thousand changes").await?;
        }
        Ok::<(), Halt>(())
    });
    let mut expected = Version::NEVER;
    for number in 0..=LAST {
        expected = put(store.as_ref(), &id(1), expected, numbered(number)).await?;
        if number % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    follower.await?
}

pub(super) async fn wakes_all_who_watch(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut waiters = Vec::new();
    for _ in 0..100 {
        let mut watch = store.watch(&id(1)).await?;
        waiters.push(tokio::spawn(async move { watch.changed().await }));
    }
    let mut other = store.watch(&id(2)).await?;
    tokio::time::sleep(A_MOMENT).await;
    put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    for waiter in waiters {
        within(bench.patience(), waiter, "one of a hundred watchers").await??;
    }
    put(store.as_ref(), &id(2), Version::NEVER, numbered(1)).await?;
    within(bench.patience(), other.changed(), "the watcher of another id").await
}

pub(super) async fn a_dropped_future_loses_no_wake(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut watch = store.watch(&id(1)).await?;
    // Looked at once, then given up, before the change and after it.
    glance(watch.as_mut());
    let version = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    drop(watch.changed());
    within(bench.patience(), watch.changed(), "after futures were dropped before a change").await?;
    for number in 0..20 {
        glance(watch.as_mut());
        overwrite(store.as_ref(), &id(1), Some(numbered(number))).await?;
        within(bench.patience(), watch.changed(), "after a future was dropped between two changes").await?;
    }
    ensure!(store.get(&id(1)).await?.version > version, "the writes in between are not there");
    Ok(())
}

fn glance(watch: &mut dyn Watch) {
    let _ = watch.changed().as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

pub(super) async fn a_dropped_watch_disturbs_nobody(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let first = store.watch(&id(1)).await?;
    let mut second = store.watch(&id(1)).await?;
    let third = store.watch(&id(1)).await?;
    drop(first);
    put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    within(bench.patience(), second.changed(), "the one that stayed").await?;
    drop(second);
    drop(third);
    overwrite(store.as_ref(), &id(1), Some(numbered(2))).await?;
    let mut fresh = store.watch(&id(1)).await?;
    overwrite(store.as_ref(), &id(1), Some(numbered(3))).await?;
    within(bench.patience(), fresh.changed(), "one set up after all others were dropped").await
}
