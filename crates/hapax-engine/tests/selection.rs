//! What of a request the payload guard looks at.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use hapax_core::{Policy, Preset, Verdict, policy::FingerprintRules};
use hapax_engine::{Begun, Engine, Wait};
use hapax_store::MemoryStore;
use serde_json::{Value, json};

fn engine(fields: &[&str], ignore: &[&str]) -> Engine {
    let pointers = |all: &[&str]| all.iter().map(|pointer| Arc::from(*pointer)).collect();
    let standard = Preset::Standard.policy();
    let fingerprint =
        FingerprintRules { fields: pointers(fields), ignore: pointers(ignore), ..standard.fingerprint.clone() };
    let policy = Policy { fingerprint, ..standard };
    Engine::builder(Arc::new(MemoryStore::default())).policy("payments", policy).build().unwrap()
}

/// Whether the second request is taken for the first.
async fn same(engine: &Engine, first: Value, second: Value) -> bool {
    let begin = async |request: &Value| {
        let call = engine.surface("payments").tenant("acme").key("k").fingerprint(request);
        call.wait(Wait::No).begin().await.unwrap()
    };
    let Begun::Execute(ticket) = begin(&first).await else { panic!("the first runs") };
    let same = match begin(&second).await {
        Begun::Told(Verdict::InFlight { .. }) => true,
        Begun::Told(Verdict::Mismatch) => false,
        begun @ (Begun::Execute(_) | Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) => {
            panic!("{begun:?}")
        }
    };
    assert!(ticket.release(engine, hapax_core::command::Release::NoEffect).await.unwrap().is_done());
    same
}

/// Only `ignore` was set, which selected nothing at all: every amount was taken for the first one.
#[tokio::test]
async fn ignoring_a_field_does_not_ignore_the_rest() {
    let engine = engine(&[], &["/trace"]);
    let request = |amount: u32, trace: &str| json!({ "amount": amount, "trace": trace });
    assert!(same(&engine, request(1, "a"), request(1, "b")).await);
    assert!(!same(&engine, request(1, "a"), request(1_000, "a")).await);
}

#[tokio::test]
async fn naming_fields_leaves_out_the_rest() {
    let engine = engine(&["/amount", "/to"], &["/to/label"]);
    let request = |amount: u32, account: &str, label: &str, note: &str| json!({ "amount": amount, "to": { "account": account, "label": label }, "note": note });
    assert!(same(&engine, request(1, "x", "mine", "hello"), request(1, "x", "hers", "there")).await);
    assert!(!same(&engine, request(1, "x", "mine", ""), request(2, "x", "mine", "")).await);
    assert!(!same(&engine, request(1, "x", "mine", ""), request(1, "y", "mine", "")).await);
}

/// A pointer that cannot be read is refused when the policy is loaded, not at each request.
#[test]
fn a_broken_pointer_stops_the_start() {
    let standard = Preset::Standard.policy();
    for pointer in ["amount", "/a~b"] {
        let fingerprint = FingerprintRules { fields: vec![pointer.into()], ..standard.fingerprint.clone() };
        let error = Policy { fingerprint, ..standard.clone() }.check().unwrap_err().to_string();
        assert!(error.contains("fingerprint") && error.contains(pointer), "{error}");
    }
}
