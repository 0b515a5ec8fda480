//! What a message says to do can be done.

use crate::support::{
    Dir,
    command::{fails, json, ledger, run, said},
};

/// The commands that a message names.
fn commands(told: &str) -> Vec<Vec<String>> {
    let quoted = told.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.strip_prefix("hapax "));
    quoted.map(|command| command.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Bytes of the ledger went bad, the message says how to save what is whole, and the command that it says is none: at three in
/// the morning nobody looks for the right one.
#[test]
fn a_damaged_ledger_is_saved_by_the_command_that_its_message_names() {
    let dir = Dir::new();
    ledger(dir.path(), "d");
    for key in ["k1", "k2"] {
        json(dir.path(), &["op", "begin", "jobs", key, "--tenant", "acme", "--data", "d", "--json"]);
    }
    let segments = std::fs::read_dir(dir.path().join("d")).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = segments.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect();
    segments.sort();
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[200] ^= 0xff;
    std::fs::write(&segments[0], bytes).unwrap();

    let told = fails(dir.path(), &["op", "list", "--data", "d"], 1);
    assert!(told.contains("HX0024"), "{told}");
    let named = commands(&told);
    assert_eq!(named.len(), 2, "{told}");
    for (command, code) in named.iter().zip([8, 0]) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let output = run(dir.path(), &words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
    }
    json(dir.path(), &["op", "list", "--data", "COPY", "--json"]);
}
