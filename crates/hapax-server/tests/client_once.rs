//! The client's `once` against a real daemon: what runs, what is recorded, and what is said when it was not.

use std::{convert::Infallible, time::Duration};

use crate::support::{Setup, ask};
use hapax_client::{Begun, Client, Effect, OnceError, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

async fn explained(client: &Client, operation: &str) -> Value {
    ask(client, "GET", &format!("/v1/operations/{operation}"), Value::Null).await.1
}

/// Work that takes longer than its lease keeps it: nobody else gets to run it meanwhile.
#[tokio::test]
async fn a_lease_is_renewed_while_the_closure_runs() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let call = client.operation("payments", "k").effect(Effect::Irreversible).lease(Duration::from_secs(6));
    let looking = client.clone();
    let done = call.clone().once(|ticket| async move {
        let first = explained(&looking, &ticket.operation).await["version"].clone();
        loop {
            let now = explained(&looking, &ticket.operation).await;
            assert_eq!(now["state"], "pending", "{now}");
            if now["version"] != first {
                return Ok::<_, Infallible>(7);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let done = tokio::time::timeout(Duration::from_secs(60), done).await.expect("it was never renewed").unwrap();
    assert_eq!((done.value, done.replayed), (7, false));
    let again = call.once(|_| async { panic!("it was done") as Result<i32, Infallible> }).await.unwrap();
    assert_eq!((again.value, again.replayed), (7, true));
}

#[derive(Debug, Deserialize)]
struct NotJson;

impl Serialize for NotJson {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no words for it"))
    }
}

/// The effect ran and its value cannot be written: that is not a failure without an effect, and nothing runs again.
#[tokio::test]
async fn a_value_that_cannot_be_written_is_said_to_be_not_recorded() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let call = client.operation("payments", "k").effect(Effect::Irreversible);
    let error = call.clone().once(|_| async { Ok::<_, Infallible>(NotJson) }).await.unwrap_err();
    assert!(matches!(&error, OnceError::NotRecorded(_)) && error.to_string().contains("no words for it"), "{error}");
    let error = call.begin().await.unwrap_err();
    assert!(matches!(error, hapax_client::Error::InDoubt(_)), "{error}");
}

/// Somebody decided meanwhile: the one who ran it is told that its outcome was not taken.
#[tokio::test]
async fn an_outcome_that_was_overtaken_is_said_to_be_not_recorded() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let operator = client.clone();
    let call = client.operation("payments", "k").effect(Effect::Irreversible);
    let error = call.once(|ticket| async move {
        let version = explained(&operator, &ticket.operation).await["version"].clone();
        let decision = json!({ "version": version, "resolution": "rejected", "reason": "the bank says no" });
        let path = format!("/v1/operations/{}:resolve", ticket.operation);
        assert_eq!(ask(&operator, "POST", &path, decision).await.0, 200);
        Ok::<_, Infallible>("paid".to_owned())
    });
    let error = error.await.unwrap_err();
    assert!(matches!(error, OnceError::NotRecorded(_)), "{error}");
}

/// A caller that waits for another's attempt is told when that fails, and runs nothing itself.
#[tokio::test]
async fn a_failure_that_was_waited_for_is_told() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let call = client.operation("payments", "k").effect(Effect::Idempotent).wait(Duration::from_secs(50));
    let Begun::Execute(ticket) = call.clone().begin().await.unwrap() else { panic!("it is new") };
    let waiting = tokio::spawn(call.once(|_| async { panic!("it must not run") as Result<i32, Infallible> }));
    while daemon.engine.waiting() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    client.fail(&ticket, &Outcome::default()).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, OnceError::JoinedFailure(_)), "{error}");
}

/// The closure's own error comes back, and leaves a doubt where a second run could do harm.
#[tokio::test]
async fn an_error_of_the_closures_leaves_a_doubt() {
    let daemon = Setup::default().start().await;
    let client = daemon.client();
    let call = client.operation("payments", "k").effect(Effect::Irreversible);
    let error = call.clone().once(|_| async { Err::<i32, _>("the line went dead") }).await.unwrap_err();
    assert!(matches!(error, OnceError::Failed("the line went dead")), "{error}");
    assert!(matches!(call.begin().await.unwrap_err(), hapax_client::Error::InDoubt(_)));
}
