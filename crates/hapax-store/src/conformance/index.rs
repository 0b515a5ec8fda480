use hapax_core::{Id, Millis, Stamp, Tag, Version};

use super::{
    check::{Bench, Outcome},
    sample::{id, ids, numbered, tag},
    step::{holds, ordered, overwrite, put, scan_all, write},
};
use crate::{Due, Envelope, Index, Store};

/// The two indexes of moments are alike but for the field that feeds them.
#[derive(Clone, Copy)]
enum Moment {
    LeaseEnd,
    Expiry,
}

impl Moment {
    fn record(self, due: Due) -> Envelope {
        match self {
            Self::LeaseEnd => Envelope { lease_end: Some(due), ..numbered(0) },
            Self::Expiry => Envelope { expiry: Some(due), ..numbered(0) },
        }
    }

    const fn until(self, until: Stamp) -> Index {
        match self {
            Self::LeaseEnd => Index::LeaseEnd { until },
            Self::Expiry => Index::Expiry { until },
        }
    }
}

const END: Stamp = Stamp(u64::MAX);

pub(super) async fn lease_end_counts_from_the_stamp_of_the_write(bench: Bench) -> Outcome {
    counts_from_the_stamp(bench, Moment::LeaseEnd).await
}

pub(super) async fn expiry_counts_from_the_stamp_of_the_write(bench: Bench) -> Outcome {
    counts_from_the_stamp(bench, Moment::Expiry).await
}

/// Resolved too late it is missed at its moment; resolved too early it comes before one that is earlier.
async fn counts_from_the_stamp(bench: Bench, moment: Moment) -> Outcome {
    let store = bench.open().await?;
    let span = Millis::from_secs(1_000);
    let (_, stamp) = write(store.as_ref(), &id(1), Version::NEVER, Some(moment.record(Due::After(span)))).await?;
    let end = stamp.plus(span);
    put(store.as_ref(), &id(2), Version::NEVER, moment.record(Due::At(Stamp(end.0 - 1)))).await?;
    put(store.as_ref(), &id(3), Version::NEVER, moment.record(Due::At(Stamp(end.0 + 1)))).await?;
    let found = scan_all(store.as_ref(), moment.until(end), 10).await?;
    holds(&found, &[id(1), id(2)], "until its very moment")?;
    let found = scan_all(store.as_ref(), moment.until(END), 10).await?;
    ordered(&found, &[id(2), id(1), id(3)], "around its moment")?;
    // And a later write counts anew from its own stamp.
    let (_, stamp) = overwrite(store.as_ref(), &id(1), Some(moment.record(Due::After(span)))).await?;
    holds(&scan_all(store.as_ref(), moment.until(stamp.plus(span)), 10).await?, &[id(1)], "after a second write")
}

pub(super) async fn moments_come_earliest_first(bench: Bench) -> Outcome {
    for moment in [Moment::LeaseEnd, Moment::Expiry] {
        let store = bench.open().await?;
        let all = ids(60);
        // Written in an order of no meaning.
        for step in 0..all.len() {
            let number = step * 37 % all.len();
            let due = Due::At(Stamp(1_000 + 10 * number as u64));
            put(store.as_ref(), &all[number], Version::NEVER, moment.record(due)).await?;
        }
        for limit in [1, 7, 60, 1_000] {
            ordered(&scan_all(store.as_ref(), moment.until(END), limit).await?, &all, "all moments")?;
            let half = scan_all(store.as_ref(), moment.until(Stamp(1_300)), limit).await?;
            ordered(&half, &all[..31], "the moments until the middle")?;
        }
    }
    Ok(())
}

pub(super) async fn a_moved_moment_is_found_where_it_is(bench: Bench) -> Outcome {
    for moment in [Moment::LeaseEnd, Moment::Expiry] {
        let store = bench.open().await?;
        for (id, at) in [(id(1), 1_000), (id(2), 2_000), (id(3), 3_000)] {
            put(store.as_ref(), &id, Version::NEVER, moment.record(Due::At(Stamp(at)))).await?;
        }
        overwrite(store.as_ref(), &id(1), Some(moment.record(Due::At(Stamp(4_000))))).await?;
        overwrite(store.as_ref(), &id(3), Some(moment.record(Due::At(Stamp(500))))).await?;
        holds(&scan_all(store.as_ref(), moment.until(Stamp(500)), 10).await?, &[id(3)], "moved forward")?;
        holds(&scan_all(store.as_ref(), moment.until(Stamp(4_000)), 10).await?, &[id(1)], "moved back")?;
        // Out of the index, and into it again.
        overwrite(store.as_ref(), &id(2), Some(numbered(0))).await?;
        overwrite(store.as_ref(), &id(2), None).await?;
        overwrite(store.as_ref(), &id(2), Some(moment.record(Due::At(Stamp(100))))).await?;
        holds(&scan_all(store.as_ref(), moment.until(Stamp(100)), 10).await?, &[id(2)], "removed and come again")?;
    }
    Ok(())
}

pub(super) async fn doubt_is_found(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(40);
    for id in &all {
        put(store.as_ref(), id, Version::NEVER, numbered(0)).await?;
    }
    let doubt = Envelope { in_doubt: true, ..numbered(1) };
    for id in &all[..20] {
        overwrite(store.as_ref(), id, Some(doubt.clone())).await?;
    }
    for limit in [1, 3, 100] {
        holds(&scan_all(store.as_ref(), Index::InDoubt, limit).await?, &all[..20], "records in doubt")?;
    }
    for id in &all[..10] {
        overwrite(store.as_ref(), id, Some(numbered(2))).await?;
    }
    overwrite(store.as_ref(), &all[12], Some(Envelope { payload: "still".into(), ..doubt })).await?;
    holds(&scan_all(store.as_ref(), Index::InDoubt, 3).await?, &all[10..20], "records still in doubt")
}

pub(super) async fn tenant_age_is_the_order_of_the_last_writes(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let of = |tenant: Tag| Envelope { tenant, ..numbered(0) };
    let all = ids(60);
    for (number, id) in all.iter().enumerate() {
        put(store.as_ref(), id, Version::NEVER, of(tag(10 + (number % 2) as u8))).await?;
    }
    let mut evens: Vec<Id> = all.iter().step_by(2).copied().collect();
    let odds: Vec<Id> = all.iter().skip(1).step_by(2).copied().collect();
    for limit in [1, 7, 100] {
        ordered(&scan_all(store.as_ref(), Index::TenantAge(tag(10)), limit).await?, &evens, "one tenant")?;
        ordered(&scan_all(store.as_ref(), Index::TenantAge(tag(11)), limit).await?, &odds, "the other tenant")?;
    }
    // The oldest becomes the youngest by being written, and a record goes along when its tenant changes.
    let oldest = evens.remove(0);
    overwrite(store.as_ref(), &oldest, Some(of(tag(10)))).await?;
    evens.push(oldest);
    overwrite(store.as_ref(), &odds[3], Some(of(tag(10)))).await?;
    evens.push(odds[3]);
    ordered(&scan_all(store.as_ref(), Index::TenantAge(tag(10)), 4).await?, &evens, "after two writes")
}

/// A page at a time, and between pages somebody writes: those that stay where they are, or move away from what was read
/// already, must all be met.
pub(super) async fn pages_miss_nothing_while_writes_go_on(bench: Bench) -> Outcome {
    let tenant = tag(10);
    let due = |at: u64| Some(Due::At(Stamp(at)));
    let sample = |at: u64| Envelope { tenant, lease_end: due(at), expiry: due(at), in_doubt: true, ..numbered(at) };
    for index in
        [Index::LeaseEnd { until: END }, Index::Expiry { until: END }, Index::InDoubt, Index::TenantAge(tenant)]
    {
        let store = bench.open().await?;
        let all = ids(300);
        for (number, id) in all.iter().enumerate() {
            put(store.as_ref(), id, Version::NEVER, sample(1_000 + number as u64 / 4)).await?;
        }
        let mut found = Vec::new();
        let mut after = None;
        let mut step: usize = 0;
        loop {
            let page = store.scan(index, after.as_ref(), 7).await?;
            found.extend(page.items);
            let Some(next) = page.next else { break };
            after = Some(next);
            step += 1;
            ensure!(step < 2_000, "a scan of {index:?} has no end while others write");
            if step < 100 {
                // One moves back, one comes, one comes and goes, one is written in its place.
                overwrite(store.as_ref(), &all[step * 83 % 300], Some(sample(2_000 + step as u64))).await?;
                overwrite(store.as_ref(), &id(1_000 + step as u64), Some(sample(1_000 + step as u64))).await?;
                let passing = id(5_000 + step as u64 % 3);
                overwrite(store.as_ref(), &passing, step.is_multiple_of(2).then(|| sample(1_500))).await?;
                let place = step * 31 % 300;
                let held = store.get(&all[place]).await?;
                overwrite(store.as_ref(), &all[place], held.record).await?;
            }
        }
        holds(&found, &all, &format!("{index:?} in pages while others write"))?;
    }
    Ok(())
}

pub(super) async fn is_there_after_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let all = ids(20);
    let span = Millis::from_secs(50);
    let mut last = Stamp(0);
    for id in &all {
        let sample = Envelope {
            tenant: tag(10),
            lease_end: Some(Due::After(span)),
            expiry: Some(Due::After(span)),
            in_doubt: true,
            ..numbered(0)
        };
        last = last.max(write(store.as_ref(), id, Version::NEVER, Some(sample)).await?.1);
    }
    let store = bench.reopen(store).await?;
    let store: &dyn Store = store.as_ref();
    let until = last.plus(span);
    holds(&scan_all(store, Index::LeaseEnd { until }, 6).await?, &all, "lease ends")?;
    holds(&scan_all(store, Index::Expiry { until }, 6).await?, &all, "expiries")?;
    holds(&scan_all(store, Index::InDoubt, 6).await?, &all, "doubt")?;
    ordered(&scan_all(store, Index::TenantAge(tag(10)), 6).await?, &all, "tenant age")
}
