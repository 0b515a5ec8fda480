//! What lies in a data directory: whose it is, and whether all of it is there.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::support::{
    Dir, Reply, Start, Upstream,
    command::{json, run, said},
    post,
};

/// A data directory in which two large answers were recorded.
fn filled() -> Dir {
    let upstream = Upstream::new(|_, _, _| Reply::json(201, &format!("\"{}\"", "x".repeat(200_000))));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for key in ["k1", "k2"] {
        assert_eq!(post(gateway.address, "/pay", key, "{}").status, 201);
    }
    gateway.kill();
    dir
}

/// Answers that were recorded are for nobody else on the machine, wherever in the directory they lie.
#[test]
fn what_was_answered_is_its_owners_alone() {
    fn walk(path: &Path, seen: &mut usize) {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o077;
        assert_eq!(mode, 0, "{} can be read by others", path.display());
        *seen += 1;
        // Into the socket's own directory nobody else can look, whatever lies there.
        if path.is_dir() && path.file_name().is_some_and(|name| name != "admin") {
            for entry in fs::read_dir(path).unwrap() {
                walk(&entry.unwrap().path(), seen);
            }
        }
    }
    let (dir, mut seen) = (filled(), 0);
    walk(&dir.path().join("hapax-data"), &mut seen);
    assert!(seen > 5, "{seen}");
}

/// A body that is gone is an answer that cannot be given again: the check says so, and whose it was.
#[test]
fn a_check_misses_a_body_that_is_gone() {
    let dir = filled();
    let bodies = dir.path().join("hapax-data/bodies");
    let names = || fs::read_dir(&bodies).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(names().len(), 2);
    let whole = run(dir.path(), &["ledger", "check", "hapax-data"]);
    assert!(whole.status.success(), "{}", said(&whole));
    let gone = names().remove(0);
    fs::remove_file(&gone).unwrap();
    let missed = run(dir.path(), &["ledger", "check", "hapax-data"]);
    assert!(!missed.status.success(), "{}", said(&missed));
    let items = json(dir.path(), &["op", "list", "--json"]);
    let told = said(&missed);
    assert!(told.contains(gone.file_name().unwrap().to_str().unwrap()) && told.contains("missing"), "{told}");
    let named = |item: &&serde_json::Value| told.contains(item["operation"].as_str().unwrap());
    assert_eq!(items["items"].as_array().unwrap().iter().filter(named).count(), 1, "{told}");
}
