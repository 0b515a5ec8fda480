//! What operators do is written down before it is done: also when the daemon is killed while they are at it.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{collections::HashSet, process::Command, time::Duration};

use hapax_client::{Begun, Client, Effect};
use serde_json::{Value, json};

use crate::support::{Daemon, Dir};

fn hapax(dir: &Dir, words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    let output = command.current_dir(dir.path()).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The decisions of a person, many at once, and `kill -9` among them: each that was acknowledged has its row, the chain is whole each time,
/// and nothing was decided that has none.
#[tokio::test(flavor = "multi_thread")]
async fn killed_while_decisions_are_written_down_the_chain_holds_all_that_were_acknowledged() {
    const DOUBTS: usize = 60;
    let dir = Dir::new();
    let mut in_all = 0;
    for round in 0..6_u64 {
        let surface = format!("payments-{round}");
        let mut acknowledged: Vec<String> = Vec::new();
        let mut daemon = Daemon::start(&dir, &[]);
        let client = Client::new(&daemon.url("hapax serve on").unwrap()).unwrap();
        let admin = Client::new(&daemon.url("admin").unwrap()).unwrap();
        let mut deciding = tokio::task::JoinSet::new();
        for number in 0..DOUBTS {
            let (client, admin, surface) = (client.clone(), admin.clone(), surface.clone());
            deciding.spawn(async move {
                let call = client.operation(&surface, format!("{number}")).effect(Effect::Irreversible);
                let Ok(Begun::Execute(ticket)) = call.begin().await else { return None };
                let id = ticket.operation.clone();
                let path = format!("/v1/operations/{id}");
                let (_, seen) = admin.raw("GET".parse().unwrap(), &path, &[]).await.ok()?;
                let version = serde_json::from_slice::<Value>(&seen).ok()?["version"].clone();
                let decision = json!({ "version": version, "resolution": "committed", "reason": "seen" }).to_string();
                let path = format!("{path}:resolve");
                let (status, _) = admin.raw("POST".parse().unwrap(), &path, decision.as_bytes()).await.ok()?;
                (status == 200).then_some(id)
            });
        }
        let mut done = 0;
        while let Some(decided) = deciding.join_next().await {
            acknowledged.extend(decided.unwrap());
            done += 1;
            if done == DOUBTS / 4 + 5 * round as usize {
                tokio::time::sleep(Duration::from_millis(round)).await;
                daemon.child.kill().unwrap();
            }
        }
        daemon.child.wait().unwrap();
        drop(daemon);
        hapax(&dir, &["audit", "verify", "--json"]);
        let rows = hapax(&dir, &["audit", "tail", "--limit", "256", "--json"]);
        let rows = rows["rows"].as_array().unwrap().iter().filter(|row| row["action"] == "resolve");
        let written: HashSet<&str> = rows.map(|row| row["subject"].as_str().unwrap()).collect();
        let missing: Vec<_> = acknowledged.iter().filter(|id| !written.contains(id.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?} of {written:?}");
        let list = ["op", "list", "--surface", &surface, "--state", "committed", "--limit", "200", "--json"];
        for operation in hapax(&dir, &list)["items"].as_array().unwrap() {
            assert!(written.contains(operation["operation"].as_str().unwrap()), "{operation}");
        }
        in_all += acknowledged.len();
    }
    assert!(in_all >= 60, "{in_all} decisions");
}
