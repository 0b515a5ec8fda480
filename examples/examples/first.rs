//! The program of the README: run it twice, and the second time nothing is charged.
//!
//! Run it with `cargo run --example first`; it keeps its ledger in `hapax-data`.

use hapax::{Classify, Effect, Failure, Hapax};

#[derive(serde::Serialize, Clone)]
struct Charge {
    order: String,
    cents: u64,
}

#[derive(Debug)]
struct Declined;
impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the card was declined")
    }
}
impl Classify for Declined {
    fn classify(&self) -> Failure {
        Failure::Final
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::open("hapax-data")?;
    let charge = Charge { order: "order-17".into(), cents: 4_200 };
    let done = hapax
        .surface("payments")
        .tenant("acme")
        .key(charge.order.clone())
        .fingerprint(&charge)
        .effect(Effect::Irreversible)
        .once(move |ticket| async move {
            println!("charging {} under {}", charge.cents, ticket.downstream_key());
            Ok::<String, Declined>("receipt 1".into())
        })
        .await
        .map_err(|error| error.to_string())?;
    println!("{} (replayed: {})", done.value, done.replayed);
    Ok(())
}
