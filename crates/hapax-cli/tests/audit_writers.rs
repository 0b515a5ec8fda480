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
