//! A real process with workers is killed with `kill -9`, again and again, on one ledger. No acknowledged step is undone
//! and no task is handed out twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use hapax_core::task::TaskId;
use hapax_ledger::Ledger;
use hapax_queue::{LeaseRequest, QueueError, TaskState};
use hapax_store::Seeded;
use hapax_testkit::{TempDir, children::say};

use crate::support::*;

const ROUNDS: u64 = 10;
const DIR: &str = "HAPAX_QUEUE_KILLED_DIR";
const FROM: &str = "HAPAX_QUEUE_KILLED_FROM";

/// Not a test of its own: the process that is killed. Without the variable it does nothing.
#[test]
fn child_with_workers() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let next = Arc::new(AtomicU64::new(std::env::var(FROM).unwrap().parse().unwrap()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let queue = queue_on(Arc::new(Ledger::open(dir).unwrap())).await;
        let mut all = Vec::new();
        for _ in 0..8 {
            let (queue, next) = (queue.clone(), next.clone());
            all.push(tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, SeqCst);
                    let new = if number % 2 == 0 { task(number) } else { keyed(number, &format!("k{number}")) };
                    let _ = queue.send(&acme(), new).await.unwrap();
                    say(&format!("sent {number}"));
                    let Some(handed) = lease_one(&queue).await else { continue };
                    say(&format!("leased {} {}", handed.order.id, handed.token.to_text()));
                    let _ = queue.post(&acme(), handed.order.id, handed.token, done("ok")).await.unwrap();
                    say(&format!("posted {}", handed.order.id));
                    if number % 3 == 0 {
                        queue.ack(&acme(), handed.order.id).await.unwrap();
                        say(&format!("acked {}", handed.order.id));
                    }
                    if number % 16 == 0 {
                        queue.compact(None).await.unwrap();
                    }
                }
            }));
        }
        all.into_iter().next().unwrap().await.unwrap();
    });
}

#[derive(Default)]
struct Known {
    sent: BTreeSet<u64>,
    leased: BTreeMap<TaskId, String>,
    posted: BTreeSet<TaskId>,
    acked: BTreeSet<TaskId>,
}

impl Known {
    fn hear(&mut self, said: &str) {
        let words: Vec<&str> = said.split(' ').collect();
        match words[..] {
            ["sent", number] => _ = number.parse().map(|number| self.sent.insert(number)),
            ["leased", id, token] => {
                if let Some(id) = TaskId::parse(id) {
                    let before = self.leased.insert(id, token.to_owned());
                    assert_eq!(before, None, "{id} was handed out twice");
                }
            }
            ["posted", id] => _ = TaskId::parse(id).map(|id| self.posted.insert(id)),
            ["acked", id] => _ = TaskId::parse(id).map(|id| self.acked.insert(id)),
            // The last line may be cut off.
            _ => {}
        }
    }
}

#[tokio::test]
async fn kill_9_hands_nothing_out_twice_and_loses_nothing_acknowledged() {
    let seed = Seeded::seed_or(8);
    println!("again with HAPAX_SEED={seed}");
    let mut dice = Seeded::new(seed);
    let dir = TempDir::new("queue-killed");
    let path = dir.path().display().to_string();
    let mut known = Known::default();
    let mut from = 1;
    for _ in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child_with_workers", "--nocapture", "--test-threads", "1"])
            .envs([(DIR, path.clone()), (FROM, from.to_string())])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let wait = Duration::from_millis(dice.below(150));
        let (first, started) = std::sync::mpsc::channel();
        let killer = std::thread::spawn(move || {
            let _: Result<(), _> = started.recv_timeout(Duration::from_secs(20));
            std::thread::sleep(wait);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        for line in out.lines().map_while(Result::ok) {
            if let Some(said) = line.strip_prefix('@') {
                known.hear(said);
                let _ = first.send(());
            }
        }
        drop(first);
        killer.join().unwrap();
        from = known.sent.last().copied().unwrap_or(from) + 64;
    }
    check(&path, &known).await;
}

async fn check(path: &str, known: &Known) {
    assert!(known.posted.len() > 20, "the load was too light: {}", known.posted.len());
    let queue = queue_on(Arc::new(Ledger::open(path).unwrap())).await;
    for number in &known.sent {
        let task = state(&queue, *number).await.task;
        let task_id = id(*number);
        match &task.state {
            TaskState::Queued { .. } => {
                assert!(!known.leased.contains_key(&task_id), "{task_id} was leased and is queued again");
            }
            TaskState::Leased(leased) => {
                assert!(!known.posted.contains(&task_id), "the result of {task_id} is lost");
                if let Some(token) = known.leased.get(&task_id) {
                    assert_eq!(&leased.token.to_text(), token);
                }
                assert_eq!(task.attempt, 1);
            }
            TaskState::Resolved(resolved) => {
                assert!(!known.acked.contains(&task_id) || resolved.acked.is_some(), "{task_id} came back");
            }
            TaskState::Compacted { .. } => {}
            TaskState::Sent { .. } | TaskState::Joined { .. } => panic!("{task:?}"),
        }
    }
    // What is left is handed out once, and what was leased is not among it.
    let asked = LeaseRequest { limit: 256, ..LeaseRequest::of("indexer", "after") };
    loop {
        let more = queue.lease(&acme(), &asked).await.unwrap();
        if more.is_empty() {
            break;
        }
        for handed in more {
            assert!(!known.leased.contains_key(&handed.order.id), "handed out twice");
        }
    }
    // A worker that comes back posts under the token that it was given before the crash.
    for (task_id, token) in known.leased.iter().filter(|(task_id, _)| !known.posted.contains(task_id)) {
        let token = hapax_core::Token::parse(token).unwrap();
        match queue.post(&acme(), *task_id, token, done("ok")).await {
            Ok(_) => {}
            Err(QueueError::Fenced(_)) => {
                let compacted = queue.task(&acme(), *task_id).await.unwrap();
                assert!(matches!(compacted.task.state, TaskState::Compacted { .. }), "{compacted:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
