//! The self-measurement: it ends, it says what it is at, and it leaves nothing behind.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{process::Stdio, time::Duration};

use crate::support::{
    Dir,
    command::{command, said},
    until, within,
};

/// Nothing in a store in memory ever waits, so that no task made room for the clock that was to end them all.
#[test]
fn a_bench_of_a_store_in_memory_ends() {
    let dir = Dir::new();
    let mut child = command(dir.path(), &["bench", "--store", "memory:", "--seconds", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut left = Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && !left.is_zero() {
        std::thread::sleep(Duration::from_millis(100));
        left = left.saturating_sub(Duration::from_millis(100));
    }
    let _ = child.kill();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", said(&ended));
    let text = String::from_utf8_lossy(&ended.stdout);
    let told: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    for case in ["pairs@1", "pairs@16", "pairs@64", "replays@1"] {
        assert!(told["cases"][case]["per_second"].as_f64().unwrap() > 0.0, "{told}");
        assert_eq!(told["cases"][case]["failed"], 0, "{told}");
    }
    assert!(String::from_utf8_lossy(&ended.stderr).contains("64 at once"), "it says what it is at: {}", said(&ended));
}

/// Ctrl-C after a second: a ledger of some hundred megabytes would stay beside the user's own, under a name that begins with a
/// dot.
#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    for signal in ["-INT", "-TERM"] {
        let dir = Dir::new();
        let mut child = command(dir.path(), &["bench", "--seconds", "60"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let left = || std::fs::read_dir(dir.path()).unwrap().count();
        until("the scratch ledger to be there", || left() == 1);
        std::thread::sleep(Duration::from_millis(300));
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        within(Duration::from_secs(20), "it to end", || child.try_wait().unwrap().is_some());
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), left()), (Some(1), 0), "{signal}: {}", said(&ended));
        assert!(said(&ended).contains("interrupted"), "{}", said(&ended));
    }
}
