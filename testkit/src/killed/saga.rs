//! A trip of three bookings that is undone.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Effect,
    plan::{StepState, Unwinding},
};
use hapax_engine::{Compensations, Engine, GroupHandle, Settings, UnwindOptions, Unwound};
use hapax_store::Store;

use super::{Left, Log, Scene, each_death};
use crate::stories::{Failed, member};

const STEPS: [&str; 3] = ["flight", "hotel", "car"];

fn engine(store: Arc<dyn Store>, log: &Log) -> Engine {
    let log = log.clone();
    let probe = move |doubt| {
        let found = log.found(&doubt);
        async move { found }
    };
    Engine::builder(store)
        .settings(Settings { owner: "test".into(), ..Settings::default() })
        .probe("pay", probe)
        .build()
        .unwrap()
}

fn inverses(log: &Log, effect: Effect) -> Compensations {
    let log = log.clone();
    Compensations::default().on("cancel", effect, move |undo| {
        let log = log.clone();
        async move {
            let what = format!("cancel {}", undo.input::<String>()?);
            if effect.may_rerun() {
                log.happen_once(&undo.downstream_key(), &what).await;
            } else {
                log.happen(&undo.downstream_key(), &what).await;
            }
            Ok(())
        }
    })
}

pub(super) async fn act(store: Arc<dyn Store>, log: Log, effect: &str) {
    let engine = engine(store, &log);
    let group = engine.group("acme", "trip").unwrap();
    let turn = group.create().await.unwrap();
    for step in STEPS {
        let log = log.clone();
        let call = member(&engine, step, &turn, Effect::Unsafe).compensated_by("cancel", step);
        let book = move |ticket: hapax_engine::Ticket| async move {
            log.happen(&ticket.downstream_key(), step).await;
            Ok::<_, Failed>(step.to_owned())
        };
        call.once(book).await.unwrap();
    }
    let unwound = group.unwind(&inverses(&log, Effect::parse(effect).unwrap())).await.unwrap();
    assert!(matches!(unwound, Unwound::Plan { state: Unwinding::Completed, .. }), "{unwound:?}");
}

/// Wherever the process is killed, before, between and within the inverses: what had been booked is cancelled once each,
/// the last booking first. An inverse that may have happened, and of which nothing is known, waits for a person.
pub async fn unwinding(scene: &Scene<'_>) {
    for effect in [Effect::Idempotent, Effect::Unsafe] {
        let deaths = each_death(scene, "saga", effect.name(), |left| async move {
            let Left { world, log, at, _dir } = left;
            let story = format!("{effect}, killed at point {at}");
            let engine = engine(Arc::clone(&world.store) as Arc<dyn Store>, &log);
            let group = engine.group("acme", "trip").unwrap();
            group.create().await.ok();
            undo_all(&engine, &group, &log, effect, &story).await;
            let happened = log.whats();
            let booked: Vec<&String> = happened.iter().filter(|what| !what.starts_with("cancel ")).collect();
            let cancelled: Vec<&str> = happened.iter().filter_map(|what| what.strip_prefix("cancel ")).collect();
            let expected: Vec<&str> = booked.iter().rev().map(|what| what.as_str()).collect();
            assert_eq!(cancelled, expected, "{story}: {happened:?}");
        });
        let deaths = deaths.await;
        println!("{effect}: killed {deaths} times");
        assert!(deaths >= 50 / scene.stride, "{effect}: only {deaths} points to die at");
    }
}

/// Goes on until it is over, with a person at hand.
async fn undo_all(engine: &Engine, group: &GroupHandle, log: &Log, effect: Effect, story: &str) {
    let inverses = inverses(log, effect);
    let options = UnwindOptions { wait: Duration::from_millis(10), ..UnwindOptions::default() };
    for _ in 0..200 {
        match group.unwind_with(&inverses, options).await.unwrap() {
            Unwound::NotYet(members) => {
                for (member, _) in members {
                    let _asked = engine.probe(&member).await.unwrap();
                }
            }
            Unwound::Plan { state: Unwinding::Manual, plan } => {
                assert!(!effect.may_rerun(), "{story}: what may be run again needs nobody");
                let step = plan.steps.iter().find(|step| step.state == StepState::Manual).unwrap();
                let what = format!("cancel {}", serde_json::from_slice::<String>(&step.input).unwrap());
                if !log.whats().contains(&what) {
                    log.happen("by-hand", &what).await;
                }
                let _plan = group.seen_to(step.ordinal, "looked at the agency's page").await.unwrap();
            }
            over @ Unwound::Plan { .. } if over.is_over() => return,
            Unwound::Plan { .. } => {}
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{story}: it is never over")
}
