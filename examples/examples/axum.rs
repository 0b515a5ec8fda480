//! One line in an axum stack: every POST with an `Idempotency-Key` happens once.
//!
//! Run it with `cargo run --example axum`; it serves on a free port, asks itself, and ends.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use axum::{
    Extension, Json, Router,
    extract::{MatchedPath, State},
    http::{StatusCode, request::Parts},
    routing::post,
};
use hapax::{
    Effect, Hapax, Layer,
    http::{Caller, Operation, Rules},
    identity::{Surface, Tenant},
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    charge: u64,
    cents: u64,
    passed_on: String,
}

async fn charge(
    State(charges): State<Arc<AtomicU64>>,
    Extension(operation): Extension<Operation>,
    Json(order): Json<Order>,
) -> (StatusCode, Json<Receipt>) {
    // The provider gets a key of its own, the same for every attempt.
    let passed_on = operation.0.downstream_key();
    let charge = charges.fetch_add(1, SeqCst) + 1;
    (StatusCode::CREATED, Json(Receipt { charge, cents: order.cents, passed_on }))
}

/// Whose request it is, and which route: from the credential and the router, never from the body.
fn caller(request: &Parts) -> Option<Caller> {
    let token = request.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    let caller = Caller::of(Tenant::new(token).ok()?);
    Some(match request.extensions.get::<MatchedPath>() {
        Some(route) => caller.endpoint(route.as_str()),
        None => caller,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::memory();
    let rules = Rules::on(Surface::new("http")?).effect(Effect::Irreversible).require_key();
    let layer = Layer::new(hapax.clone(), rules, caller)?;
    let charges = Arc::new(AtomicU64::new(0));
    let app = Router::new().route("/charges", post(charge)).layer(layer).with_state(Arc::clone(&charges));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });

    for json in [r#"{"cents":4200}"#, r#"{ "cents": 4200 }"#, r#"{"cents":9900}"#] {
        let (status, replayed, body) = hapax_examples::post(address, "/charges", "order-17", json).await?;
        println!("{status} {body} {}", if replayed { "(given again)" } else { "" });
    }
    println!("charges: {}", charges.load(SeqCst));
    assert_eq!(charges.load(SeqCst), 1);
    Ok(())
}
