use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_store::{Counted, Due, Envelope, Kind, Store, Swap};

/// How many writers share the work, so that one sync serves many.
const WRITERS: u64 = 512;

pub(crate) fn id(number: u64) -> Id {
    Id::derived("bench", &[&number.to_be_bytes()])
}

/// Writes so many final records that stay for a day.
pub(crate) fn fill(store: &Arc<impl Store>, numbers: Range<u64>, body: usize) {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build() else { return };
    let payload = Bytes::from(vec![7; body + 200]);
    runtime.block_on(async {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, payload, numbers) = (Arc::clone(store), payload.clone(), numbers.clone());
                tokio::spawn(async move {
                    for number in numbers.skip(writer as usize).step_by(WRITERS as usize) {
                        let written = store.swap(&id(number), Version::NEVER, Some(record(payload.clone()))).await;
                        assert!(matches!(written, Ok(Swap::Swapped { .. })), "{written:?}");
                    }
                })
            })
            .collect();
        for writer in writers {
            let _panicked = writer.await;
        }
    });
}

fn record(payload: Bytes) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([1; 16]),
        tenant: Tag([2; 16]),
        counted: Counted::Record,
        lease_end: None,
        expiry: Some(Due::After(Millis::from_hours(24))),
        gone: Some(Due::After(Millis::from_hours(24))),
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload,
    }
}
