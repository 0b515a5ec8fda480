//! A real process under load is killed with `kill -9`, twenty times, in one directory. Whatever it had acknowledged is
//! there afterwards, as it was acknowledged.

#![allow(clippy::disallowed_methods, reason = "real processes and threads take real time")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::common::*;
use hapax_core::{Millis, Version};
use hapax_ledger::{Ledger, Options, check};
use hapax_store::{BodyId, Due, Envelope, Store, Swap};

const ROUNDS: u64 = 20;
const DIR: &str = "HAPAX_KILLED_DIR";
const FROM: &str = "HAPAX_KILLED_FROM";

fn options(dir: &str) -> Options {
    // Small segments, so that rolling, hints and cleaning are interrupted too.
    Options::new(dir).segment_bytes(64 << 10, 256 << 10).removal_memory(Millis(200))
}

/// Every ninth one has a body.
fn body_of(number: u64) -> Option<BodyId> {
    number.is_multiple_of(9).then(|| random_body(&mut Random::new(number)))
}

/// The payload can be told from the id, so that the parent need not be sent it.
fn payload(number: u64, done: bool) -> Vec<u8> {
    if let Some(body) = body_of(number).filter(|_| done) {
        return naming(body);
    }
    vec![(number as u8) ^ if done { 0x55 } else { 0 }; 40 + (number % 900) as usize]
}

/// While another process works on it: refused by name, and that one goes on.
#[test]
fn a_ledger_that_another_process_works_on_is_refused() {
    let dir = TempDir::new("second-process");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child_under_load", "--nocapture", "--test-threads", "1"])
        .env(DIR, &dir.0)
        .env(FROM, "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answers = || lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with('@'))).is_some();
    assert!(answers(), "the other process does not work");
    let refused = Ledger::open_with(options(dir.0.to_str().unwrap()));
    let still = (0..100).all(|_| answers());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(&refused, Err(hapax_ledger::OpenError::InUse { .. })), "{refused:?}");
    assert!(still, "the other process was disturbed");
    // With its process goes its hold.
    Ledger::open_with(options(dir.0.to_str().unwrap())).unwrap();
}

/// Not a test of its own: the process that is killed. Without the variable it does nothing.
#[test]
fn child_under_load() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let from: u64 = std::env::var(FROM).unwrap().parse().unwrap();
    let ledger = Arc::new(Ledger::open_with(options(&dir)).unwrap());
    let next = Arc::new(AtomicU64::new(from));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..32)
            .map(|_| {
                let (ledger, next) = (ledger.clone(), next.clone());
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::SeqCst);
                        let id = id(number);
                        let begun = ledger.swap(&id, Version::NEVER, Some(live(payload(number, false)))).await.unwrap();
                        let Swap::Swapped { version, stamp } = begun else { panic!("{begun:?}") };
                        say(&format!("b {number} {version} {}", stamp.0));
                        if let Some(body) = body_of(number) {
                            ledger.put_body(&id, body, body_bytes(body)).await.unwrap();
                        }
                        // Every other one lives on, the rest makes work for the cleaner.
                        let gone = (number.is_multiple_of(2)).then_some(Due::After(Millis(1)));
                        let record = Envelope { gone, ..envelope(payload(number, true)) };
                        let done = ledger.swap(&id, version, Some(record)).await.unwrap();
                        let Swap::Swapped { version, stamp } = done else { panic!("{done:?}") };
                        say(&format!("d {number} {version} {}", stamp.0));
                    }
                })
            })
            .collect();
        // Until it is killed, or one of them fails.
        tasks.into_iter().next().unwrap().await.unwrap();
    });
}

/// One write to the pipe for each line: what was acknowledged before the kill has been said.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
fn every_outcome_acknowledged_before_kill_9_is_there_after_it() {
    let mut random = Random::from_env("kill -9");
    let dir = TempDir::new("killed");
    let mut acknowledged: BTreeMap<u64, (bool, Version)> = BTreeMap::new();
    let mut versions = BTreeSet::new();
    let mut last_stamp = 0;
    let mut from = 1;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut bodies = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child_under_load", "--nocapture", "--test-threads", "1"])
            .env(DIR, &dir.0)
            .env(FROM, from.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let wait = Duration::from_millis(random.below(200));
        let (first, started) = std::sync::mpsc::channel();
        let killer = std::thread::spawn(move || {
            // From its first answer on, however slow this machine is today.
            let _: Result<(), _> = started.recv_timeout(Duration::from_secs(60));
            std::thread::sleep(wait);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let mut seen = 0_u64;
        for line in out.lines() {
            let Ok(line) = line else { break };
            let Some(said) = line.strip_prefix('@') else { continue };
            let words: Vec<&str> = said.split(' ').collect();
            // The last line may be cut off.
            let [what, number, version, stamp] = words[..] else { continue };
            let (Ok(number), Ok(version), Ok(stamp)) = (number.parse(), version.parse(), stamp.parse::<u64>()) else {
                continue;
            };
            assert!(versions.insert(version), "round {round}: version {version} was given twice");
            acknowledged.insert(number, (what == "d", Version(version)));
            last_stamp = last_stamp.max(stamp);
            from = from.max(number + 64);
            seen += 1;
            let _ = first.send(());
        }
        killer.join().unwrap();
        assert!(seen > 0, "round {round}: killed before it had said anything");
        from += 1_000;
        let report = check(&dir.0).unwrap();
        assert!(report.is_whole() && report.passed_over == 0, "round {round}: {report:?}");
        let ledger = Ledger::open_with(options(dir.0.to_str().unwrap()))
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        for (&number, &(done, version)) in &acknowledged {
            let snapshot = runtime.block_on(ledger.get(&id(number))).unwrap();
            if let Some(body) = snapshot.record.as_ref().and_then(named) {
                let found = runtime.block_on(ledger.get_body(body)).unwrap();
                assert_eq!(found, Some(body_bytes(body)), "round {round}: {number} names a body that is not there");
                bodies += 1;
            }
            let short = number.is_multiple_of(2);
            if snapshot.version == version {
                if done && short {
                    assert!(snapshot.record.is_none() || snapshot.record.unwrap().payload == payload(number, true));
                } else {
                    let record = snapshot.record.unwrap_or_else(|| panic!("round {round}: {number} is lost"));
                    assert_eq!(record.payload, payload(number, done), "round {round}: {number}");
                }
            } else if !done {
                // Its second write was under way, and may have made it; if that one was short-lived, it may be gone since.
                let made_it = snapshot.record.as_ref().is_some_and(|record| record.payload == payload(number, true));
                assert!(made_it || short, "round {round}: {number} was at {version}, now {snapshot:?}");
            } else {
                assert!(
                    short && snapshot.version == Version::NEVER,
                    "round {round}: {number} was at {version}, now {snapshot:?}"
                );
            }
            assert!(snapshot.now.0 >= last_stamp, "time ran backward");
        }
        println!("round {round}: {seen} answers, {} in all, {:?}", acknowledged.len(), ledger.recovered());
        drop(ledger);
    }
    assert!(acknowledged.len() > 100 && bodies > 0, "hardly any load");
}
