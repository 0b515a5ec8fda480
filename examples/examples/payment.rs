//! A payment that many callers ask for, and that is made once.
//!
//! Run it with `cargo run --example payment`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax::{Classify, Effect, Failure, Hapax, OnceError};
use serde::{Deserialize, Serialize};

/// What is asked for. Its fingerprint guards the key.
#[derive(Clone, Serialize)]
struct Charge {
    order: &'static str,
    cents: u64,
}

/// What comes back, to every caller alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    id: String,
    cents: u64,
}

#[derive(Debug, thiserror::Error)]
enum PaymentError {
    #[error("the card was declined")]
    Declined,
    #[error("the provider did not answer")]
    NoAnswer,
}

impl Classify for PaymentError {
    fn classify(&self) -> Failure {
        match self {
            Self::Declined => Failure::Final,
            // The money may have moved. Saying so keeps it from moving twice.
            Self::NoAnswer => Failure::Unknown,
        }
    }
}

/// Stands for a provider. It counts how often money really moved.
#[derive(Default)]
struct Bank {
    charges: AtomicU32,
}

impl Bank {
    async fn charge(&self, key: &str, charge: &Charge) -> Result<Receipt, PaymentError> {
        tokio::time::sleep(Duration::from_millis(50)).await;
        match charge.order {
            "order-declined" => Err(PaymentError::Declined),
            "order-silent" => {
                self.charges.fetch_add(1, SeqCst);
                Err(PaymentError::NoAnswer)
            }
            _ => {
                self.charges.fetch_add(1, SeqCst);
                Ok(Receipt { id: format!("receipt for {key}"), cents: charge.cents })
            }
        }
    }
}

async fn pay(hapax: &Hapax, bank: &Arc<Bank>, charge: Charge) -> Result<(Receipt, bool), OnceError<PaymentError>> {
    let bank = Arc::clone(bank);
    let done = hapax
        .surface("payments")
        .tenant("acme")
        .key(charge.order)
        .fingerprint(&charge)
        .effect(Effect::Irreversible)
        .once(move |ticket| async move { bank.charge(&ticket.downstream_key(), &charge).await })
        .await?;
    Ok((done.value, done.replayed))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::memory();
    let bank = Arc::new(Bank::default());

    println!("100 callers pay order-17 at once:");
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let (hapax, bank) = (hapax.clone(), Arc::clone(&bank));
            tokio::spawn(async move { pay(&hapax, &bank, Charge { order: "order-17", cents: 4_200 }).await })
        })
        .collect();
    let (mut ran, mut replayed) = (0, 0);
    for caller in callers {
        match caller.await?? {
            (_, true) => replayed += 1,
            (receipt, false) => {
                println!("  {}", receipt.id);
                ran += 1;
            }
        }
    }
    println!("  ran {ran}, answered with the same receipt {replayed}, charges {}", bank.charges.load(SeqCst));
    assert_eq!((ran, replayed, bank.charges.load(SeqCst)), (1, 99, 1));

    println!("The same key with another amount:");
    let changed = pay(&hapax, &bank, Charge { order: "order-17", cents: 9_999 }).await;
    println!("  {}", changed.as_ref().expect_err("another request under the same key is refused"));
    assert!(matches!(changed, Err(OnceError::Mismatch)));

    println!("A declined card, asked twice:");
    let first = pay(&hapax, &bank, Charge { order: "order-declined", cents: 1 }).await;
    println!("  {}", first.as_ref().expect_err("it is declined"));
    let second = pay(&hapax, &bank, Charge { order: "order-declined", cents: 1 }).await;
    println!("  {}", second.as_ref().expect_err("and stays so"));
    assert!(matches!(first, Err(OnceError::Failed(PaymentError::Declined))));
    assert!(matches!(second, Err(OnceError::Rejected { .. })));

    println!("A provider that does not answer:");
    let first = pay(&hapax, &bank, Charge { order: "order-silent", cents: 5 }).await;
    println!("  {}", first.as_ref().expect_err("nobody knows"));
    let second = pay(&hapax, &bank, Charge { order: "order-silent", cents: 5 }).await;
    println!("  {}", second.as_ref().expect_err("so nobody tries again"));
    assert!(matches!(second, Err(OnceError::InDoubt { .. })));
    assert_eq!(bank.charges.load(SeqCst), 2, "one for order-17, one that nobody can confirm");
    Ok(())
}
