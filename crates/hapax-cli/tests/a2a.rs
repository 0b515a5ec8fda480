//! The queue from the command line, as agents without a client library meet it: every command against a running daemon.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output},
};

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

/// A log longer than what a daemon takes at once was written, and could not be read back.
#[test]
fn a_long_log_is_read_back() {
    let (dir, other) = (Dir::new(), Dir::new());
    let _daemons = (Daemon::start(&dir, &[]), Daemon::start(&other, &[]));
    let long = format!("\"{}\"", "x".repeat(100_000));
    for number in 1..=25 {
        a2a(&dir, &["send", "indexer", "index", "--payload", &long, "--id", &id(number), "--as", "planner"]);
    }
    let log = dir.path().join("queue.jsonl");
    assert_eq!(a2a(&dir, &["export", log.to_str().unwrap()])["lines"], 25);
    assert!(std::fs::metadata(&log).unwrap().len() > 2_400_000);
    let imported = a2a(&other, &["import", log.to_str().unwrap()]);
    assert_eq!((&imported["tasks"], &imported["known"]), (&json!(25), &json!(0)), "{imported}");
    let again = a2a(&dir, &["export", dir.path().join("again.jsonl").to_str().unwrap()]);
    assert_eq!(again["lines"], 25);
}

/// What agents told each other is for nobody else on the machine, and no export takes another file's place.
#[test]
fn an_exported_log_is_its_owners_alone_and_overwrites_nothing() {
    let dir = Dir::new();
    let _daemon = Daemon::start(&dir, &[]);
    send(&dir, TASK, "page-7");
    let log = dir.path().join("queue.jsonl");
    a2a(&dir, &["export", log.to_str().unwrap()]);
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    dir.write("notes.txt", "mine");
    let refused = run(&dir, &["export", "notes.txt"]);
    assert!(!refused.status.success() && said(&refused).contains("not overwritten"), "{}", said(&refused));
    assert_eq!(std::fs::read_to_string(dir.path().join("notes.txt")).unwrap(), "mine");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");
}

fn audit(dir: &Dir) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .current_dir(dir.path())
        .args(["audit", "tail", "--limit", "200", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    told["rows"].as_array().or(told.as_array()).unwrap_or_else(|| panic!("{told}")).clone()
}

fn scans(dir: &Dir) -> Vec<Value> {
    audit(dir).into_iter().filter(|row| row["action"] == "a2a_auto_retry_scheduler_scan").collect()
}

/// The scheduler is switched on and has no capability. It changes nothing, and the log says why; with the capability it acts,
/// and each requeue is a row of its own. Set in the file, it is the same.
#[test]
fn the_scheduler_needs_its_capability() {
    let dir = Dir::new();
    let on = [
        ("HAPAX_A2A_AUTO_RETRY_SCHEDULER", "1"),
        ("HAPAX_A2A_AUTO_RETRY_INTERVAL_MS", "50"),
        ("COVENANT_A2A_AUTO_RETRY_MIN_LEASE_AGE_MS", "0"),
    ];
    let daemon = Daemon::start_with(&dir, &[], &on);
    send(&dir, TASK, "k");
    lease(&dir, &["--lease-ms", "1"]);
    until("two passes", || scans(&dir).len() >= 2);
    let last = scans(&dir).pop().unwrap();
    assert!(last["detail"]["error"].as_str().unwrap().contains("a2a.repair.requeue"), "{last}");
    assert_eq!((state(&dir, TASK), &last["detail"]["requeued"]), (json!("stale"), &json!(0)));
    drop(daemon);

    let file = "[a2a]\nauto_retry_scheduler = true\nauto_retry_interval_ms = 50\nauto_retry_min_lease_age_ms = 0\n\
                auto_retry_capabilities = \"a2a.repair.requeue\"\nlease = \"7s\"\n";
    std::fs::write(dir.path().join("hapax.toml"), file).unwrap();
    let _daemon = Daemon::start(&dir, &[]);
    until("the requeue", || state(&dir, TASK) == "queued");
    let rows = audit(&dir);
    let requeues: Vec<_> = rows.iter().filter(|row| row["detail"]["repair"] == "auto_requeue").collect();
    assert_eq!((requeues.len(), &requeues[0]["subject"]), (1, &json!(TASK)), "{requeues:?}");
    assert_eq!(lease(&dir, &[])["lease_ms"], 7_000, "the file's");
}

/// A value that cannot be used stops the start and is named, whatever names it: nobody finds out months later that the
/// scheduler never ran.
#[test]
fn a_slip_about_the_queue_stops_the_start() {
    for (name, value) in [
        ("HAPAX_A2A_AUTO_RETRY_CAPABILITIES", "a2a.repair.requeu"),
        ("HAPAX_A2A_AUTO_RETRY_INTERVAL_MS", "0"),
        ("COVENANT_A2A_AUTO_RETRY_SCAN_LIMIT", "many"),
        ("COVENANT_A2A_AUTO_RETRY_SCHEDULR", "1"),
        ("HAPAX_A2A_MAX_TASK", "5"),
        ("HAPAX_A2A_MAX_TASKS_PER_TENANT", "0"),
        ("HAPAX_A2A_LEASE", "60"),
        ("HAPAX_A2A_EXPIRE_OVERDUE", "maybe"),
    ] {
        let dir = Dir::new();
        let output = Daemon::command(&dir, &[]).env(name, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let short = name.trim_start_matches("HAPAX_").to_lowercase();
        assert!(!output.status.success() && (text.contains(name) || text.contains(&short)), "{name}: {text}");
    }
    let dir = Dir::new();
    std::fs::write(dir.path().join("hapax.toml"), "[a2a]\nmax_taks = 5\n").unwrap();
    let output = Daemon::command(&dir, &[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("did you mean `max_tasks`"), "{text}");
}

/// What is in force for the queue is shown with where it came from, and holds.
#[test]
fn the_queue_is_set_by_file_and_environment() {
    let dir = Dir::new();
    std::fs::write(dir.path().join("hapax.toml"), "[a2a]\nmax_tasks = 20\nexpire_overdue = true\n").unwrap();
    let shown = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .current_dir(dir.path())
        .env("HAPAX_A2A_MAX_TASKS_PER_TENANT", "3")
        .env("COVENANT_A2A_AUTO_RETRY_SCAN_LIMIT", "7")
        .args(["config", "show", "--json"])
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("{}", said(&shown)));
    assert_eq!(shown["a2a_max_tasks"], json!({ "value": "20", "from": "file, hapax.toml, [a2a]" }), "{shown}");
    assert_eq!(shown["a2a_max_tasks_per_tenant"]["value"], "3");
    assert_eq!(shown["a2a_auto_retry_scan_limit"]["value"], "7");
    let _daemon = Daemon::start_with(&dir, &[], &[("HAPAX_A2A_MAX_TASKS_PER_TENANT", "3")]);
    for number in 1..=3 {
        send(&dir, &id(number), &format!("k{number}"));
    }
    let full = run(&dir, &["send", "indexer", "index", "--as", "planner"]);
    assert!(!full.status.success() && said(&full).contains("HX0118"), "{}", said(&full));
}

/// A policy under which leased tasks run again by themselves comes with a HUP: all stays as it was, and it is said.
#[test]
fn a_hup_with_a_policy_that_is_unfit_for_the_queue_changes_nothing() {
    let dir = Dir::new();
    std::fs::write(dir.path().join("hapax.toml"), "[surface.a2a]\nsuccess = \"30d\"\n").unwrap();
    let daemon = Daemon::start(&dir, &[]);
    send(&dir, TASK, "k");
    std::fs::write(dir.path().join("hapax.toml"), "[surface.a2a]\non_lapse = { idempotent = \"open\" }\n").unwrap();
    daemon.signal("-HUP");
    until("the refusal", || daemon.said().iter().any(|line| line.contains("not reloaded") && line.contains("HX0119")));
    lease(&dir, &["--lease-ms", "1"]);
    until("the lapse", || state(&dir, TASK) == "stale");
}

/// The operation under a task's key is named by sender, recipient and kind as well, and none of them could be said.
#[test]
fn the_operation_behind_a_key_is_explained() {
    let dir = Dir::new();
    let _daemon = Daemon::start(&dir, &[]);
    send(&dir, TASK, "page-7");
    let handed = lease(&dir, &[]);
    a2a(&dir, &["post", TASK, word(&handed, "token"), "--text", "indexed"]);
    let output = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .current_dir(dir.path())
        .args(["explain", "page-7", "--surface", "a2a", "--tenant", "default", "--json"])
        .args(["--scope", "sender=planner", "--scope", "recipient=indexer", "--scope", "kind=index"])
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert_eq!((&told["state"], &told["surface"]), (&json!("committed"), &json!("a2a")), "{told}");
}
