use hapax_core::{Id, Tag, Version};

use super::{
    check::{Bench, Outcome},
    sample::{ids, numbered, tag},
    step::{full_only, holds, ordered, overwrite, put, scan_all},
};
use crate::{Entry, Envelope, Index, List};

fn listed(entries: &[(List, Tag, u64)]) -> Envelope {
    let entries = entries.iter().map(|&(list, tag, order)| Entry { list, tag, order }).collect();
    Envelope { entries, ..numbered(0) }
}

pub(super) async fn groups_hold_their_members(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    full_only(store.as_ref())?;
    let all = ids(30);
    for (number, id) in all.iter().enumerate() {
        let own = tag(10 + (number % 2) as u8);
        let sample = listed(&[(List::Group, own, number as u64), (List::Group, tag(20), 100 - number as u64)]);
        put(store.as_ref(), id, Version::NEVER, sample).await?;
    }
    let evens: Vec<Id> = all.iter().step_by(2).copied().collect();
    let backwards: Vec<Id> = all.iter().rev().copied().collect();
    for limit in [1, 4, 100] {
        ordered(&scan_all(store.as_ref(), Index::Group(tag(10)), limit).await?, &evens, "a group")?;
        ordered(&scan_all(store.as_ref(), Index::Group(tag(20)), limit).await?, &backwards, "a group of all")?;
    }
    Ok(())
}

pub(super) async fn a_queue_keeps_its_order(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    full_only(store.as_ref())?;
    let all = ids(60);
    let mut wanted: Vec<(u64, Id)> = Vec::new();
    for (number, id) in all.iter().enumerate() {
        // Many share a place: then the id decides. The ends of the range are places like any other.
        let order = match number {
            0 => u64::MAX,
            1 => 0,
            _ => (number as u64 * 37 % 60) / 5,
        };
        let sample = listed(&[(List::Queue, tag(10), order), (List::Group, tag(10), 7)]);
        put(store.as_ref(), id, Version::NEVER, sample).await?;
        wanted.push((order, *id));
    }
    wanted.sort_unstable();
    let wanted: Vec<Id> = wanted.into_iter().map(|(_, id)| id).collect();
    for limit in [1, 4, 100] {
        ordered(&scan_all(store.as_ref(), Index::Queue(tag(10)), limit).await?, &wanted, "a queue")?;
    }
    Ok(())
}

pub(super) async fn an_entry_goes_when_its_record_lets_it_go(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    full_only(store.as_ref())?;
    let all = ids(10);
    for (number, id) in all.iter().enumerate() {
        put(store.as_ref(), id, Version::NEVER, listed(&[(List::Queue, tag(10), number as u64)])).await?;
    }
    // Requeued at the end, into another queue as well, and into another altogether.
    overwrite(store.as_ref(), &all[0], Some(listed(&[(List::Queue, tag(10), 99)]))).await?;
    overwrite(store.as_ref(), &all[1], Some(listed(&[(List::Queue, tag(10), 1), (List::Queue, tag(11), 5)]))).await?;
    overwrite(store.as_ref(), &all[2], Some(listed(&[(List::Queue, tag(11), 4)]))).await?;
    overwrite(store.as_ref(), &all[3], None).await?;
    let wanted = [all[1], all[4], all[5], all[6], all[7], all[8], all[9]];
    let found = scan_all(store.as_ref(), Index::Queue(tag(10)), 3).await?;
    ordered(&found, &wanted, "the queue that some left")?;
    // It may be met at its old place too, but it must be met at the new one, behind all others.
    ensure!(
        found.iter().rposition(|id| *id == all[0]) > found.iter().position(|id| *id == all[9]),
        "requeued too early"
    );
    holds(&scan_all(store.as_ref(), Index::Queue(tag(11)), 3).await?, &[all[2], all[1]], "the queue that some joined")
}
