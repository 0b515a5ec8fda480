//! Records to try a store with.

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{Counted, Envelope, Kind, Seeded, Store, Swap};

pub fn id(number: u64) -> Id {
    Id(Seeded::new(number ^ 0x7E57_1D00).bytes())
}

pub const fn tag(number: u8) -> Tag {
    Tag([number; 16])
}

pub fn record(payload: impl Into<Bytes>) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: tag(1),
        tenant: tag(2),
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: payload.into(),
    }
}

pub fn numbered(number: u64) -> Envelope {
    record(number.to_be_bytes().to_vec())
}

pub fn number_in(record: Option<&Envelope>) -> Option<u64> {
    Some(u64::from_be_bytes(record?.payload.as_ref().try_into().ok()?))
}

/// A write that has to go through.
pub async fn put(store: &dyn Store, id: &Id, expected: Version, next: Option<Envelope>) -> (Version, Stamp) {
    match store.swap(id, expected, next).await.unwrap() {
        Swap::Swapped { version, stamp } => (version, stamp),
        Swap::Conflict(held) => panic!("a swap that expects {expected} meets {held:?}"),
    }
}
