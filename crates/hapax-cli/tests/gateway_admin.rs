//! A running gateway can be asked: what is in doubt, why, and what to do about it; and what was done stands in its log.

use std::process::{Command, Output};

use crate::support::{Conn, Dir, Reply, Start, Upstream, post, request, until};

fn hapax(dir: &Dir, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command.current_dir(dir.path()).args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn done(dir: &Dir, words: &[&str]) -> String {
    let output = hapax(dir, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    said(&output)
}

/// Who sends a signal learns nothing: a slip in the file shows only in a log elsewhere. The command is told.
#[test]
fn a_reload_through_the_socket_is_answered_with_what_is_wrong() {
    let upstream = Upstream::new(|_, _, _| Reply::json(201, "{}"));
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"POST /pay\"\nkey = \"required\"\n";
    let gateway = Start::at(&dir).file("").upstream(upstream.address).go();
    let ask = || Conn::to(gateway.address).send(request("POST", "/pay", &[], "{}")).answer().status;
    assert_eq!(ask(), 201);
    dir.write("hapax.toml", file);
    assert!(done(&dir, &["reload"]).contains("reloaded"));
    assert_eq!(ask(), 400, "the new route is in force when the command answers");
    dir.write("hapax.toml", "[[route]]\nmatch = \"POST pay\"\n");
    let refused = hapax(&dir, &["reload"]);
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(said(&refused).contains("not reloaded") && said(&refused).contains("route number 1"), "{}", said(&refused));
    assert_eq!(ask(), 400, "all stays as it was");
    assert!(done(&dir, &["audit", "tail"]).contains("policy_change"));
    gateway.kill();
    let nobody = hapax(&dir, &["reload"]);
    assert!(!nobody.status.success(), "{}", said(&nobody));
}

#[test]
fn a_doubt_is_found_explained_and_decided_while_the_gateway_runs() {
    // The connection breaks after the request: nobody knows.
    let upstream = Upstream::new(|_, number, _| match number {
        0 => Reply::Last(Vec::new()),
        _ => Reply::json(201, "\"paid\""),
    });
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"POST /pay\"\neffect = \"irreversible\"\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let answer = post(gateway.address, "/pay", "k1", "{}");
    assert!(answer.status >= 500 || answer.status == 409, "{}", answer.text());
    let mut id = String::new();
    until("the doubt to be listed", || {
        let list = done(&dir, &["doubt", "list", "--json"]);
        let list: serde_json::Value = serde_json::from_str(list.trim()).unwrap();
        id = list["items"][0]["operation"].as_str().unwrap_or_default().to_owned();
        !id.is_empty()
    });
    assert!(done(&dir, &["explain", &id]).contains("Do not send it under a new key"));
    done(
        &dir,
        &["doubt", "resolve", &id, "open", "--posture", "operator_accepted", "--reason", "the bank has nothing"],
    );
    assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
    // What is in force is changed by the file alone, together with the routes; that leaves a row too.
    dir.write("hapax.toml", &format!("{file}[default]\nlease = \"7s\"\n"));
    gateway.signal("HUP");
    gateway.wait_for("hapax: reloaded");
    let tail = done(&dir, &["audit", "tail"]);
    for expected in ["started", "resolve", "the bank has nothing", "local (uid ", "policy_change", "signal HUP"] {
        assert!(tail.contains(expected), "{expected}: {tail}");
    }
    dir.write("other.toml", "[default]\nlease = \"8s\"\n");
    let differs = hapax(&dir, &["policy", "diff", "other.toml"]);
    assert_eq!(differs.status.code(), Some(9), "{}", said(&differs));
    assert!(said(&differs).contains("7s"), "{}", said(&differs));
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(done(&dir, &["audit", "tail"]).contains("stopped"));
    assert!(done(&dir, &["audit", "verify"]).contains("whole"));
    // Nobody runs now, so nobody can say what is in force.
    let nobody = hapax(&dir, &["policy", "diff", "other.toml"]);
    assert!(said(&nobody).contains("HX0160"), "{}", said(&nobody));
}

/// A repaired ledger keeps its callers: with a new secret all of them would be strangers, and their retries would be
/// charged again.
#[test]
fn a_repaired_directory_knows_its_callers_again() {
    let upstream = Upstream::new(|_, number, _| Reply::json(201, &format!("{number}")));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let first = post(gateway.address, "/pay", "k1", "{}");
    assert_eq!((first.status, first.text().as_str()), (201, "0"));
    gateway.signal("TERM");
    gateway.wait();
    assert!(
        done(&dir, &["ledger", "repair", "hapax-data", "mended"]).contains("taken along: audit.key, audit.log, secret")
    );
    let gateway = Start::at(&dir).upstream(upstream.address).arg("--store", "file:mended").go();
    let again = post(gateway.address, "/pay", "k1", "{}");
    assert!(again.is_replay() && again.body == first.body, "{}", again.text());
    assert_eq!(upstream.count(), 1, "it was charged again");
    let tail = done(&dir, &["audit", "tail", "--data", "mended"]);
    assert!(tail.contains("repair") && tail.contains("hapax-data"), "{tail}");
    assert!(done(&dir, &["audit", "verify", "mended"]).contains("whole"));
    drop(gateway);
    // The log was damaged as well: it stays as evidence, and the new chain names it.
    let log = dir.path().join("hapax-data/audit.log");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen("started", "starred", 1)).unwrap();
    done(&dir, &["ledger", "repair", "hapax-data", "again"]);
    assert!(dir.path().join("again/broken-audit.log").is_file());
    assert!(done(&dir, &["audit", "tail", "--data", "again"]).contains("does not match its hash"));
}
