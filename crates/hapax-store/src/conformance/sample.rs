//! Records to try a store with.

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag};

use crate::{Counted, Due, Entry, Envelope, Kind, List, Seeded};

pub(super) const SURFACE: Tag = tag(1);
pub(super) const TENANT: Tag = tag(2);

/// Neighbours in every byte order differ early and late, as digests do.
pub(super) fn id(number: u64) -> Id {
    Id(Seeded::new(number).bytes())
}

pub(super) fn ids(count: u64) -> Vec<Id> {
    (0..count).map(id).collect()
}

pub(super) const fn tag(number: u8) -> Tag {
    let mut bytes = [number; 16];
    bytes[0] = !number;
    Tag(bytes)
}

pub(super) fn record(payload: impl Into<Bytes>) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: SURFACE,
        tenant: TENANT,
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

pub(super) fn numbered(number: u64) -> Envelope {
    record(number.to_be_bytes().to_vec())
}

pub(super) fn number_in(record: Option<&Envelope>) -> Option<u64> {
    Some(u64::from_be_bytes(record?.payload.as_ref().try_into().ok()?))
}

pub(super) fn random(dice: &mut Seeded) -> Envelope {
    let kinds = [Kind::OPERATION, Kind::GROUP, Kind::TASK, Kind::BEAT, Kind::PLAN, Kind::MEMO];
    let due = |dice: &mut Seeded| match dice.below(4) {
        0 => None,
        1 => Some(Due::At(Stamp(dice.next() >> dice.below(64)))),
        2 => Some(Due::After(Millis(dice.next() >> dice.below(64)))),
        _ => Some(Due::After(Millis(dice.below(100_000)))),
    };
    let entries = (0..dice.below(Envelope::MOST_ENTRIES as u64 + 1))
        .map(|_| Entry {
            list: if dice.chance(500) { List::Group } else { List::Queue },
            tag: Tag(dice.bytes()),
            order: dice.next() >> dice.below(64),
        })
        .collect();
    let length = dice.below(2_000);
    Envelope {
        kind: dice.pick(&kinds).copied().unwrap_or(Kind::OPERATION),
        surface: Tag(dice.bytes()),
        tenant: Tag(dice.bytes()),
        counted: if dice.chance(500) { Counted::Record } else { Counted::Tombstone },
        lease_end: due(dice),
        expiry: due(dice),
        gone: None,
        in_doubt: dice.chance(500),
        entries,
        beside: if dice.chance(500) { 0 } else { dice.next() >> (24 + dice.below(40)) },
        payload: (0..length).map(|_| dice.next().to_le_bytes()[0]).collect(),
    }
}
