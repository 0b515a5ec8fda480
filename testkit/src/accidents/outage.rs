use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::{Effect, Millis, Outcome, Verdict, Version};
use hapax_engine::{Begun, Engine, EngineError, Stepped, Wait};
use hapax_store::{Store, Swap};
use parking_lot::Mutex;

use super::{Open, Server, call, engine, eventually, hasty_engine};
use crate::sample::{id, number_in, numbered};

const KILLED: u64 = 3;
const WRITERS: u64 = 16;
const DONE: u64 = 1 << 40;

/// What callers were told before the server went.
#[derive(Default)]
struct Told {
    /// Number, version and value of each write.
    acknowledged: Mutex<Vec<(u64, Version, u64)>>,
    /// What was expected by a write that came to nothing.
    refused: Mutex<Vec<(u64, Version)>>,
}

/// The server is killed under load, three times over, and in the end stops because it is told to: then it takes leave of
/// everybody in words of its own. Whatever it had acknowledged is there afterwards, and what was not done is not.
pub async fn what_was_acknowledged_survives_kill_9(open: Open<'_>, server: &mut dyn Server) {
    let store = open(server.port()).await;
    let next = Arc::new(AtomicU64::new(0));
    let told = Arc::new(Told::default());
    for round in 0..=KILLED {
        let enough = told.acknowledged.lock().len() + 300;
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| tokio::spawn(write(store.clone(), next.clone(), told.clone(), stop.clone())))
            .collect();
        eventually("enough was acknowledged", async || told.acknowledged.lock().len() >= enough).await;
        if round < KILLED {
            server.kill();
        } else {
            server.stop();
        }
        stop.store(true, SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
        server.restart();
        eventually("it reads again", async || store.get(&id(0)).await.is_ok()).await;
        is_as_told(store.as_ref(), &told).await;
    }
}

async fn is_as_told(store: &dyn Store, told: &Told) {
    let (acknowledged, refused) = (told.acknowledged.lock().clone(), told.refused.lock().clone());
    for (number, version, value) in acknowledged {
        let held = store.get(&id(number)).await.unwrap();
        assert!(held.version >= version, "{number} was acknowledged as {version} and is {}", held.version);
        let seen = number_in(held.record.as_ref());
        let kept = if held.version == version { seen == Some(value) } else { seen == Some(number | DONE) };
        assert!(kept, "{number} was acknowledged as {value} and holds {seen:?}");
    }
    for (number, expected) in refused {
        let held = store.get(&id(number)).await.unwrap();
        assert_eq!(held.version, expected, "nothing was to be written to {number}: {held:?}");
    }
}

async fn write(store: Arc<dyn Store>, next: Arc<AtomicU64>, told: Arc<Told>, stop: Arc<AtomicBool>) {
    while !stop.load(SeqCst) {
        let number = next.fetch_add(1, SeqCst);
        let mut expected = Version::NEVER;
        for value in [number, number | DONE] {
            match store.swap(&id(number), expected, Some(numbered(value))).await {
                Ok(Swap::Swapped { version, .. }) => {
                    told.acknowledged.lock().push((number, version, value));
                    expected = version;
                }
                Ok(Swap::Conflict(held)) => panic!("nobody else writes {number}, and it holds {held:?}"),
                Err(error) => {
                    assert!(error.is_passing(), "a server that goes away is no more than that: {error}");
                    if !error.is_unknown() {
                        told.refused.lock().push((number, expected));
                    }
                    // It takes a while to go, and what is refused meanwhile is looked at one by one.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    break;
                }
            }
        }
    }
}

/// The server stands still for longer than a lease. What may not run again is in doubt, never run a second time; what may
/// is taken over, and the first owner is fenced.
pub async fn a_pause_past_the_lease_runs_nothing_twice(open: Open<'_>, server: &dyn Server) {
    let lease = Millis(1_500);
    let store = open(server.port()).await;
    let (one, other) = (engine(store.clone()), engine(open(server.port()).await));
    // Only what is known to get no answer is asked in haste.
    let hasty = hasty_engine(store);
    let begin = async |key: &str, effect: Effect| match call(&one, key).effect(effect).lease(lease).begin().await {
        Ok(Begun::Execute(ticket)) => ticket,
        other => panic!("expected a ticket, got {other:?}"),
    };
    let (charge, read) = (begin("charge", Effect::Irreversible).await, begin("read", Effect::Idempotent).await);
    server.pause();
    tokio::time::sleep(lease.as_std() + Duration::from_millis(300)).await;
    charge.renew(&hasty).await.expect_err("the server stands still");
    server.resume();

    let told = settled(&other, "charge", Effect::Irreversible).await;
    assert!(matches!(told, Begun::Told(Verdict::InDoubt { .. })), "irreversible work is not run again: {told:?}");
    let told = settled(&other, "read", Effect::Idempotent).await;
    let Begun::Execute(second) = told else { panic!("idempotent work is taken over: {told:?}") };
    assert_eq!(second.attempt(), 2);

    let done = |text: &'static str| Outcome::success(text);
    let late = charge.complete(&one, done("charged")).await.unwrap();
    assert!(matches!(late, Stepped::Done(done) if done.late), "its own late end counts: {late:?}");
    let fenced = read.complete(&one, done("first")).await.unwrap();
    assert!(matches!(fenced, Stepped::Fenced), "it was taken over: {fenced:?}");
    assert!(second.complete(&other, done("second")).await.unwrap().is_done());
    let replay = settled(&other, "charge", Effect::Irreversible).await;
    assert!(matches!(replay, Begun::Replay(_)), "{replay:?}");
}

/// The first answer after the server is back.
async fn settled(engine: &Engine, key: &str, effect: Effect) -> Begun {
    for _ in 0..100 {
        match call(engine, key).effect(effect).wait(Wait::No).begin().await {
            Ok(begun) => return begun,
            Err(EngineError::Store(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the server does not come back");
}
