//! A thread of the ledger panics: a fault of ours. The ledger must say so and answer nothing more, rather than call itself
//! durable and leave its callers waiting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::common::*;
use hapax_core::Version;
use hapax_ledger::{Clock, Ledger, disk::RecordingDisk};
use hapax_store::{BodyId, Durability, Store, StoreError, Swap};

/// A clock that panics when a thread of this name asks it for the time.
#[derive(Debug)]
struct Trap {
    thread: &'static str,
    armed: AtomicBool,
}

impl Clock for Trap {
    fn wall_ms(&self) -> u64 {
        START_MS
    }

    fn monotonic_ms(&self) -> u64 {
        let here = std::thread::current().name() == Some(self.thread);
        assert!(!(here && self.armed.load(Ordering::SeqCst)), "a trap of the test");
        1_000
    }
}

async fn a_panic_of(thread: &'static str) {
    let trap = Arc::new(Trap { thread, armed: AtomicBool::new(false) });
    let disk = RecordingDisk::default();
    let options = || small("/l").disk(Arc::new(disk.clone())).most_queued(8);
    let ledger = Arc::new(Ledger::open_with(options().clock(trap.clone())).unwrap());
    let Ok(Swap::Swapped { version, .. }) = ledger.swap(&id(0), Version::NEVER, Some(live("x"))).await else {
        panic!()
    };
    assert_eq!(ledger.durability(), Durability::Durable);
    let mut watch = ledger.watch(&id(0)).await.unwrap();
    trap.armed.store(true, Ordering::SeqCst);
    // More callers than the queue holds: some wait in it, some before it, some in the batch.
    let callers: Vec<_> = (1..100)
        .map(|number| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                loop {
                    let answer = ledger.swap(&id(number), Version::NEVER, Some(live("x"))).await;
                    match answer {
                        Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                        Err(error) => return error,
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        let error = tokio::time::timeout(Duration::from_secs(50), caller).await.expect("never answered").unwrap();
        assert!(matches!(error, StoreError::Unknown { .. } | StoreError::Unavailable { .. }), "{error}");
    }
    watch.changed().await;
    let Durability::BestEffort(why) = ledger.durability() else { panic!("it calls itself durable") };
    assert!(why.contains("panicked") && why.ends_with("[HX0028]"), "{why}");
    let later = ledger.swap(&id(0), version, None).await.unwrap_err();
    assert!(later.to_string().contains("panicked"), "{later}");
    assert!(ledger.get(&id(0)).await.is_err(), "it answers");
    drop(ledger);
    let again = Stepped::open(options()).unwrap();
    assert_eq!(again.get(id(0)).unwrap().version, version);
}

#[tokio::test]
async fn a_writer_that_panics_poisons_the_ledger_and_answers_everybody() {
    a_panic_of("hapax-writer").await;
}

#[tokio::test]
async fn a_thread_of_bodies_that_panics_poisons_the_ledger_and_answers_everybody() {
    let trap = Arc::new(Trap { thread: "hapax-bodies", armed: AtomicBool::new(true) });
    let options = small("/l").disk(Arc::new(RecordingDisk::default())).clock(trap);
    let ledger = Ledger::open_with(options).unwrap();
    let owner = id(1);
    let puts: Vec<_> = (0..100).map(|at| ledger.put_body(&owner, BodyId([at; 32]), "a body".into())).collect();
    for put in puts {
        let answer = tokio::time::timeout(Duration::from_secs(50), put).await.expect("never answered");
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
    }
    let Durability::BestEffort(why) = ledger.durability() else { panic!("it calls itself durable") };
    assert!(why.contains("bodies thread has panicked"), "{why}");
}

#[tokio::test]
async fn a_keeper_that_panics_poisons_the_ledger_and_answers_everybody() {
    a_panic_of("hapax-keeper").await;
}
