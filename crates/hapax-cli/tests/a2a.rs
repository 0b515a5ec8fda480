//! The queue from the command line, as agents without a client library meet it: every command against a running daemon.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::process::{Command, Output};

use crate::support::{Daemon, Dir, until};
use serde_json::{Value, json};

const TASK: &str = "00000000-0000-4000-8000-000000000001";

fn run(dir: &Dir, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command.current_dir(dir.path()).arg("a2a").args(words).arg("--json").output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn a2a(dir: &Dir, words: &[&str]) -> Value {
    let output = run(dir, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", said(&output)))
}

fn id(number: u8) -> String {
    format!("{}{number:02}", &TASK[..TASK.len() - 2])
}

/// From `planner` to `indexer`, under a key.
fn send(dir: &Dir, id: &str, key: &str) -> Value {
    a2a(dir, &["send", "indexer", "index", "--payload", r#"{"page":7}"#, "--id", id, "--key", key, "--as", "planner"])
}

/// What the indexer is handed.
fn lease(dir: &Dir, more: &[&str]) -> Value {
    let list = a2a(dir, &[&["lease", "--as", "indexer"], more].concat());
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    list["items"][0].clone()
}

fn word<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name].as_str().unwrap()
}

fn state(dir: &Dir, id: &str) -> Value {
    a2a(dir, &["status", id])["state"].clone()
}

#[test]
fn a_task_goes_round_and_its_result_is_replayed() {
    let dir = Dir::new();
    let _daemon = Daemon::start(&dir, &[]);
    let sent = send(&dir, TASK, "page-7");
    assert_eq!((&sent["status"], &sent["again"]), (&json!("queued"), &json!(false)), "{sent}");
    let handed = lease(&dir, &["--worker", "indexer-1"]);
    assert_eq!((&handed["task"]["id"], &handed["forward_key"]), (&json!(TASK), &json!("page-7")), "{handed}");
    let token = word(&handed, "token");
    a2a(&dir, &["renew", TASK, token, "--lease-ms", "90000"]);
    let post = ["post", TASK, token, "--result", r#"{"ok":1}"#];
    assert_eq!(a2a(&dir, &post)["already"], false);
    assert_eq!(a2a(&dir, &post)["already"], true, "the same result twice is fine");
    let results = a2a(&dir, &["results", "--as", "planner"]);
    assert_eq!(results["items"][0]["result"], json!({ "status": "completed", "json": { "ok": 1 } }), "{results}");
    a2a(&dir, &["ack", TASK]);
    assert_eq!(a2a(&dir, &["results", "--as", "planner"])["items"], json!([]));
    let again = send(&dir, &id(2), "page-7");
    assert_eq!((&again["status"], &again["result"]["json"]), (&json!("replayed"), &json!({ "ok": 1 })), "{again}");
}

#[test]
fn a_task_is_given_back_requeued_and_given_up() {
    let dir = Dir::new();
    let _daemon = Daemon::start(&dir, &[]);
    send(&dir, TASK, "page-7");
    let first = lease(&dir, &[]);
    a2a(&dir, &["release", TASK, word(&first, "token")]);
    assert_eq!(state(&dir, TASK), "queued");
    let second = lease(&dir, &[]);
    assert_eq!(second["attempt"], 1, "what was given back does not count");
    let repair = |lease: &Value, more: &[&str]| {
        let words = ["repair", TASK, more[0], "--lease-id", word(lease, "lease_id"), "--reason", "its machine is gone"];
        a2a(&dir, &[&words, &more[1..]].concat())
    };
    let mended = repair(&second, &["requeue", "--posture", "idempotent"]);
    assert_eq!((&mended["state"], &mended["repairs"][0]["repair"]), (&json!("queued"), &json!("requeue")), "{mended}");
    let late = run(&dir, &["post", TASK, word(&second, "token"), "--text", "late"]);
    assert!(!late.status.success() && said(&late).contains("HX0114"), "{}", said(&late));
    let third = lease(&dir, &[]);
    assert_eq!(third["attempt"], 2);
    let ended = repair(&third, &["force_error", "--message", "given up"]);
    assert_eq!(ended["state"], "result_pending", "{ended}");
    let results = a2a(&dir, &["results", "--as", "planner"]);
    assert_eq!(results["items"][0]["result"], json!({ "status": "failed", "text": "given up" }), "{results}");
    let status = a2a(&dir, &["status", "--state", "result_pending", "--peer", "indexer"]);
    assert_eq!(status["items"][0]["task"]["id"], TASK, "{status}");
    assert_eq!(status["items"][0]["evidence"].as_array().unwrap().len(), 1, "the late result is kept: {status}");
}

#[test]
fn the_retry_gate_changes_nothing_unless_it_is_enabled() {
    let dir = Dir::new();
    let _daemon = Daemon::start(&dir, &[]);
    send(&dir, TASK, "page-7");
    let handed = lease(&dir, &["--lease-ms", "1"]);
    let retry = ["retry-stale", "--min-lease-age-ms", "1"];
    let mut preview = Value::Null;
    until("the lease to lapse", || {
        preview = a2a(&dir, &retry);
        preview["requeued"] != json!([])
    });
    assert_eq!((&preview["enabled"], &preview["requeued"][0]["task"]), (&json!(false), &json!(TASK)), "{preview}");
    let status = a2a(&dir, &["status", TASK]);
    assert_eq!((&status["state"], &status["lease_id"]), (&json!("stale"), &handed["lease_id"]), "{status}");
    assert_eq!(a2a(&dir, &["lease", "--as", "indexer"])["items"], json!([]), "nobody else is handed it");
    let real = a2a(&dir, &[&retry[..], &["--enable"]].concat());
    assert_eq!((&real["enabled"], &real["requeued"][0]["task"]), (&json!(true), &json!(TASK)), "{real}");
    assert_eq!(state(&dir, TASK), "queued");
}

/// Compaction keeps the answer, and a log carries what is left into another directory.
#[test]
fn what_is_compacted_and_exported_is_known_where_it_is_imported() {
    let (dir, other) = (Dir::new(), Dir::new());
    let _daemons = (Daemon::start(&dir, &[]), Daemon::start(&other, &[]));
    send(&dir, TASK, "page-7");
    let handed = lease(&dir, &[]);
    a2a(&dir, &["post", TASK, word(&handed, "token"), "--text", "indexed"]);
    assert_eq!(a2a(&dir, &["compact"])["compacted"], 0, "nobody has acknowledged it");
    a2a(&dir, &["ack", TASK]);
    send(&dir, &id(2), "page-8");
    let log = dir.path().join("queue.jsonl");
    let log = log.to_str().unwrap();
    let written = a2a(&dir, &["export", log]);
    assert!(written["lines"].as_u64().unwrap() > 0, "{written}");
    assert_eq!(a2a(&dir, &["compact"])["compacted"], 1);
    assert_eq!(send(&dir, TASK, "page-7")["status"], "already_resolved");
    assert_eq!(send(&dir, &id(3), "page-7")["status"], "replayed", "its answer outlives it");
    let imported = a2a(&other, &["import", log]);
    assert_eq!((&imported["known"], imported.get("torn_line")), (&json!(0), None), "{imported}");
    assert!(imported["tasks"].as_u64().unwrap() >= 1, "{imported}");
    assert_eq!(lease(&other, &[])["task"]["id"], json!(id(2)), "what waited there waits here");
    assert_eq!(send(&other, &id(4), "page-7")["status"], "replayed", "what was done there was done");
    let twice = a2a(&other, &["import", log]);
    assert_eq!(twice["tasks"], 0, "{twice}");
}
