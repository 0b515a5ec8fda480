//! The first thing a newcomer runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

use std::process::Command;

use serde_json::Value;

/// With a crowd that retries and a gateway that is killed, nobody pays twice; without Hapax somebody does, or the demo
/// would show nothing.
#[test]
fn the_demo_charges_nobody_twice_behind_hapax_and_somebody_without() {
    let output = Command::new(env!("CARGO_BIN_EXE_hapax")).args(["demo", "--orders", "48", "--json"]).output().unwrap();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wrong}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let twice = "orders charged more than once";
    assert_eq!(told["with"][twice], 0, "{told}");
    assert!(told["without"][twice].as_u64().unwrap() > 0, "{told}");
    assert!(told["with"]["answers replayed"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(told["with"]["customers left without an answer"], 0, "{told}");
}
