//! What a record becomes after an answer: every status × class of effect × preset, through the guard and a real engine.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Effect, Preset, StateName,
    identity::{Surface, Tenant},
};
use hapax_engine::Engine;
use hapax_http::{Asked, Begin, Caller, Guard, Peek, Rules};
use hapax_store::MemoryStore;
use http::{Request, Response, StatusCode, request};

/// What is left behind, as the specification's two tables say it.
fn expected(preset: Preset, effect: Effect, status: u16) -> StateName {
    let doubt = match (preset, effect) {
        // The queue's preset leaves whatever is unknown to a person.
        (Preset::A2a, _) => StateName::Pending,
        (_, Effect::Pure | Effect::Idempotent) => StateName::Open,
        (_, Effect::Compensatable | Effect::Irreversible | Effect::Unsafe) => StateName::InDoubt,
    };
    let lasting = matches!(effect, Effect::Compensatable | Effect::Irreversible);
    match (preset, status) {
        (Preset::Stripe, 408 | 425 | 429) => StateName::Absent,
        (Preset::Stripe, 500..=599) => StateName::Rejected,
        (Preset::Openwop, 429 | 500..=599) => StateName::Open,
        (_, 100..=199 | 502 | 504) => doubt,
        (_, 200..=399) => StateName::Committed,
        (_, 400 | 401 | 403) => StateName::Absent,
        (_, 425 | 429 | 503) => StateName::Open,
        (_, 408 | 500..=599) if lasting => doubt,
        (_, 408 | 500..=599) => StateName::Open,
        // The queue keeps failures only where its policy says so.
        (Preset::A2a, _) => StateName::Open,
        (_, _) => StateName::Rejected,
    }
}

struct Route {
    guard: Guard,
    caller: Caller,
}

impl Route {
    fn new(preset: Preset, effect: Effect) -> Self {
        let engine = Engine::builder(Arc::new(MemoryStore::default())).policy("http", preset.policy());
        let rules = Rules::on(Surface::new("http").unwrap()).effect(effect);
        let guard = Guard::new(engine.build().unwrap(), rules).unwrap();
        Self { guard, caller: Caller::of(Tenant::new("acme").unwrap()) }
    }

    fn head(key: u16) -> request::Parts {
        Request::post("/orders").header("idempotency-key", format!("k{key}")).body(()).unwrap().into_parts().0
    }

    async fn begin(&self, head: &request::Parts) -> Begin {
        let Asked::Ask(asking) = self.guard.ask(head, Bytes::new(), &self.caller) else { panic!("not asked") };
        asking.begin(head).await
    }

    async fn left_behind(&self, head: &request::Parts) -> StateName {
        let Asked::Ask(asking) = self.guard.ask(head, Bytes::new(), &self.caller) else { panic!("not asked") };
        self.guard.engine().explain(&asking.operation()).await.unwrap().state
    }
}

#[tokio::test]
async fn every_status_class_and_preset_leaves_the_state_that_the_tables_say() {
    for preset in Preset::ALL {
        for effect in Effect::ALL {
            let route = Route::new(preset, effect);
            for status in 100..=599 {
                let head = Route::head(status);
                let Begin::Run(running) = route.begin(&head).await else { panic!("not run") };
                let mut answer = Response::new(Bytes::from_static(b"body"));
                *answer.status_mut() = StatusCode::from_u16(status).unwrap();
                let given = running.finish(answer).await;
                assert_eq!(given.status().as_u16(), status, "the handler's answer reaches its caller");
                let found = route.left_behind(&head).await;
                let name = preset.name();
                assert_eq!(found, expected(preset, effect, status), "{name}, {effect}, {status}");
            }
        }
    }
}

/// A recorded answer is given again, one that was not is not: the second request either runs or is told.
#[tokio::test]
async fn only_final_answers_are_given_again() {
    for preset in [Preset::Standard, Preset::Stripe, Preset::Openwop] {
        for effect in Effect::ALL {
            let route = Route::new(preset, effect);
            for status in 200..=599 {
                let head = Route::head(status);
                let Begin::Run(running) = route.begin(&head).await else { panic!("not run") };
                let mut answer = Response::new(Bytes::from_static(b"body"));
                *answer.status_mut() = StatusCode::from_u16(status).unwrap();
                let _given = running.finish(answer).await;
                let name = preset.name();
                let state = expected(preset, effect, status);
                match (state, route.begin(&head).await) {
                    (StateName::Committed | StateName::Rejected, Begin::Answer(again)) => {
                        assert_eq!(again.status().as_u16(), status, "{name}, {effect}");
                        assert_eq!(again.body(), &Bytes::from_static(b"body"));
                        let marker = again.headers().keys().any(|name| name.as_str() == "idempotent-replayed");
                        assert!(marker, "{name}, {effect}, {status}: no marker");
                    }
                    (StateName::InDoubt, Begin::Answer(told)) => assert_eq!(told.status(), 409),
                    (StateName::Absent | StateName::Open, Begin::Run(_)) => {}
                    (state, other) => panic!("{name}, {effect}, {status}: {state:?}, {other:?}"),
                }
            }
        }
    }
}

/// A stripe customer must not be shown a made-up 502 for a day: nobody said that.
#[tokio::test]
async fn what_the_gateway_makes_up_follows_the_class_under_every_preset() {
    for preset in Preset::ALL {
        for effect in Effect::ALL {
            let route = Route::new(preset, effect);
            let head = Route::head(1);
            let Begin::Run(running) = route.begin(&head).await else { panic!("not run") };
            running.unknown().await;
            let expected = match (preset, effect.may_rerun()) {
                (Preset::A2a, _) => StateName::Pending,
                (_, true) => StateName::Open,
                (_, false) => StateName::InDoubt,
            };
            assert_eq!(route.left_behind(&head).await, expected, "{}, {effect}", preset.name());
            let Asked::Ask(mut asking) = route.guard.ask(&head, Bytes::new(), &route.caller) else {
                panic!("not asked")
            };
            if expected == StateName::InDoubt {
                assert!(matches!(asking.peek(&head).await, Peek::Answer(told) if told.status() == 409));
            }
        }
    }
}
