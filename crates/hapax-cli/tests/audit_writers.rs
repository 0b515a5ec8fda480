//! One chain of rows has one writer, whoever else has business in the directory.

use crate::support::{
    Daemon, Dir,
    command::{fails, json, ledger, run, said},
    until,
};
use hapax_testkit::Redis;

/// A daemon works on a Redis, and its owner imports an old export beside it, in the same directory: two processes then write
/// into one audit log, each over what the other wrote, and the chain that is left proves a story that did not happen. The
/// import is refused and told what it needs; with a directory of its own it works, and every row is where it was.
#[test]
fn an_import_beside_a_daemon_takes_no_row_of_its_audit_log() {
    let (redis, dir) = (Redis::start(), Dir::new());
    let url = redis.url();
    ledger(dir.path(), "old");
    json(dir.path(), &["export", "old.hapax", "--store", "file:old", "--json"]);
    std::fs::create_dir(dir.path().join("hapax-data")).unwrap();
    std::fs::copy(dir.path().join("old/secret"), dir.path().join("hapax-data/secret")).unwrap();
    let daemon = Daemon::start(&dir, &["--store", &url]);
    let told = fails(dir.path(), &["import", "old.hapax", "--store", &url], 1);
    assert!(told.contains("another process holds") && told.contains("--data"), "{told}");
    let rows = || json(dir.path(), &["audit", "tail", "--json", "--limit", "200"])["count"].as_u64().unwrap();
    let before = rows();
    for key in ["k1", "k2"] {
        json(dir.path(), &["op", "begin", "jobs", key, "--tenant", "acme", "--json"]);
    }
    assert!(rows() > before);
    std::fs::create_dir(dir.path().join("beside")).unwrap();
    std::fs::copy(dir.path().join("old/secret"), dir.path().join("beside/secret")).unwrap();
    let imported = json(dir.path(), &["import", "old.hapax", "--store", &url, "--data", "beside", "--json"]);
    assert_eq!(imported["new"], 1, "{imported}");
    let written = rows();
    daemon.signal("-TERM");
    let mut daemon = daemon;
    until("the daemon to end", || daemon.child.try_wait().unwrap().is_some());
    let verified = json(dir.path(), &["audit", "verify", "hapax-data", "--json"]);
    assert!(verified["whole"] == true && verified["rows"].as_u64().unwrap() > written, "{verified}");
    let beside = run(dir.path(), &["audit", "verify", "beside"]);
    assert!(beside.status.success(), "{}", said(&beside));
}

/// The newest rows that are about this file.
fn rows_about(dir: &Dir, file: &str, data: &str) -> Vec<serde_json::Value> {
    let told = json(dir.path(), &["audit", "tail", "--json", "--limit", "200", "--data", data]);
    told["rows"].as_array().unwrap().iter().filter(|row| row["subject"] == file).cloned().collect()
}

/// All tenants' answers left the machine in a file, and no row said who took them.
#[test]
fn whoever_takes_out_or_puts_in_operations_is_in_the_audit_log() {
    let dir = Dir::new();
    ledger(dir.path(), "old");
    json(dir.path(), &["export", "all.hapax", "--store", "file:old", "--json"]);
    let rows = rows_about(&dir, "all.hapax", "old");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["action"], &rows[0]["detail"]["step"]), (&"operate".into(), &"export".into()), "{rows:?}");
    std::fs::create_dir(dir.path().join("new")).unwrap();
    std::fs::copy(dir.path().join("old/secret"), dir.path().join("new/secret")).unwrap();
    json(dir.path(), &["import", "all.hapax", "--store", "file:new", "--json"]);
    let imported = rows_about(&dir, "all.hapax", "new");
    assert_eq!(imported.len(), 2, "{imported:?}");
    for row in rows.iter().chain(&imported) {
        assert!(row["actor"].as_str().unwrap().starts_with("local (uid "), "{row}");
    }
}

/// Beside a daemon the chain is the daemon's. The export is made, and says that no row tells of it.
#[test]
fn an_export_beside_a_daemon_says_that_no_row_tells_of_it() {
    let (redis, dir) = (Redis::durable_with(&[]), Dir::new());
    let daemon = Daemon::start(&dir, &["--store", &redis.url()]);
    let output = run(dir.path(), &["export", "all.hapax", "--store", &redis.url()]);
    assert!(output.status.success() && said(&output).contains("no row of the audit log"), "{}", said(&output));
    drop(daemon);
    assert!(run(dir.path(), &["audit", "verify"]).status.success());
}
