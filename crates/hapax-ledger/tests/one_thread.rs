//! Callers who share a thread, and are told together.

#![allow(clippy::disallowed_methods, reason = "a real writer takes real time")]

use std::{sync::Arc, time::Duration};

use crate::common::*;
use hapax_core::Version;
use hapax_ledger::{Ledger, awaited_here, deliver};
use hapax_store::{Store, Swap};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::timeout,
};

const CALLERS: u64 = 50;
const WRITES: u64 = 1_000;
const ALL: u64 = CALLERS * WRITES;

fn of_one_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn ledger(name: &str) -> (TempDir, Arc<Ledger>) {
    let dir = TempDir::new(name);
    let ledger = Arc::new(Ledger::open(&dir.0).unwrap());
    (dir, ledger)
}

/// Each writes one record again and again.
fn callers(runtime: &Runtime, ledger: &Arc<Ledger>, first: u64) -> Vec<JoinHandle<()>> {
    let writes = |caller| {
        let ledger = ledger.clone();
        async move {
            let (id, mut version) = (id(caller), Version(0));
            for number in 0..WRITES {
                let swap = ledger.swap(&id, version, Some(envelope(number.to_be_bytes())));
                let swapped = timeout(Duration::from_secs(20), swap).await.expect("nobody told it").unwrap();
                let Swap::Swapped { version: next, .. } = swapped else { panic!("{swapped:?}") };
                version = next;
            }
        }
    };
    (first..first + CALLERS).map(|caller| runtime.spawn(writes(caller))).collect()
}

/// While they are at it.
fn after_a_tenth(ledger: &Ledger, before: u64) {
    while ledger.status().writes < before + ALL / 10 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn awaited(runtime: &Runtime) -> usize {
    runtime.spawn(async { awaited_here() }).await.unwrap()
}

#[test]
fn who_asks_where_a_letterbox_is_looked_after_is_awaited_there() {
    let (_dir, ledger) = ledger("one-thread-awaited");
    let runtime = of_one_thread();
    let look = |ledger: Arc<Ledger>| async move {
        let id = id(1);
        let mut swap = ledger.swap(&id, Version(0), Some(envelope("first")));
        assert!(poll(swap.as_mut()).is_none());
        let awaited = awaited_here();
        assert!(matches!(swap.await, Ok(Swap::Swapped { .. })));
        (awaited, awaited_here())
    };
    runtime.spawn(deliver());
    let seen = runtime.block_on(async {
        awaited(&runtime).await;
        runtime.spawn(look(ledger.clone())).await.unwrap()
    });
    assert_eq!(seen, (1, 0));
}

/// On the way the letterbox closes: nobody may wait for what lies in it, or comes later.
#[test]
fn everybody_is_told_with_and_without_a_letterbox() {
    let (_dir, ledger) = ledger("one-thread");
    for (round, closes) in (0..).zip([false, true]) {
        let runtime = of_one_thread();
        let letterbox = runtime.spawn(deliver());
        let all = callers(&runtime, &ledger, round * CALLERS);
        if closes {
            after_a_tenth(&ledger, round * ALL);
            letterbox.abort();
            assert!(ledger.status().writes < (round + 1) * ALL, "all were done before");
        }
        runtime.block_on(async {
            for caller in all {
                caller.await.unwrap();
            }
            assert_eq!(awaited(&runtime).await, 0, "whoever was told is not awaited");
        });
    }
    assert_eq!(ledger.status().writes, 2 * ALL);
}

/// A runtime goes with callers still waiting; those of another one do not notice.
#[test]
fn a_runtime_that_ends_takes_nobody_else_along() {
    let (_dir, ledger) = ledger("one-thread-ends");
    let (ends, stays) = (of_one_thread(), of_one_thread());
    for runtime in [&ends, &stays] {
        runtime.spawn(deliver());
    }
    let (cut_off, through) = (callers(&ends, &ledger, 0), callers(&stays, &ledger, CALLERS));
    after_a_tenth(&ledger, 0);
    drop(ends);
    stays.block_on(async {
        let mut broken_off = 0;
        for caller in cut_off {
            broken_off += usize::from(caller.await.is_err());
        }
        assert!(broken_off > 0, "all were done before");
        for caller in through {
            caller.await.unwrap();
        }
    });
}
