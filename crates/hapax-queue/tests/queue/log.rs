//! The queue as a log: written from one store, read into another, and the same there.

use hapax_queue::{QueueError, RepairKind, RepairPosture, Sent, TaskState, TaskStateName};

use crate::support::*;

async fn exported(queue: &hapax_queue::Queue) -> String {
    let mut log = String::new();
    let tenant = acme();
    let written = queue.export(&tenant, |line| {
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

/// A task in flight comes in from a log. A send under its key knew nothing of it and ran beside it; and the repair of the one
/// that came in went round for ever, looking for its attempt in the operation of the other.
#[tokio::test]
async fn what_comes_in_flight_from_a_log_leads_its_key() {
    let from = Bench::new().await;
    let _ = from.queue.send(&acme(), keyed(1, "k")).await.unwrap();
    let _in_flight = lease_one(&from.queue).await.unwrap();
    let log = exported(&from.queue).await;
    let requeue = RepairKind::Requeue { posture: RepairPosture::Idempotent, auto: false };

    let to = Bench::new().await;
    to.queue.import(&acme(), &log).await.unwrap();
    assert_eq!(to.queue.send(&acme(), keyed(2, "k")).await.unwrap(), Sent::Joined { leader: id(1), again: false });
    assert!(lease_one(&to.queue).await.is_none());
    let lease = state(&to.queue, 1).await.lease_id.unwrap();
    let _ = to.queue.repair(&acme(), id(1), lease, requeue.clone(), "op", "moved").await.unwrap();
    let handed = lease_one(&to.queue).await.unwrap();
    let _ = to.queue.post(&acme(), id(1), handed.token, done("once")).await.unwrap();
    let both = [(id(1), "once".to_owned()), (id(2), "once".to_owned())];
    let mut received = results(&to.queue).await;
    received.extend(results(&to.queue).await);
    assert!(both.iter().all(|one| received.contains(one)), "{received:?}");

    let busy = Bench::new().await;
    let _ = busy.queue.send(&acme(), keyed(5, "k")).await.unwrap();
    let running = lease_one(&busy.queue).await.unwrap();
    busy.queue.import(&acme(), &log).await.unwrap();
    let lease = state(&busy.queue, 1).await.lease_id.unwrap();
    let _ = busy.queue.repair(&acme(), id(1), lease, requeue, "op", "moved").await.unwrap();
    assert!(lease_one(&busy.queue).await.is_none(), "another runs under the key: it joins that one");
    let _ = busy.queue.post(&acme(), id(5), running.token, done("once")).await.unwrap();
    assert_eq!(text_of(&busy, 1).await, "once");
}

async fn text_of(bench: &Bench, number: u64) -> String {
    match state(&bench.queue, number).await.task.state {
        TaskState::Resolved(resolved) => text(&resolved.outcome),
        other => panic!("{other:?}"),
    }
}

/// Page by page it is the same log, and no task is torn in two.
#[tokio::test]
async fn a_log_can_be_had_page_by_page() {
    let bench = Bench::new().await;
    for number in 0..700 {
        let _ = bench.queue.send(&acme(), keyed(number, &format!("k{number}"))).await.unwrap();
        let handed = lease_one(&bench.queue).await.unwrap();
        let _ = bench.queue.post(&acme(), id(number), handed.token, done("ok")).await.unwrap();
    }
    let whole = exported(&bench.queue).await;
    let (mut pages, mut after, mut text) = (0, None, String::new());
    loop {
        let (lines, next) = bench.queue.export_page(&acme(), after.as_ref()).await.unwrap();
        assert!(lines.len() <= 3 * 256);
        for line in &lines {
            text += &(serde_json::to_string(line).unwrap() + "\n");
        }
        pages += 1;
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert!(pages >= 6 && text == whole, "{pages}");
}
