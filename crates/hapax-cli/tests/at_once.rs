//! Many commands at once, and no daemon that they could ask.

use std::process::Stdio;

use crate::support::{
    Dir,
    command::{command, json, ledger, said},
};

/// A script starts twenty at once, and no daemon runs: the first opens the ledger, others find its socket, and it leaves with
/// its own work done. All twenty have to be served all the same.
#[test]
fn commands_at_once_without_a_daemon_are_all_served() {
    const AT_ONCE: usize = 20;
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    for round in 0..3 {
        let started: Vec<_> = (0..AT_ONCE)
            .map(|number| {
                let key = format!("k{round}-{number}");
                let words = ["op", "begin", "jobs", &key, "--tenant", "acme", "--json"];
                command(dir.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in started {
            let ended = child.wait_with_output().unwrap();
            assert!(ended.status.success(), "{}", said(&ended));
        }
    }
    let listed = json(dir.path(), &["op", "list", "--limit", "200", "--json"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3 * AT_ONCE + 1);
}
