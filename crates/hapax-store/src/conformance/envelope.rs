use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Version};

use super::{
    check::{Bench, Outcome},
    sample::{id, ids, random, record, tag},
    step::{full_only, put},
};
use crate::{Counted, Due, Entry, Envelope, Kind, List, Seeded, Store};

/// Every field at both its ends, and 200 at random.
fn samples(store: &dyn Store) -> Vec<Envelope> {
    let mut samples = vec![record(Bytes::new()), record(vec![0]), record(vec![0xFF; 300])];
    for number in [0, 1, 2, 3, 4, 5, 6, 77, u8::MAX] {
        samples.push(Envelope { kind: Kind(number), ..record("kind") });
    }
    for due in [
        Due::After(Millis(0)),
        Due::After(Millis(1)),
        Due::After(Millis(u64::MAX)),
        Due::At(Stamp(0)),
        Due::At(Stamp(u64::MAX)),
    ] {
        samples.push(Envelope { lease_end: Some(due), ..record("lease") });
        samples.push(Envelope { expiry: Some(due), ..record("expiry") });
    }
    // Nothing with a moment that has passed: such a record may be dropped at any time.
    for due in [Due::After(Millis::from_days(900)), Due::At(Stamp(u64::MAX))] {
        samples.push(Envelope { gone: Some(due), ..record("gone") });
    }
    samples.push(Envelope { in_doubt: true, counted: Counted::Tombstone, ..record("flags") });
    samples.push(Envelope { beside: 1, ..record("a body beside it") });
    samples.push(Envelope { beside: u64::MAX, ..record("as large a body as can be said") });
    let entry = |order| Entry { list: if order % 2 == 0 { List::Group } else { List::Queue }, tag: tag(9), order };
    samples.push(Envelope {
        entries: (0..Envelope::MOST_ENTRIES as u64).map(|number| entry(u64::MAX - number)).collect(),
        ..record("as many entries as there may be")
    });
    let mut dice = Seeded::new(200);
    samples.extend((0..200).map(|_| random(&mut dice)));
    if full_only(store).is_err() {
        for sample in &mut samples {
            sample.entries.clear();
        }
    }
    samples
}

pub(super) async fn comes_back_as_it_went(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let samples = samples(store.as_ref());
    let all = ids(samples.len() as u64);
    write_all(store.as_ref(), &all, &samples).await?;
    read_all(store.as_ref(), &all, &samples).await?;
    // And all in one place.
    let mut expected = Version::NEVER;
    for sample in &samples {
        expected = put(store.as_ref(), &id(9_999), expected, sample.clone()).await?;
        let held = store.get(&id(9_999)).await?.record;
        ensure!(held.as_ref() == Some(sample), "{sample:?} comes back as {held:?}");
    }
    Ok(())
}

pub(super) async fn may_be_large(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut dice = Seeded::new(1);
    let payload: Bytes = (0..1 << 20).map(|_| dice.next().to_le_bytes()[0]).collect();
    let version = put(store.as_ref(), &id(1), Version::NEVER, record(payload.clone())).await?;
    ensure!(store.get(&id(1)).await?.record == Some(record(payload)), "1 MiB does not come back as it went");
    put(store.as_ref(), &id(1), version, record("small again")).await?;
    ensure!(store.get(&id(1)).await?.record == Some(record("small again")), "a small record after a large one");
    Ok(())
}

pub(super) async fn comes_back_after_a_reopening(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let samples = samples(store.as_ref());
    let all = ids(samples.len() as u64);
    write_all(store.as_ref(), &all, &samples).await?;
    let store = bench.reopen(store).await?;
    read_all(store.as_ref(), &all, &samples).await
}

async fn write_all(store: &dyn Store, all: &[Id], samples: &[Envelope]) -> Outcome {
    for (id, sample) in all.iter().zip(samples) {
        put(store, id, Version::NEVER, sample.clone()).await?;
    }
    Ok(())
}

async fn read_all(store: &dyn Store, all: &[Id], samples: &[Envelope]) -> Outcome {
    for (id, sample) in all.iter().zip(samples) {
        let held = store.get(id).await?.record;
        ensure!(held.as_ref() == Some(sample), "{sample:?} comes back as {held:?}");
    }
    Ok(())
}
