//! The queue as a log: written from one store, read into another, and the same there.

use hapax_queue::{QueueError, Sent, TaskStateName};

use crate::support::*;

async fn exported(queue: &hapax_queue::Queue) -> String {
    let mut log = String::new();
    let written = queue.export(&acme(), |line| {
        log.push_str(&serde_json::to_string(line).unwrap());
        log.push('\n');
        Ok(())
    });
    let lines = written.await.unwrap().unwrap();
    assert_eq!(lines as usize, log.lines().count());
    log
}

async fn filled() -> Bench {
    let bench = Bench::new().await;
    let queue = &bench.queue;
    for number in 1..=5 {
        let _ = queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
    }
    let _ = queue.send(&acme(), task(6)).await.unwrap();
    let bytes = hapax_queue::Payload { json: false, bytes: vec![0, 255, 7].into() };
    let _ = queue.send(&acme(), hapax_queue::NewTask { payload: bytes, ..task(7) }).await.unwrap();
    for number in 1..=3 {
        let handed = lease_one(queue).await.unwrap();
        let _ = queue.post(&acme(), id(number), handed.token, done(&format!("r{number}"))).await.unwrap();
    }
    queue.ack(&acme(), id(1)).await.unwrap();
    queue.compact(None).await.unwrap();
    queue.ack(&acme(), id(2)).await.unwrap();
    let _in_flight = lease_one(queue).await.unwrap();
    bench
}

#[tokio::test]
async fn what_is_exported_is_the_same_elsewhere() {
    let from = filled().await;
    let log = exported(&from.queue).await;
    let to = Bench::new().await;
    let report = to.queue.import(&acme(), &log).await.unwrap();
    assert_eq!((report.tasks, report.cached, report.known, report.torn), (7, 3, 0, None));
    for number in 2..=7 {
        let (old, new) = (state(&from.queue, number).await, state(&to.queue, number).await);
        assert_eq!(old.task.order, new.task.order, "{number}");
        assert_eq!(old.task.attempt, new.task.attempt, "{number}");
        let stale = if old.state == TaskStateName::Leased { TaskStateName::Stale } else { old.state };
        assert_eq!(new.state, stale, "{number}");
    }
    assert_eq!(to.queue.send(&acme(), keyed(1, "k1")).await.unwrap(), Sent::AlreadyResolved);
    assert!(
        matches!(to.queue.send(&acme(), keyed(9, "k1")).await.unwrap(), Sent::Replayed { .. }),
        "the cache came along"
    );
    assert_eq!(results(&to.queue).await.iter().filter(|(task, _)| *task == id(3)).count(), 1);
    // In flight there, in flight here: nobody is handed it but by a repair.
    let mut handed = Vec::new();
    while let Some(task) = lease_one(&to.queue).await {
        handed.push(task.order.id);
    }
    assert_eq!(handed, [id(5), id(6), id(7)]);
    let again = to.queue.import(&acme(), &log).await.unwrap();
    assert_eq!((again.tasks, again.cached, again.known), (0, 0, 10), "twice is once");
}

#[tokio::test]
async fn a_torn_last_line_is_reported_and_a_bad_one_inside_stops() {
    let from = filled().await;
    let log = exported(&from.queue).await;
    let lines = log.lines().count();
    let torn = &log[..log.len() - 9];
    let to = Bench::new().await;
    assert_eq!(to.queue.import(&acme(), torn).await.unwrap().torn, Some(lines as u64));
    let mut spoiled: Vec<&str> = log.lines().collect();
    spoiled[1] = "{\"event\":";
    let error = Bench::new().await.queue.import(&acme(), &(spoiled.join("\n") + "\n")).await.unwrap_err();
    assert!(matches!(error, QueueError::Invalid(_)) && error.to_string().contains("line 2"), "{error}");
    let foreign = hapax_core::identity::Tenant::new("other").unwrap();
    let cached: Vec<&str> = log.lines().filter(|line| line.contains("result_cached")).collect();
    assert!(to.queue.import(&foreign, &(cached.join("\n") + "\n")).await.is_err(), "another tenant's cache");
}
