//! What a reload puts in force, and what it cannot.

use crate::support::{
    Daemon, Dir,
    command::{json, run, said},
    until,
};

/// A reload puts keys, policies and routes in force. What it cannot is named, and not said to be done.
#[test]
fn a_reload_says_what_needs_a_restart() {
    let dir = Dir::new();
    dir.write("hapax.toml", "");
    let daemon = Daemon::start(&dir, &[]);
    dir.write("hapax.toml", "[server]\nreaders = 7\nlog = \"warn\"\n");
    let reloaded = run(dir.path(), &["reload"]);
    assert!(reloaded.status.success(), "{}", said(&reloaded));
    let is_named = |told: String| told.contains("`log`, `readers`") && told.contains("restart");
    assert!(is_named(said(&reloaded)), "{}", said(&reloaded));
    until("the daemon to say so", || is_named(daemon.said().join("\n")));
    assert_eq!(json(dir.path(), &["reload", "--json"])["waits_for_restart"], serde_json::json!(["log", "readers"]));
    // Whoever asks from elsewhere is told as well.
    let admin = daemon.url("admin").unwrap();
    let elsewhere = Dir::new();
    let told = json(elsewhere.path(), &["reload", "--url", &admin, "--json"]);
    assert_eq!(told["waits_for_restart"], serde_json::json!(["log", "readers"]));
    dir.write("hapax.toml", "");
    let reloaded = run(dir.path(), &["reload"]);
    assert!(!said(&reloaded).contains("restart"), "{}", said(&reloaded));
}
