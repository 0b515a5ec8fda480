//! A worker vanishes in the middle of a payment. Nobody knows whether it happened, so nobody runs it again, until a
//! probe asks the provider.
//!
//! Run it with `cargo run --example probe_resolves_doubt`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use hapax::{Begun, Body, Doubt, Effect, Found, Hapax, MemoryStore, Millis, Outcome, Recorded, Verdict, Wait};

/// Stands for the provider's own record of what it did, by the key that was forwarded to it.
type Provider = Arc<Mutex<HashMap<String, &'static str>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Provider::default();
    let asked = Arc::clone(&provider);
    let hapax = Hapax::on(Arc::new(MemoryStore::default()))
        .probe("payments", move |doubt: Doubt| {
            let receipt = asked.lock().ok().and_then(|done| done.get(&doubt.downstream_key).copied());
            async move { receipt.map_or(Found::Unknown, |receipt| Found::Applied(Outcome::success(receipt))) }
        })
        .build()?;
    let call = || {
        hapax
            .surface("payments")
            .tenant("acme")
            .key("order-17")
            .effect(Effect::Irreversible)
            .lease(Millis(200))
            .wait(Wait::No)
    };

    // The worker begins, the provider takes the money, and the worker is gone before it can say so.
    let Begun::Execute(ticket) = call().begin().await? else { return Err("the first call runs".into()) };
    provider.lock().map_err(|_| "poisoned")?.insert(ticket.downstream_key(), "receipt 1");
    let id = ticket.id();
    drop(ticket);
    tokio::time::sleep(Duration::from_millis(300)).await;

    let Begun::Told(Verdict::InDoubt { .. }) = call().begin().await? else {
        return Err("its end is unknown".into());
    };
    println!("nobody knows whether {}… happened, and nobody runs it again", &id.to_string()[..12]);

    // That begin has set the probe off. It finds the payment at the provider.
    let mut patience = 50;
    let answer = loop {
        match call().begin().await? {
            Begun::Replay(replayed) => break replayed.replay.answer,
            Begun::Told(Verdict::InDoubt { .. }) if patience > 0 => patience -= 1,
            other => return Err(format!("expected the probe to resolve it, got {other:?}").into()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    match answer {
        Recorded::Whole(Outcome { body: Body::Inline(bytes), .. }) => {
            println!("resolved by the probe: {}", String::from_utf8_lossy(&bytes));
        }
        other => return Err(format!("expected the receipt, got {other:?}").into()),
    }
    Ok(())
}
