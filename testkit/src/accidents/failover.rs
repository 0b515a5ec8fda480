//! A server dies under load, and another takes its place.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::{Effect, Outcome, Version};
use hapax_engine::{Begun, BuildError, Engine, Settings, Wait};
use hapax_store::{Durability, Store, StoreError, Swap};
use parking_lot::Mutex;

use super::{call, engine, eventually};
use crate::sample::{id, number_in, numbered};

const WRITERS: u64 = 8;
const DONE: u64 = 1 << 40;

/// What a fail-over has cost.
#[derive(Debug)]
pub struct Toll {
    pub acknowledged: usize,
    /// Writes that were acknowledged and are not there, of records and of outcomes.
    pub lost: usize,
    /// Keys whose work ran more than once.
    pub twice: usize,
}

/// Writes and runs through the fail-over, and looks at everything afterwards. A version must never come twice, nor a
/// record hold what nobody wrote, whatever the server may lose; what was lost is counted.
pub async fn fail_over(store: Arc<dyn Store>, room: u64, strike: impl FnOnce() + Send + 'static) -> Toll {
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(room << 24));
    let acknowledged: Arc<Mutex<Vec<(u64, Version, u64)>>> = Arc::default();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| tokio::spawn(write(store.clone(), next.clone(), acknowledged.clone(), stop.clone())))
        .collect();
    let engines = [engine(store.clone()), engine(store.clone())];
    let ran: Arc<Mutex<HashMap<u64, Vec<u64>>>> = Arc::default();
    let runners: Vec<_> = (0..4)
        .map(|runner| tokio::spawn(run(engines[runner % 2].clone(), room, runner as u64, ran.clone(), stop.clone())))
        .collect();
    eventually("enough was acknowledged", async || acknowledged.lock().len() >= 200).await;
    tokio::task::spawn_blocking(strike).await.unwrap();
    let before = acknowledged.lock().len();
    eventually("it goes on after the fail-over", async || acknowledged.lock().len() >= before + 200).await;
    stop.store(true, SeqCst);
    for task in writers.into_iter().chain(runners) {
        task.await.unwrap();
    }
    let all = acknowledged.lock().clone();
    let mut lost = 0;
    for (number, version, value) in &all {
        let mut held = store.get(&id(*number)).await;
        for _ in 0..20 {
            if held.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
                held = store.get(&id(*number)).await;
            }
        }
        let held = held.unwrap();
        let seen = number_in(held.record.as_ref());
        assert!(
            seen.is_none() || seen == Some(*number) || seen == Some(*number | DONE),
            "{number} holds {seen:?}, which nobody wrote"
        );
        if held.version < *version {
            lost += 1;
        } else if held.version == *version {
            assert_eq!(seen, Some(*value), "one version of {number}, two values");
        }
    }
    let twice = ran.lock().values().filter(|runs| runs.len() > 1).count();
    Toll { acknowledged: all.len(), lost, twice }
}

/// What the server may lose was said beforehand, and whoever demands more was not let in.
pub fn judge(store: &Arc<dyn Store>, said: &Durability, toll: &Toll) {
    let settings = Settings { demand_durable: true, ..Settings::default() };
    let strict = Engine::builder(store.clone()).settings(settings).build();
    match said {
        Durability::Durable => {
            assert_eq!((toll.lost, toll.twice), (0, 0), "{} promised to lose nothing: {toll:?}", store.name());
        }
        Durability::DurableIf(_) | Durability::BestEffort(_) => {
            assert!(matches!(strict, Err(BuildError::NotDurable { .. })), "strict mode starts on {said}");
        }
    }
}

/// One number after the other, twice each.
async fn write(
    store: Arc<dyn Store>,
    next: Arc<AtomicU64>,
    acknowledged: Arc<Mutex<Vec<(u64, Version, u64)>>>,
    stop: Arc<AtomicBool>,
) {
    while !stop.load(SeqCst) {
        let number = next.fetch_add(1, SeqCst);
        let mut expected = Version::NEVER;
        for value in [number, number | DONE] {
            match store.swap(&id(number), expected, Some(numbered(value))).await {
                Ok(Swap::Swapped { version, .. }) => {
                    assert!(version > expected, "{number} went back from {expected} to {version}");
                    acknowledged.lock().push((number, version, value));
                    expected = version;
                }
                // What was there is gone with the server that had it; the next number has more luck.
                Ok(Swap::Conflict(_)) => break,
                Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Work that does harm twice: all runners ask for the same keys.
async fn run(engine: Engine, room: u64, runner: u64, ran: Arc<Mutex<HashMap<u64, Vec<u64>>>>, stop: Arc<AtomicBool>) {
    let mut key = 0;
    while !stop.load(SeqCst) {
        key += 1;
        let asked = call(&engine, &format!("failover-{room}-{key}")).effect(Effect::Irreversible).wait(Wait::No);
        match asked.begin().await {
            Ok(Begun::Execute(ticket)) => {
                ran.lock().entry(key).or_default().push(runner);
                tokio::time::sleep(Duration::from_millis(5)).await;
                // It may be the server's last moment: then the record is in doubt, which is no second run.
                let _unknown = ticket.complete(&engine, Outcome::success("done")).await;
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
