//! The front door: `Hapax::open` keeps its promises over a restart.

#![cfg(feature = "ledger")]

use std::path::PathBuf;

use hapax::{Effect, Hapax, OnceError};

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("hapax-open-{name}-{}", std::process::id()));
    let _fresh = std::fs::remove_dir_all(&path);
    path
}

async fn charge(hapax: &Hapax, value: u32) -> Result<(u32, bool), OnceError<std::io::Error>> {
    let call = hapax.surface("payments").tenant("acme").key("order-17").effect(Effect::Irreversible);
    let done = call.once(move |_| async move { Ok::<_, std::io::Error>(value) }).await?;
    Ok((done.value, done.replayed))
}

/// The process restarts between a payment and its retry; the retry must not pay again.
#[tokio::test]
async fn a_restart_does_not_forget_a_payment() {
    let path = scratch("restart");
    {
        let hapax = Hapax::open(&path).unwrap();
        assert_eq!(charge(&hapax, 1).await.unwrap(), (1, false));
    }
    let hapax = Hapax::open(&path).unwrap();
    assert_eq!(charge(&hapax, 2).await.unwrap(), (1, true), "the first answer, not a second payment");
    drop(hapax);
    std::fs::remove_dir_all(&path).unwrap();
}

/// A directory that cannot be used is named, with what to do about it.
#[tokio::test]
async fn a_place_that_cannot_hold_a_ledger_is_named() {
    let path = scratch("file");
    std::fs::write(&path, "not a directory").unwrap();
    let error = Hapax::open(&path).unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn a_store_is_chosen_by_its_url_and_no_error_repeats_it() {
    assert_eq!(hapax::open_store("memory:").await.unwrap().name(), "memory");
    for url in [
        "mysql://u:hunter2@h/",
        "hunter2",
        "redis://:hunter2@127.0.0.1:1/",
        "postgres://u:hunter2@127.0.0.1:1/d",
        "nats://u:hunter2@127.0.0.1:1/b",
        "nats://hunter2@127.0.0.1:1/not a bucket",
    ] {
        let error = hapax::open_store(url).await.expect_err("none of these can be opened");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
