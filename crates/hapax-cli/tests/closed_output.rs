//! Whoever reads what is said may leave at any time: a terminal is closed, a log shipper ends, `head` has seen enough.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use crate::support::{
    Daemon, Dir, Start, Upstream,
    command::{command, json, said},
    until,
};

/// Started, greeted, and then nobody listens any more.
fn unheard(mut command: std::process::Command, last: &str) -> Child {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(last)), "it ended before it began");
    child
}

fn ends(mut child: Child, signal: &str) -> Option<i32> {
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
    let mut status = None;
    until("it to end", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

fn last_rows(dir: &Dir) -> String {
    std::fs::read_to_string(dir.path().join("hapax-data/audit.log")).unwrap()
}

/// The log shipper ended an hour ago. A reload must not end the daemon, and a stop must end as a stop does, with its row.
#[test]
fn a_daemon_whose_log_nobody_reads_reloads_and_stops_as_ever() {
    let dir = Dir::new();
    dir.write("hapax.toml", "");
    let mut daemon = unheard(Daemon::command(&dir, &[]), "no API keys");
    assert_eq!(json(dir.path(), &["reload", "--json"])["reloaded"], true);
    dir.write("hapax.toml", "[server]\nnonsense = 1\n");
    let refused = command(dir.path(), &["reload", "--data", "hapax-data"]).output().unwrap();
    assert!(said(&refused).contains("not reloaded"), "{}", said(&refused));
    assert!(daemon.try_wait().unwrap().is_none(), "it runs on");
    assert_eq!(ends(daemon, "-TERM"), Some(0));
    assert!(last_rows(&dir).contains("stopped"), "{}", last_rows(&dir));
}

#[test]
fn a_gateway_whose_log_nobody_reads_reloads_and_stops_as_ever() {
    let (dir, upstream) = (Dir::new(), Upstream::counting());
    dir.write("hapax.toml", "");
    let mut gateway = unheard(Start::at(&dir).upstream(upstream.address).command(), "  routes");
    assert_eq!(json(dir.path(), &["reload", "--json"])["reloaded"], true);
    assert!(gateway.try_wait().unwrap().is_none(), "it runs on");
    assert_eq!(ends(gateway, "-TERM"), Some(0));
    assert!(last_rows(&dir).contains("stopped"), "{}", last_rows(&dir));
}

/// `| head -1` has seen enough: no panic, no word, and the code that the command has anyway.
#[test]
fn a_reader_that_leaves_ends_a_command_quietly() {
    let dir = Dir::new();
    dir.write("one.toml", "[surface.payments]\nlease = \"5s\"\n");
    dir.write("two.toml", "[surface.payments]\nlease = \"6s\"\n");
    for (words, code) in [
        (&["config", "show"][..], 0),
        (&["config", "show", "--json"], 0),
        (&["completions", "bash"], 0),
        (&["policy", "diff", "one.toml", "two.toml"], 9),
        (&["--help"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = command(dir.path(), words).stdout(writer).output().unwrap();
        let text = said(&ended);
        assert_eq!(ended.status.code(), Some(code), "{words:?}: {text}");
        assert!(!text.contains("panicked") && !text.contains("roken pipe"), "{words:?}: {text}");
    }
}

/// A full disk is another matter: what was asked for is not there, and that is said.
#[test]
fn output_that_could_not_be_written_is_a_failure() {
    let dir = Dir::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = command(dir.path(), &["config", "show"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", said(&ended));
    assert!(said(&ended).contains("could not be written") && !said(&ended).contains("panicked"), "{}", said(&ended));
}
