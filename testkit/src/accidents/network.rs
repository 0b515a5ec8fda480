use std::{sync::Arc, time::Duration};

use hapax_core::{Id, Version};
use hapax_store::{StoreError, Swap, Watch};
use tokio::time::{Instant, timeout};

use super::{Open, PATIENCE, eventually};
use crate::{
    Proxy,
    sample::{id, number_in, numbered, put},
};

/// While nothing tells them, stores wake whoever waits every 250 ms to read for itself. Half of that is not reached so, nor
/// missed by a wake-up on a machine that has other things to do.
const PROMPT: Duration = Duration::from_millis(120);

/// The write happens, its answer does not arrive. The caller is told that nobody knows, reads, and finds its own write.
pub async fn a_lost_answer_is_unknown_and_can_be_recognised(open: Open<'_>, port: u16) {
    let proxy = Proxy::before(port).await;
    let through = open(proxy.port()).await;
    for number in 1..4 {
        // A connection is made, and the statement known to it, before anything is lost.
        for warm in 0..6 {
            put(through.as_ref(), &id(100 * number + warm), Version::NEVER, Some(numbered(0))).await;
        }
        let lost = proxy.answers_lost();
        proxy.lose_next_answer();
        let fate = through.swap(&id(number), Version::NEVER, Some(numbered(number))).await;
        assert_eq!(proxy.answers_lost(), lost + 1, "the answer was to be lost");
        assert!(matches!(fate, Err(StoreError::Unknown { .. })), "{fate:?}");
        let mut held = through.get(&id(number)).await;
        for _ in 0..10 {
            // What shared the connection with the lost answer fails too; reading again is free.
            if held.is_err() {
                held = through.get(&id(number)).await;
            }
        }
        assert_eq!(number_in(held.unwrap().record.as_ref()), Some(number), "the write had happened");
    }
}

/// The server cannot be reached for a while. Every call says so, and the store works again without being opened anew.
pub async fn a_cut_connection_comes_back(open: Open<'_>, port: u16) {
    let proxy = Proxy::before(port).await;
    let through = open(proxy.port()).await;
    let (version, _) = put(through.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await;
    proxy.down();
    for _ in 0..5 {
        let read = through.get(&id(1)).await;
        assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    }
    let write = through.swap(&id(1), version, Some(numbered(2))).await;
    let error = write.expect_err("nobody can be reached");
    assert!(matches!(error, StoreError::Unavailable { .. }), "without a connection nothing was sent: {error}");
    let said = error.to_string();
    assert!(said.contains("swap") && said.contains("127.0.0.1") && said.contains("check"), "{said}");
    proxy.mend();
    let write = through.swap(&id(1), version, Some(numbered(2))).await.unwrap();
    assert!(matches!(write, Swap::Swapped { .. }), "{write:?}");
    // And when it is only cut: one call may fail, the next does not.
    for _ in 0..5 {
        proxy.cut();
        eventually("it reads again", async || through.get(&id(1)).await.is_ok()).await;
    }
}

/// One process waits, another completes. It must be told, and not just look now and then: that would pass for a wake-up
/// where only patience is asked for.
pub async fn wakes_reach_other_processes(open: Open<'_>, port: u16) {
    let (one, other) = (open(port).await, open(port).await);
    let woken = async |watch: &mut Box<dyn Watch>, key: &Id, number: u64| loop {
        timeout(PATIENCE, watch.changed()).await.expect("woken by each write");
        if number_in(one.get(key).await.unwrap().record.as_ref()) == Some(number) {
            return;
        }
    };
    let mut took = Vec::new();
    for key in (1..=4).map(id) {
        let (mut watch, mut version) = (one.watch(&key).await.unwrap(), Version::NEVER);
        // From the third on each follows a wake-up: whoever looks now and then has just looked, and does not soon again.
        for number in 1..=8 {
            (version, _) = put(other.as_ref(), &key, version, Some(numbered(number))).await;
            let since = Instant::now();
            woken(&mut watch, &key, number).await;
            took.push(since.elapsed());
        }
    }
    took.sort_unstable();
    let median = took[took.len() / 2];
    assert!(median < PROMPT, "whoever waits is not told, and looks by itself: {took:?}");
}

/// The connection that carries wake-ups is lost while somebody waits, and the change happens before it is back. Whoever
/// waits must come to see it all the same, and be woken as ever afterwards.
pub async fn a_watch_outlives_its_connection(open: Open<'_>, port: u16) {
    let proxy = Proxy::before(port).await;
    let (through, direct) = (open(proxy.port()).await, open(port).await);
    let (mut version, _) = put(direct.as_ref(), &id(1), Version::NEVER, Some(numbered(0))).await;
    for round in 1..4 {
        let mut watch = through.watch(&id(1)).await.unwrap();
        let reader = Arc::clone(&through);
        let follower = tokio::spawn(async move {
            // It only reads when it is woken; what it cannot read, it reads when it is woken again.
            loop {
                watch.changed().await;
                let held = reader.get(&id(1)).await.ok().and_then(|held| number_in(held.record.as_ref()));
                if held == Some(round) {
                    return;
                }
            }
        });
        if round == 2 {
            proxy.cut();
        } else {
            proxy.down();
        }
        (version, _) = put(direct.as_ref(), &id(1), version, Some(numbered(round))).await;
        proxy.mend();
        timeout(PATIENCE, follower).await.expect("it sees the change").unwrap();
    }
}
