//! What callers write is shown to operators, who must be able to tell it from what we write.

use crate::support::{
    Dir,
    command::{json, ledger, run, said},
};

/// A reason with an escape in it turns the terminal of whoever reads the log red, or hides the line before; one with a line
/// break in it is a row that nobody wrote.
#[test]
fn callers_can_forge_no_line_and_steer_no_terminal() {
    let dir = Dir::new();
    let nasty = "paid\u{1b}[2J\r\n99   2026-01-01T00:00:00Z  root  resolve\u{9b}31m\u{202e}";
    let words = ["op", "begin", "jobs", "k1", "--tenant", "acme", "--effect", "irreversible"];
    ledger(dir.path(), "hapax-data");
    let begun = json(dir.path(), &[&words[..], &["--json"]].concat());
    let text = |name: &str| begun[name].as_str().unwrap().to_owned();
    let (operation, token) = (text("operation"), text("token"));
    json(dir.path(), &["op", "fail", &operation, &token, "--unknown", "--body", nasty, "--json"]);
    json(dir.path(), &["doubt", "resolve", &operation, "committed", "--reason", nasty, "--body", nasty, "--json"]);
    for words in [
        &["audit", "tail"][..],
        &["explain", &operation],
        &["op", "list"],
        &["doubt", "list"],
        &["op", "begin", "jobs", "k1", "--tenant", "acme"],
        &["a2a", "send", nasty, nasty, "--as", "planner", "--intent", nasty, "--key", "k2"],
        &["a2a", "status"],
    ] {
        let output = run(dir.path(), words);
        let shown = said(&output);
        let steers = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!shown.contains(steers), "{words:?}: {shown:?}");
        // The answer itself is printed as a block of its own; a row of a table is one line.
        let answer = words.starts_with(&["op", "begin"]);
        assert!(answer || !shown.lines().any(|line| line.starts_with("99 ")), "{words:?}: {shown}");
    }
}
