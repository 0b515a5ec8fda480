//! `--json` is honoured wherever it is taken.

use crate::support::{
    Dir,
    command::{json, ledger, run, said},
};

/// For programs: also what is only looked at.
#[test]
fn a_check_and_a_new_key_speak_json_where_it_is_asked_for() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    json(dir.path(), &["export", "all.hapax", "--json"]);
    let checked = json(dir.path(), &["import", "all.hapax", "--check", "--json"]);
    assert_eq!((&checked["whole"], &checked["operations"]), (&true.into(), &1.into()), "{checked}");
    let made = run(dir.path(), &["key", "new", "ops", "--tenant", "acme", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{}", said(&made)));
    assert_eq!((&told["entry"]["name"], &told["entry"]["tenant"]), (&"ops".into(), &"acme".into()), "{told}");
    assert!(told["key"].is_string() && told["entry"]["hash"].as_str().unwrap().starts_with("sha256:"), "{told}");
}
