//! Exit codes mean what the table in docs/cli.md says, whoever found out: the command, the API or the store.

use crate::support::{
    Daemon, Dir,
    command::{command, fails, json, ledger, run, said},
};

/// A script sees code 10, "not allowed or too late", and asks for other rights, where it had a slip in its own words.
#[test]
fn what_only_the_api_can_refuse_of_the_words_is_code_2() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    let long = "k".repeat(5_000);
    for words in [
        &["op", "list", "--limit", "0"][..],
        &["op", "list", "--state", "nope"],
        &["op", "begin", "jobs", "k", "--tenant", "acme", "--lease-ms", "0"],
        &["op", "begin", "jobs", "k", "--tenant", "acme", "--effect", "x"],
        &["op", "begin", "jobs", "", "--tenant", "acme"],
        &["op", "begin", "jobs", &long, "--tenant", "acme"],
        &["op", "begin", "jobs", "k", "--tenant", ""],
    ] {
        fails(dir.path(), words, 2);
    }
}

/// Something that is no address, and something that is no key: neither a missing daemon nor a forged chain.
#[test]
fn flags_that_name_nothing_are_code_2() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    for url in ["ftp://x", "nonsense"] {
        let told = fails(dir.path(), &["op", "list", "--url", url], 2);
        assert!(told.contains("--url") && told.contains("[HX0050]"), "{told}");
    }
    let by_variable = command(dir.path(), &["op", "list"]).env("HAPAX_URL", "ftp://x").output().unwrap();
    assert_eq!(by_variable.status.code(), Some(2), "{}", said(&by_variable));
    assert!(said(&by_variable).contains("HAPAX_URL"), "{}", said(&by_variable));
    for key in ["zz", "", &"0".repeat(63)] {
        let told = fails(dir.path(), &["audit", "verify", "--key", key], 2);
        assert!(told.contains("64 hexadecimal digits"), "{told}");
    }
    // A key that could be one, and is another's.
    fails(dir.path(), &["audit", "verify", "--key", &"0".repeat(64)], 8);
}

/// Open to the whole network and without keys: the setting is wrong, and nothing was begun.
#[test]
fn a_door_that_must_not_be_opened_is_code_2_and_seen_before_the_start() {
    let dir = Dir::new();
    for flags in [["--listen", "0.0.0.0:0"], ["--admin", "[::]:0"]] {
        for words in [&["serve"][..], &["config", "show"]] {
            let told = fails(dir.path(), &[words, &flags].concat(), 2);
            assert!(told.contains("[HX0080]"), "{words:?}: {told}");
        }
    }
    let shown = command(dir.path(), &["config", "show"]).env("HAPAX_LISTEN", "0.0.0.0:7878").output().unwrap();
    assert_eq!(shown.status.code(), Some(2), "{}", said(&shown));
    assert!(!dir.path().join("hapax-data").exists(), "nothing was begun");
}

/// The key file was spoiled while the daemon ran; one code says where to read on.
#[test]
fn a_reload_of_a_spoiled_key_file_is_code_2_with_one_code() {
    let dir = Dir::new();
    let made = run(dir.path(), &["key", "new", "ops", "--tenant", "acme", "--role", "admin"]);
    dir.write("keys.toml", &String::from_utf8(made.stdout).unwrap());
    let _daemon = Daemon::start(&dir, &["--keys", "keys.toml"]);
    dir.write("keys.toml", "[[key]]\nname = 1\n");
    let told = fails(dir.path(), &["reload"], 2);
    assert!(told.trim_end().ends_with("[HX0081]") && told.matches("[HX").count() == 1, "{told}");
}

/// "There is nothing at this address" was said of a daemon that has it, at its other door.
#[test]
fn what_is_for_administrators_is_said_to_be() {
    let dir = Dir::new();
    let daemon = Daemon::start(&dir, &[]);
    let (tenants, admin) = (daemon.url("hapax serve on").unwrap(), daemon.url("admin").unwrap());
    for words in [&["audit", "tail"][..], &["key", "list"], &["reload"]] {
        let told = fails(dir.path(), &[words, &["--url", &tenants]].concat(), 10);
        assert!(told.contains("administrators") && told.contains("--url"), "{words:?}: {told}");
        let there = run(dir.path(), &[words, &["--url", &admin]].concat());
        assert!(there.status.success(), "{words:?}: {}", said(&there));
    }
    json(dir.path(), &["key", "list", "--json"]);
}
