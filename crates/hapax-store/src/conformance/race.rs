use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hapax_core::Version;
use tokio::sync::Barrier;

use super::{
    check::{Bench, Halt, Outcome},
    sample::{id, ids, number_in, numbered},
    step::{overwrite, put, swap},
};
use crate::{Seeded, Swap};

pub(super) async fn a_first_write_has_one_winner(bench: Bench) -> Outcome {
    const TASKS: u64 = 16;
    let store = bench.open().await?;
    for round in 0..30 {
        let start = Arc::new(Barrier::new(TASKS as usize));
        let mut tasks = Vec::new();
        for task in 0..TASKS {
            let (store, start) = (Arc::clone(&store), Arc::clone(&start));
            tasks.push(tokio::spawn(async move {
                start.wait().await;
                swap(store.as_ref(), &id(round), Version::NEVER, Some(numbered(task))).await
            }));
        }
        let mut winners = Vec::new();
        let mut shown = Vec::new();
        for (task, number) in tasks.into_iter().zip(0..) {
            match task.await?? {
                Swap::Swapped { version, .. } => winners.push((version, number)),
                Swap::Conflict(snapshot) => shown.push((snapshot.version, number_in(snapshot.record.as_ref()))),
            }
        }
        let [(version, winner)] = winners[..] else {
            return Err(Halt::Failed(format!("{} of {TASKS} first writes went through", winners.len())));
        };
        let agreed = shown.iter().all(|shown| *shown == (version, Some(winner)));
        ensure!(agreed, "the winner is {winner} at {version}, and the others were shown {shown:?}");
    }
    Ok(())
}

pub(super) async fn each_version_has_one_winner(bench: Bench) -> Outcome {
    const TASKS: u64 = 8;
    const EACH: u64 = 50;
    let store = bench.open().await?;
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            // Each won swap adds one to the number in the record, so a lost or doubled one shows in the sum.
            let mut won = Vec::new();
            let mut held = store.get(&id(1)).await?;
            while (won.len() as u64) < EACH {
                let next = number_in(held.record.as_ref()).unwrap_or(0) + 1;
                match swap(store.as_ref(), &id(1), held.version, Some(numbered(next))).await? {
                    Swap::Swapped { version, .. } => {
                        won.push((held.version, version, next));
                        tokio::task::yield_now().await;
                        held = store.get(&id(1)).await?;
                    }
                    Swap::Conflict(current) => {
                        ensure!(current.version > held.version, "a conflict shows the very version that was expected");
                        held = current;
                    }
                }
            }
            Ok::<_, Halt>(won)
        }));
    }
    let mut chain = BTreeMap::new();
    for task in tasks {
        for (expected, version, number) in task.await?? {
            let earlier = chain.insert(expected, (version, number));
            ensure!(earlier.is_none(), "two swaps that expect version {expected} went through");
        }
    }
    let mut last = Version::NEVER;
    for number in 1..=TASKS * EACH {
        let Some((version, wrote)) = chain.get(&last) else {
            return Err(Halt::Failed(format!("no swap expected version {last}, yet it was not the last")));
        };
        ensure!(*wrote == number, "the swap on version {last} wrote {wrote}, not {number}: it had read something else");
        last = *version;
    }
    let held = store.get(&id(1)).await?;
    ensure!(held.version == last, "the last version is {}, the last swap was answered {last}", held.version);
    Ok(())
}

pub(super) async fn many_ids_at_once(bench: Bench) -> Outcome {
    const TASKS: u64 = 8;
    let store = bench.open().await?;
    let all = Arc::new(ids(40));
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (store, all) = (Arc::clone(&store), Arc::clone(&all));
        tasks.push(tokio::spawn(async move {
            let mut dice = Seeded::new(task);
            let mut added = BTreeMap::new();
            for _ in 0..100 {
                let id = *dice.pick(&all).unwrap_or(&all[0]);
                let mut held = store.get(&id).await?;
                loop {
                    let next = number_in(held.record.as_ref()).unwrap_or(0) + 1;
                    match swap(store.as_ref(), &id, held.version, Some(numbered(next))).await? {
                        Swap::Swapped { .. } => break,
                        Swap::Conflict(current) => held = current,
                    }
                }
                *added.entry(id).or_insert(0) += 1;
                tokio::task::yield_now().await;
            }
            Ok::<_, Halt>(added)
        }));
    }
    let mut sums = BTreeMap::new();
    for task in tasks {
        for (id, added) in task.await?? {
            *sums.entry(id).or_insert(0) += added;
        }
    }
    for (id, sum) in sums {
        let held = number_in(store.get(&id).await?.record.as_ref());
        ensure!(held == Some(sum), "{sum} additions to one id come to {held:?}");
    }
    Ok(())
}

pub(super) async fn a_swap_is_seen_by_every_later_read(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    put(store.as_ref(), &id(1), Version::NEVER, numbered(0)).await?;
    // The highest version whose answer has arrived: every read that begins afterwards must reach it.
    let answered = Arc::new(AtomicU64::new(0));
    let mut readers = Vec::new();
    for _ in 0..4 {
        let (store, answered) = (Arc::clone(&store), Arc::clone(&answered));
        readers.push(tokio::spawn(async move {
            loop {
                let floor = answered.load(Ordering::SeqCst);
                if floor == u64::MAX {
                    return Ok::<(), Halt>(());
                }
                let held = store.get(&id(1)).await?;
                ensure!(held.version.0 >= floor, "reads version {} after {floor} was answered", held.version);
                tokio::task::yield_now().await;
            }
        }));
    }
    for number in 0..500 {
        let (version, _) = overwrite(store.as_ref(), &id(1), Some(numbered(number))).await?;
        answered.store(version.0, Ordering::SeqCst);
        tokio::task::yield_now().await;
    }
    answered.store(u64::MAX, Ordering::SeqCst);
    for reader in readers {
        reader.await??;
    }
    Ok(())
}
