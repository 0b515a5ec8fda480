//! How long a start takes after an unclean end, and what the index costs.
//!
//! `cargo run --release -p hapax-ledger --example start [records]`

use std::{path::PathBuf, process::Command, sync::Arc, time::Instant};

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_ledger::Ledger;
use hapax_store::{Counted, Due, Envelope, Kind, Store};

fn id(number: u64) -> Id {
    let mut bytes = [0; 32];
    for (at, chunk) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *chunk = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * at as u64).to_le_bytes();
    }
    Id(bytes)
}

fn load(path: PathBuf, records: u64) -> Result<(), Box<dyn std::error::Error>> {
    let ledger = Arc::new(Ledger::open(path)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let since = Instant::now();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..2_000)
            .map(|task| {
                let ledger = ledger.clone();
                tokio::spawn(async move {
                    let payload = Bytes::from(vec![7; 1_250]);
                    for number in (task..records).step_by(2_000) {
                        let envelope = Envelope {
                            kind: Kind::OPERATION,
                            surface: Tag([1; 16]),
                            tenant: Tag([(number % 50) as u8; 16]),
                            counted: Counted::Record,
                            lease_end: None,
                            expiry: Some(Due::After(Millis::from_hours(24))),
                            gone: Some(Due::After(Millis::from_hours(25))),
                            in_doubt: false,
                            entries: Vec::new(),
                            payload: payload.clone(),
                        };
                        let _ = ledger.swap(&id(number), Version::NEVER, Some(envelope)).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            let _ = task.await;
        }
    });
    let status = ledger.status();
    println!(
        "loaded {} in {:.1?}: index {:.1} bytes a record, log {:.2} x needed",
        status.slots,
        since.elapsed(),
        status.index_bytes as f64 / status.slots as f64,
        status.log_bytes as f64 / status.needed_bytes as f64
    );
    // An unclean end: nothing is closed.
    std::process::exit(0);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records: u64 = std::env::args().nth(1).and_then(|records| records.parse().ok()).unwrap_or(1_000_000);
    let path = PathBuf::from(std::env::var("HAPAX_BENCH_DIR").unwrap_or_else(|_| "/tmp".into())).join("hapax-start");
    if std::env::var_os("HAPAX_LOAD").is_some() {
        return load(path, records);
    }
    if std::env::var_os("HAPAX_KEEP").is_some() {
        let since = Instant::now();
        let ledger = Ledger::open(&path)?;
        println!("opened in {:.2?}: {:?}", since.elapsed(), ledger.recovered());
        return Ok(());
    }
    let _ = std::fs::remove_dir_all(&path);
    Command::new(std::env::current_exe()?).arg(records.to_string()).env("HAPAX_LOAD", "1").status()?;
    for _ in 0..3 {
        let since = Instant::now();
        let ledger = Ledger::open(&path)?;
        println!("opened in {:.2?}: {:?}", since.elapsed(), ledger.recovered());
    }
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
