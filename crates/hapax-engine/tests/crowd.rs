//! A thousand callers, one key: it runs once, and whoever still waits gets its value.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::support::*;
use hapax_core::Millis;
use hapax_engine::{OnceError, Wait};
use tokio::{sync::Semaphore, task::JoinSet};

const MANY: usize = 1_000;

fn patient(call: hapax_engine::Call) -> hapax_engine::Call {
    call.wait(Wait::AtMost(Millis::from_secs(60)))
}

/// A thousand calls at once. Some callers are aborted, some give up in a `select!`, some panic. The closure runs once
/// and all that still wait have its value; the store was asked for one subscription.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_callers_run_it_once() {
    let world = World::new();
    let engine = world.engine();
    let (ran, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let (mut stay, mut go) = (JoinSet::new(), Vec::new());
    for number in 0..MANY {
        let (engine, ran, gate) = (engine.clone(), Arc::clone(&ran), Arc::clone(&gate));
        let once = async move {
            patient(call(&engine, "k"))
                .once(move |_| async move {
                    ran.fetch_add(1, SeqCst);
                    gate.acquire().await.unwrap().forget();
                    Ok::<_, Failed>(format!("by {number}"))
                })
                .await
        };
        match number % 10 {
            7 => go.push(tokio::spawn(async move {
                drop(once.await);
            })),
            8 => go.push(tokio::spawn(async move {
                tokio::select! {
                    _ = once => {}
                    () = sleep(20) => {}
                }
            })),
            9 => go.push(tokio::spawn(async move {
                tokio::select! {
                    _ = once => {}
                    () = sleep(30) => panic!("the caller is broken"),
                }
            })),
            _ => drop(stay.spawn(once)),
        }
    }
    soon(async {
        while engine.waiting() < MANY - 1 {
            sleep(1).await;
        }
    })
    .await;
    for caller in go.iter().step_by(3) {
        caller.abort();
    }
    sleep(100).await;
    gate.add_permits(1);
    let mut values = Vec::new();
    while let Some(given) = soon(stay.join_next()).await {
        let given = given.unwrap().unwrap();
        values.push((given.value, given.replayed));
    }
    assert_eq!(ran.load(SeqCst), 1, "it ran more than once");
    assert_eq!(values.len(), MANY / 10 * 7);
    assert!(values.iter().all(|(value, _)| *value == values[0].0));
    assert!(values.iter().filter(|(_, replayed)| !replayed).count() <= 1);
    assert_eq!(world.store.watches.load(SeqCst), 1, "one subscription serves all");
    assert_eq!(engine.stats().executed, 1);
}

/// The first caller, whose closure runs, is dropped half-way: the closure goes on, and the others get its value.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_first_caller_goes_away() {
    let world = World::new();
    let engine = world.engine();
    let (ran, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let (counter, opens) = (Arc::clone(&ran), Arc::clone(&gate));
    let first = tokio::spawn(patient(call(&engine, "k")).once(move |_| async move {
        counter.fetch_add(1, SeqCst);
        opens.acquire().await.unwrap().forget();
        Ok::<_, Failed>("first".to_owned())
    }));
    while ran.load(SeqCst) == 0 {
        sleep(1).await;
    }
    let mut others = JoinSet::new();
    for _ in 0..200 {
        others.spawn(never(patient(call(&engine, "k"))));
    }
    while engine.waiting() < 200 {
        sleep(1).await;
    }
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    while let Some(given) = soon(others.join_next()).await {
        assert_eq!(given.unwrap().unwrap().value, "first");
    }
    assert_eq!(ran.load(SeqCst), 1);
}

/// The closure panics under a crowd: unsafe work is in doubt for all of them, and nobody runs it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_closure_panics_under_a_crowd() {
    let world = World::new();
    let engine = world.engine();
    let ran = Arc::new(AtomicU32::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..200 {
        let ran = Arc::clone(&ran);
        callers.spawn(patient(call(&engine, "k")).once(move |_| async move {
            ran.fetch_add(1, SeqCst);
            sleep(50).await;
            if ran.load(SeqCst) > 0 {
                panic!("half-way");
            }
            Ok::<_, Failed>(1)
        }));
    }
    let (mut panicked, mut doubtful) = (0, 0);
    while let Some(told) = soon(callers.join_next()).await {
        match told.unwrap() {
            Err(OnceError::Panicked(_)) => panicked += 1,
            Err(OnceError::InDoubt { .. }) => doubtful += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((ran.load(SeqCst), panicked, doubtful), (1, 1, 199));
}

/// Many keys at once, several engines on one store, several callers each: every key runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_keys_run_once_each_over_several_engines() {
    let world = World::new();
    let engines = [world.engine(), world.engine(), world.engine()];
    let ran: Arc<Vec<AtomicU32>> = Arc::new((0..100).map(|_| AtomicU32::new(0)).collect());
    let mut callers = JoinSet::new();
    for number in 0..3_000_usize {
        let (engine, ran, key) = (&engines[number % 3], Arc::clone(&ran), number % 100);
        callers.spawn(patient(call(engine, &format!("k{key}"))).once(move |_| async move {
            ran[key].fetch_add(1, SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, Failed>(key)
        }));
    }
    while let Some(given) = soon(callers.join_next()).await {
        let given = given.unwrap().unwrap();
        assert!(given.value < 100);
    }
    assert!(ran.iter().all(|times| times.load(SeqCst) == 1));
}
