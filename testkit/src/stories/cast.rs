//! What stories are told with.

use std::{future::Future, sync::Arc, time::Duration};

use hapax_core::{Effect, Id, Millis, Outcome, Policy, Preset, StateName};
use hapax_engine::{
    Begun, Call, Classified, Engine, EngineBuilder, OnceDone, OnceError, SeededEntropy, Settings, Ticket, Turn,
};

pub fn settings() -> Settings {
    Settings { owner: "test".into(), ..Settings::default() }
}

pub fn seeded(builder: EngineBuilder, seed: u64) -> Engine {
    builder.entropy(Arc::new(SeededEntropy::new(seed))).build().unwrap()
}

pub fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Preset::Standard.policy();
    change(&mut policy);
    policy
}

/// A call of one tenant on the surface that most tests use.
pub fn call(engine: &Engine, key: &str) -> Call {
    engine.surface("pay").tenant("acme").key(key)
}

pub fn id(engine: &Engine, key: &str) -> Id {
    call(engine, key).id().unwrap()
}

pub fn ticket(begun: Begun) -> Ticket {
    match begun {
        Begun::Execute(ticket) => ticket,
        Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_) => panic!("expected a ticket, got {begun:?}"),
    }
}

pub async fn begin(call: Call) -> Ticket {
    ticket(call.begin().await.unwrap())
}

pub fn done(text: &'static str) -> Outcome {
    Outcome::success(text)
}

pub fn refused(text: &'static str) -> Outcome {
    Outcome::refusal(text)
}

pub fn retryable(text: &'static str) -> Outcome {
    Outcome::retryable(text)
}

pub type Failed = Classified<String>;
pub type Given<T> = Result<OnceDone<T>, OnceError<Failed>>;

/// Runs it and gives this value.
pub async fn pay(call: Call, value: &'static str) -> Given<String> {
    call.once(move |_| async move { Ok::<_, Failed>(value.to_owned()) }).await
}

/// Must not run.
pub async fn never(call: Call) -> Given<String> {
    call.once(|_| async { panic!("it ran although it must not") }).await
}

pub async fn state(engine: &Engine, id: &Id) -> StateName {
    engine.explain(id).await.unwrap().state
}

pub async fn sleep(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

pub const UNSAFE: Effect = Effect::Unsafe;
pub const SECOND: Millis = Millis::from_secs(1);

/// Fails a test instead of letting it hang.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), what).await.expect("it hangs")
}

/// A call of that tenant in a turn.
pub fn member(engine: &Engine, key: &str, turn: &Turn, effect: Effect) -> Call {
    call(engine, key).effect(effect).in_turn(turn)
}
