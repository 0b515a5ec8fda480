//! Errors name the thing, the rule and the next step.

use crate::support::{
    Dir,
    command::{fails, ledger},
};

/// Each names the thing, the rule and the next step.
#[test]
fn a_slip_in_a_word_is_answered_in_words() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    let told = fails(dir.path(), &["op", "complete", "a b", "x"], 2);
    assert!(told.contains("'a b'") && told.contains("64 hexadecimal digits") && !told.contains("uri"), "{told}");
    let told =
        fails(dir.path(), &["doubt", "resolve", &"ab".repeat(32), "open", "--reason", "r", "--posture", "nonsense"], 2);
    assert!(told.contains("owner_gone"), "{told}");
    let told = fails(dir.path(), &["audit", "verify", "nope"], 1);
    assert!(told.contains("nope") && !told.contains("the store"), "{told}");
    let told = fails(dir.path(), &["op", "begin", "jobs", "", "--tenant", "acme"], 2);
    assert!(told.matches("[HX").count() == 1, "{told}");
}
