//! Variables that cannot be used: said before anything begins, with name, rule and the exit code 2; what is not ours is passed over.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

use crate::support::{
    Dir, Start, Upstream,
    command::{command, said},
};

/// Bytes that are no text, as old locales leave them in an environment.
const NO_TEXT: &[u8] = b"caf\xe9";

#[test]
fn a_foreign_variable_that_is_no_text_is_passed_over_and_ours_is_refused() {
    let dir = Dir::new();
    for words in [&["config", "show"][..], &["gateway"], &["op", "list"]] {
        let foreign = command(dir.path(), words).env("CAFE", OsStr::from_bytes(NO_TEXT)).output().unwrap();
        assert!(!said(&foreign).contains("panicked") && !said(&foreign).contains("CAFE"), "{}", said(&foreign));
    }
    for (name, words) in [
        ("HAPAX_DATA", &["config", "show"][..]),
        ("HAPAX_DATA", &["op", "list"]),
        ("HAPAX_URL", &["op", "list"]),
        ("HAPAX_CONFIG", &["op", "list"]),
        ("HAPAX_LOG", &["gateway", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"]),
        ("IDEMPOTENCY_MAX_ENTRIES", &["config", "show"]),
    ] {
        let ours = command(dir.path(), words).env(name, OsStr::from_bytes(NO_TEXT)).output().unwrap();
        assert_eq!(ours.status.code(), Some(2), "{name} {words:?}: {}", said(&ours));
        assert!(said(&ours).contains(name), "{name} {words:?}: {}", said(&ours));
    }
}

/// A number that nothing can hold is said to be one, and does not end the start in the middle.
#[test]
fn a_count_that_is_too_large_is_refused_with_its_bound() {
    let dir = Dir::new();
    for name in [
        "CONNECTIONS",
        "BODY_BYTES",
        "READERS",
        "READERS_PER_TENANT",
        "READER_SECONDS",
        "BEGINS_PER_TENANT",
        "WAITERS",
        "OTLP_ONE_IN",
        "AUDIT_FILE_BYTES",
        "A2A_MAX_TASKS",
        "A2A_WAITERS_PER_TENANT",
    ] {
        let words = ["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--store", "nowhere:"];
        let variable = format!("HAPAX_{name}");
        let ended = command(dir.path(), &words).env(&variable, "9000000000000000000").output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{name}: {}", said(&ended));
        assert!(said(&ended).contains(&variable) && said(&ended).contains("at most"), "{name}: {}", said(&ended));
    }
    let ended = command(dir.path(), &["config", "show"]).env("IDEMPOTENCY_MAX_ENTRIES", "9000000000000000000").output();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", said(&ended));
}

/// A slip in a variable's name changes nothing, silently: the daemon says so, and the gateway has to as well.
#[test]
fn a_gateway_refuses_variables_that_it_does_not_know() {
    let (dir, upstream) = (Dir::new(), Upstream::counting());
    let (code, told) = Start::at(&dir).upstream(upstream.address).env("HAPAX_DURABILTY", "durable").fails();
    assert!(code == 2 && told.contains("HAPAX_DURABILTY") && told.contains("durability"), "{code}: {told}");
}
