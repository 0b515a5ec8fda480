//! The first thing a newcomer runs.

use std::process::Command;

use crate::support::{Dir, Start, Upstream};
use serde_json::Value;

/// With a crowd that retries and a gateway that is killed, nobody pays twice; without Hapax somebody does, or the demo
/// would show nothing.
#[test]
fn the_demo_charges_nobody_twice_behind_hapax_and_somebody_without() {
    let output = Command::new(env!("CARGO_BIN_EXE_hapax")).args(["demo", "--orders", "48", "--json"]).output().unwrap();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{wrong}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let twice = "orders charged more than once";
    assert_eq!(told["with"][twice], 0, "{told}");
    assert!(told["without"][twice].as_u64().unwrap() > 0, "{told}");
    assert!(told["with"]["answers replayed"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(told["with"]["customers left without an answer"], 0, "{told}");
    let with = |row: &str| told["with"][row].as_u64().unwrap();
    assert!(with("conflicts: same key, other order") > 0, "{told}");
    assert!(with("in doubt, for a person to resolve") > 0, "{told}");
    assert_eq!(with("orders"), 48);
    assert!(with("requests sent") > 48 && with("charges that really happened") <= 48, "{told}");
}

/// What a newcomer sees is a table, with the rows that the README shows.
#[test]
fn the_demo_prints_the_table_of_the_readme() {
    let output = Command::new(env!("CARGO_BIN_EXE_hapax")).args(["demo", "--orders", "24"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let table = readme.split("```\n").find(|block| block.contains("without Hapax    with Hapax")).unwrap();
    let name = |line: &str| line.get(..36).unwrap_or(line).trim().to_owned();
    let rows: Vec<String> = table.lines().map(name).collect();
    assert_eq!(rows.len(), 10);
    let shown: Vec<String> =
        said.lines().skip_while(|line| !line.contains("without Hapax")).take(rows.len()).map(name).collect();
    assert_eq!(shown, rows, "{said}");
    let twice = said.lines().find(|line| line.starts_with("orders charged more than once")).unwrap();
    assert!(twice.ends_with(" 0"), "{twice}");
}

/// The three lines of the README do what stands behind them.
#[test]
fn the_readmes_lines_do_what_they_say() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let lines: Vec<&str> =
        readme.lines().filter(|line| line.starts_with("curl -i http://127.0.0.1:8080/orders")).collect();
    assert_eq!(lines.len(), 3);
    for (line, (status, words)) in lines.into_iter().zip([
        ("201", "{\"charge\":0}"),
        ("201", "idempotent-replayed: true"),
        ("422", "\"code\":\"mismatch\""),
    ]) {
        let line = line.replace("127.0.0.1:8080", &gateway.address.to_string());
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        assert!(said.starts_with(&format!("http/1.1 {status}")) && said.contains(words), "{line}: {said}");
    }
    assert_eq!(upstream.count(), 1);
}

/// A user has a gateway of their own, and its variables in the shell: the demo is about another shop.
#[test]
fn the_demo_takes_no_variable_of_the_users_gateway() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_hapax"));
    demo.args(["demo", "--orders", "8", "--json"]).env("HAPAX_TENANT", "nonsense").env("HAPAX_STOER", "memory:");
    let output = demo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
