//! Jobs are submitted by a client that numbers them, over a line that loses answers; client and server restart.
//!
//! Run it with `cargo run --example job_submit`; it keeps its files in a directory of its own and removes it.

use std::{
    path::Path,
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};

use hapax::{Classified, Hapax, JobError, KeyGenerator, OnceError};

type Failed = Classified<String>;

async fn submit(
    hapax: &Hapax,
    key: &str,
    job: &'static str,
    accepted: &Arc<AtomicU32>,
) -> Result<(String, bool), JobError<Failed>> {
    let jobs = hapax.jobs("acme").map_err(OnceError::from)?;
    let accepted = Arc::clone(accepted);
    let done = jobs
        .submit(key, job, move |_| async move {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            if job == "to nowhere" {
                return Err(Failed::lasting("there is no such queue".to_owned()));
            }
            Ok(format!("job {}", accepted.fetch_add(1, SeqCst) + 1))
        })
        .await?;
    Ok((done.value, done.replayed))
}

fn client(directory: &Path) -> Result<KeyGenerator, hapax::KeyGeneratorError> {
    KeyGenerator::persistent(directory.join("client.keys"), "worker-7.dc1:4000")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("hapax-jobs-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let accepted = Arc::new(AtomicU32::new(0));
    let keys = client(&directory)?;
    let first = keys.next_client_key()?.to_string();
    {
        let hapax = Hapax::open(directory.join("ledger"))?;
        println!("A client submits {first}, hears nothing, and sends it five times more while it runs:");
        let sends: Vec<_> = (0..6)
            .map(|_| {
                let (hapax, key, accepted) = (hapax.clone(), first.clone(), Arc::clone(&accepted));
                tokio::spawn(async move { submit(&hapax, &key, "report", &accepted).await })
            })
            .collect();
        for send in sends {
            let (job, replayed) = send.await??;
            println!("  {job}{}", if replayed { " (the same answer again)" } else { "" });
        }
        assert_eq!(accepted.load(SeqCst), 1);
        println!("One that cannot be accepted is answered the same, too:");
        let bad = keys.next_client_key()?.to_string();
        for _ in 0..2 {
            println!("  {}", submit(&hapax, &bad, "to nowhere", &accepted).await.expect_err("rejected"));
        }
    }
    println!("Client and server restart. The client has forgotten nothing that counts:");
    drop(keys);
    let (hapax, keys) = (Hapax::open(directory.join("ledger"))?, client(&directory)?);
    let (job, replayed) = submit(&hapax, &first, "report", &accepted).await?;
    println!("  {first} again: {job} (replayed: {replayed})");
    assert!(replayed);
    let next = keys.next_client_key()?.to_string();
    println!("  its next key: {next}");
    let (job, _) = submit(&hapax, &next, "report", &accepted).await?;
    println!("  {job}");
    assert_eq!((accepted.load(SeqCst), next == first), (2, false));
    drop((hapax, keys));
    std::fs::remove_dir_all(directory)?;
    Ok(())
}
