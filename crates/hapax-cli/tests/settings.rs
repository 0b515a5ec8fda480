//! What is set: shown whole, and a slip is said with its rule and the exit code 2.

use crate::support::{
    Dir,
    command::{command, fails, json, said},
};

/// What is shown is all that is in force, and can be.
#[test]
fn what_is_shown_is_all_that_is_set_and_can_be_used() {
    let dir = Dir::new();
    dir.write("hapax.toml", "[surface.payments]\nlease = \"5s\"\n");
    let words = ["config", "show", "--upstream", "http://127.0.0.1:3000", "--gateway", "127.0.0.1:8081", "--json"];
    let shown = json(dir.path(), &words);
    assert_eq!(shown["upstream"]["value"], "http://127.0.0.1:3000", "{shown}");
    assert_eq!(shown["gateway"]["value"], "127.0.0.1:8081", "{shown}");
    assert_eq!(shown["gateway"]["from"], "flag, --gateway", "{shown}");
    assert_eq!(shown["file"], "hapax.toml", "{shown}");
    assert!(shown["surfaces"]["payments"].is_string(), "{shown}");
    for (flags, word) in [
        (&["--listen", "nonsense"][..], "HOST:PORT"),
        (&["--admin", "127.0.0.1:99999"], "HOST:PORT"),
        (&["--gateway", "nonsense"], "HOST:PORT"),
        (&["--store", "bogus"], "HX0130"),
        (&["--store", "mysql://x/"], "HX0130"),
        (&["--keys", "nofile"], "nofile"),
        (&["--upstream", "nonsense"], "--upstream"),
        (&["--data", ""], "data"),
    ] {
        for command in [&["config", "show"][..], &["serve"]] {
            let told = fails(dir.path(), &[command, flags].concat(), 2);
            assert!(told.contains(word), "{command:?} {flags:?}: {told}");
        }
    }
    for words in [&["serve"][..], &["op", "list"], &["config", "show"]] {
        let empty = command(dir.path(), words).env("HAPAX_DATA", "").output().unwrap();
        assert_eq!(empty.status.code(), Some(2), "{words:?}: {}", said(&empty));
    }
    for flags in [["--listen", "nonsense"], ["--store", "bogus"]] {
        let words = [&["gateway", "--upstream", "http://127.0.0.1:1"], &flags[..]].concat();
        fails(dir.path(), &words, 2);
    }
    assert!(!dir.path().join("hapax-data").exists(), "nothing was begun");
}

/// What nobody set looked like a secret that is not shown.
#[test]
fn what_is_not_set_is_shown_as_such() {
    let dir = Dir::new();
    let shown = json(dir.path(), &["config", "show", "--json"]);
    assert_eq!((&shown["otlp"]["value"], &shown["upstream"]["value"]), (&"off".into(), &"none".into()), "{shown}");
    dir.write("hapax.toml", "[server]\notlp = \"http://me:hush@127.0.0.1:4318\"\n");
    let shown = json(dir.path(), &["config", "show", "--json"]);
    assert_eq!(shown["otlp"]["value"], "http://127.0.0.1:4318", "{shown}");
}

/// Whoever moves from the seeds' names to ours writes both for a while, and both say the same.
#[test]
fn an_alias_and_its_knob_that_say_the_same_are_no_conflict() {
    let dir = Dir::new();
    let file = |seed: &str, knobs: &str| {
        dir.write("hapax.toml", &format!("[idempotency]\n{seed}\n[surface.api]\npreset = \"api\"\n{knobs}\n"));
    };
    let words = ["policy", "check", "hapax.toml"];
    file("default_ttl_hours = 2", "success = \"2h\"");
    json(dir.path(), &["policy", "check", "hapax.toml", "--json"]);
    file("default_ttl_hours = 2", "success = \"3h\"");
    assert!(fails(dir.path(), &words, 2).contains("`success`"));
    // The same name stands for how long failures are kept.
    file("default_ttl_hours = 2", "final_failure = \"replay 1h\"");
    assert!(fails(dir.path(), &words, 2).contains("`final_failure`"));
    file("processing_ttl_seconds = 30", "lease = \"30s\"");
    json(dir.path(), &["policy", "check", "hapax.toml", "--json"]);
    file("processing_ttl_seconds = 30", "lease = \"31s\"");
    assert!(fails(dir.path(), &words, 2).contains("`lease`"));
}
