use std::collections::BTreeMap;

use bytes::Bytes;
use hapax_core::Id;

use super::{
    check::{Bench, Halt, Outcome},
    sample::id,
};
use crate::{BodyId, BodyInfo, Store};

fn name(number: u64) -> BodyId {
    BodyId(id(1_000_000 + number).0)
}

fn text(number: u64) -> Bytes {
    Bytes::from(format!("body {number}"))
}

pub(super) async fn is_read_back(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    ensure!(store.get_body(name(0)).await?.is_none(), "a body that was never stored is there");
    for (number, bytes) in [(0, Bytes::new()), (1, text(1)), (2, Bytes::from(vec![0xA5; 4 << 20]))] {
        store.put_body(&id(number), name(number), bytes.clone()).await?;
        let length = bytes.len();
        ensure!(store.get_body(name(number)).await? == Some(bytes), "a body of {length} bytes is not read back");
    }
    Ok(())
}

pub(super) async fn a_repeat_is_harmless(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    for _ in 0..3 {
        store.put_body(&id(1), name(1), text(1)).await?;
    }
    ensure!(store.get_body(name(1)).await? == Some(text(1)), "a body stored thrice is not read back");
    let listed = list(store.as_ref(), 10).await?;
    ensure!(listed.len() == 1, "a body stored thrice is listed as {} bodies", listed.len());
    store.drop_body(name(1)).await?;
    ensure!(store.get_body(name(1)).await?.is_none(), "a body stored thrice has to be dropped more than once");
    Ok(())
}

pub(super) async fn a_dropped_one_is_gone(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    store.drop_body(name(1)).await?;
    store.put_body(&id(1), name(1), text(1)).await?;
    store.put_body(&id(2), name(2), text(2)).await?;
    store.drop_body(name(1)).await?;
    store.drop_body(name(1)).await?;
    ensure!(store.get_body(name(1)).await?.is_none(), "a dropped body is read");
    ensure!(store.get_body(name(2)).await? == Some(text(2)), "another body went along");
    ensure!(!list(store.as_ref(), 10).await?.contains_key(&name(1)), "a dropped body is listed");
    store.put_body(&id(1), name(1), text(1)).await?;
    ensure!(store.get_body(name(1)).await? == Some(text(1)), "a dropped body cannot be stored again");
    Ok(())
}

pub(super) async fn all_are_listed(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    fill(store.as_ref()).await?;
    for limit in [1, 7, 1_000] {
        as_filled(store.as_ref(), limit).await?;
    }
    // The sweep drops while it lists.
    let mut after = None;
    let mut met = 0;
    loop {
        let page = store.bodies(after.as_ref(), 3).await?;
        for info in &page.items {
            store.drop_body(info.body).await?;
            met += 1;
        }
        ensure!(met <= COUNT, "a list of bodies has no end while they are dropped");
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    ensure!(met == COUNT, "{met} of {COUNT} bodies are listed while they are dropped");
    Ok(())
}

pub(super) async fn is_there_after_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    fill(store.as_ref()).await?;
    store.put_body(&id(0), name(COUNT), text(0)).await?;
    store.drop_body(name(COUNT)).await?;
    let store = bench.reopen(store).await?;
    as_filled(store.as_ref(), 7).await?;
    ensure!(store.get_body(name(COUNT)).await?.is_none(), "a dropped body came back");
    Ok(())
}

const COUNT: u64 = 40;

async fn fill(store: &dyn Store) -> Outcome {
    for number in 0..COUNT {
        store.put_body(&owner(number), name(number), text(number)).await?;
    }
    Ok(())
}

fn owner(number: u64) -> Id {
    id(number / 2)
}

async fn as_filled(store: &dyn Store, limit: usize) -> Outcome {
    let listed = list(store, limit).await?;
    ensure!(listed.len() as u64 == COUNT, "{} of {COUNT} bodies are listed", listed.len());
    for number in 0..COUNT {
        let Some(info) = listed.get(&name(number)) else {
            return Err(Halt::Failed(format!("body {number} is not listed")));
        };
        ensure!(info.owner == owner(number), "body {number} is listed for another owner");
        ensure!(info.length == text(number).len() as u64, "body {number} is listed with {} bytes", info.length);
        ensure!(store.get_body(name(number)).await? == Some(text(number)), "body {number} is not read back");
    }
    Ok(())
}

async fn list(store: &dyn Store, limit: usize) -> Result<BTreeMap<BodyId, BodyInfo>, Halt> {
    let mut listed = BTreeMap::new();
    let mut after = None;
    for _ in 0..10_000 {
        let page = store.bodies(after.as_ref(), limit).await?;
        ensure!(page.items.len() <= limit, "{} bodies where at most {limit} were asked for", page.items.len());
        listed.extend(page.items.into_iter().map(|info| (info.body, info)));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(listed),
        }
    }
    Err(Halt::Failed("the list of bodies has no end".into()))
}
