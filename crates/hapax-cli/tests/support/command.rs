use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// `hapax` with these words, started in this directory, with nothing of ours in its environment.
pub fn command(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command.env_remove("TOKIO_WORKER_THREADS");
    command.current_dir(dir).args(words).stdin(Stdio::null());
    command
}

pub fn run(dir: &Path, words: &[&str]) -> Output {
    command(dir, words).output().unwrap()
}

/// All that it said, on whichever way.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// It has to succeed, and to say one JSON document.
pub fn json(dir: &Path, words: &[&str]) -> serde_json::Value {
    let output = run(dir, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", said(&output)))
}

/// It has to fail with this exit code; what it said.
pub fn fails(dir: &Path, words: &[&str], code: i32) -> String {
    let output = run(dir, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
    said(&output)
}

/// A ledger in this directory, with one operation in it.
pub fn ledger(dir: &Path, name: &str) {
    std::fs::create_dir(dir.join(name)).unwrap();
    json(dir, &["op", "begin", "jobs", "k0", "--tenant", "acme", "--data", name, "--json"]);
}
