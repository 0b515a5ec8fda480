//! An export reads what is there, makes nothing of its own, and spoils nothing that lies beside it.

use std::os::unix::fs::PermissionsExt as _;

use crate::support::{
    Dir,
    command::{fails, json, ledger},
};

/// A slip in the name of the directory: a new, empty ledger was made there and exported, and the backup was taken for one.
#[test]
fn an_export_of_a_mistyped_directory_is_refused() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    let told = fails(dir.path(), &["export", "all.hapax", "--store", "file:hapax-dtaa"], 1);
    assert!(told.contains("hapax-dtaa") && told.contains("no ledger"), "{told}");
    std::fs::create_dir(dir.path().join("photos")).unwrap();
    dir.write("photos/one.jpg", "x");
    for words in [&["export", "all.hapax", "--store", "file:photos"][..], &["op", "list", "--data", "photos"]] {
        let told = fails(dir.path(), words, 1);
        assert!(told.contains("photos") && told.contains("no ledger"), "{told}");
    }
    assert_eq!(std::fs::read_dir(dir.path().join("photos")).unwrap().count(), 1, "nothing was made there");
    assert!(!dir.path().join("hapax-dtaa").exists() && !dir.path().join("all.hapax").exists());
    assert_eq!(json(dir.path(), &["export", "all.hapax", "--json"])["operations"], 1);
}

/// `backup.json` was written by way of `backup.part`, whoever's that was; and what every tenant was answered could be read by
/// every user of the machine.
#[test]
fn an_export_spoils_no_other_file_and_is_its_owners_alone() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    let other = dir.write("backup.part", "somebody else's");
    json(dir.path(), &["export", "backup.json", "--json"]);
    assert_eq!(std::fs::read_to_string(other).unwrap(), "somebody else's");
    let mode = std::fs::metadata(dir.path().join("backup.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let told = fails(dir.path(), &["export", "backup.json"], 1);
    assert!(told.contains("not overwritten"), "{told}");
    let mut left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["backup.json", "backup.part", "hapax-data"]);
}
