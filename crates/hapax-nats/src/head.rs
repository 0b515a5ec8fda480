//! What stands in the header of a record's message: all that an index needs, so that following a bucket costs no bodies.

use data_encoding::BASE64URL_NOPAD;
use hapax_core::{Stamp, Tag};
use hapax_store::{Counted, Envelope};

pub(crate) const NAME: &str = "Hapax-Head";
const FORMAT: u8 = 1;
const SIZE: usize = 2 + 8 + 8 + 8 + 16 + 16 + 32 + 8;

const REMOVED: u8 = 1;
const TOMBSTONE: u8 = 2;
const IN_DOUBT: u8 = 4;
const LEASE: u8 = 8;
const EXPIRY: u8 = 16;
const PART: u8 = 32;
/// At the very end, where a program from before it does not look.
const WEIGHT: u8 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) stamp: Stamp,
    /// `None`: this marks a removal.
    pub(crate) listed: Option<Listed>,
    /// Where the envelope lies if it was too long.
    pub(crate) part: Option<[u8; 32]>,
}

/// What a record is listed under. The moments are settled: whoever writes knows the stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    pub(crate) surface: Tag,
    pub(crate) tenant: Tag,
    pub(crate) counted: Counted,
    pub(crate) lease_end: Option<Stamp>,
    pub(crate) expiry: Option<Stamp>,
    pub(crate) in_doubt: bool,
    /// 0 where a program has written that did not say.
    pub(crate) weight: u64,
}

impl Head {
    pub(crate) fn of(stamp: Stamp, record: Option<&Envelope>) -> Self {
        let listed = record.map(|record| Listed {
            surface: record.surface,
            tenant: record.tenant,
            counted: record.counted,
            lease_end: record.lease_end.map(|due| due.resolve(stamp)),
            expiry: record.expiry.map(|due| due.resolve(stamp)),
            in_doubt: record.in_doubt,
            weight: record.weight(),
        });
        Self { stamp, listed, part: None }
    }

    pub(crate) fn encode(&self) -> String {
        let mut flags = 0;
        let mut set = |flag: u8, on: bool| flags |= if on { flag } else { 0 };
        set(REMOVED, self.listed.is_none());
        set(PART, self.part.is_some());
        let (mut lease, mut expiry, mut weight, mut tags) = (0, 0, 0, [[0; 16]; 2]);
        if let Some(listed) = &self.listed {
            set(TOMBSTONE, listed.counted == Counted::Tombstone);
            set(IN_DOUBT, listed.in_doubt);
            set(LEASE, listed.lease_end.is_some());
            set(EXPIRY, listed.expiry.is_some());
            (lease, expiry) = (listed.lease_end.map_or(0, |at| at.0), listed.expiry.map_or(0, |at| at.0));
            tags = [listed.surface.0, listed.tenant.0];
            weight = listed.weight;
        }
        set(WEIGHT, weight > 0);
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.extend_from_slice(&[FORMAT, flags]);
        for number in [self.stamp.0, lease, expiry] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend(tags.iter().flatten());
        bytes.extend(self.part.iter().flatten());
        if weight > 0 {
            bytes.extend_from_slice(&weight.to_be_bytes());
        }
        BASE64URL_NOPAD.encode(&bytes)
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        let (front, rest) = bytes.split_first_chunk::<2>()?;
        let [FORMAT, flags] = *front else { return None };
        let (numbers, rest) = rest.split_first_chunk::<24>()?;
        let (tags, rest) = rest.split_first_chunk::<32>()?;
        let (numbers, _) = numbers.as_chunks::<8>();
        let (tags, _) = tags.as_chunks::<16>();
        let ([stamp, lease, expiry], [surface, tenant]) = (numbers, tags) else { return None };
        let has = |flag: u8| flags & flag != 0;
        let moment = |flag: u8, number: &[u8; 8]| has(flag).then(|| Stamp(u64::from_be_bytes(*number)));
        let (part, rest) = if has(PART) {
            let (part, rest) = rest.split_first_chunk()?;
            (Some(*part), rest)
        } else {
            (None, rest)
        };
        let weight = if has(WEIGHT) { u64::from_be_bytes(*rest.first_chunk()?) } else { 0 };
        let listed = (!has(REMOVED)).then(|| Listed {
            surface: Tag(*surface),
            tenant: Tag(*tenant),
            counted: if has(TOMBSTONE) { Counted::Tombstone } else { Counted::Record },
            lease_end: moment(LEASE, lease),
            expiry: moment(EXPIRY, expiry),
            in_doubt: has(IN_DOUBT),
            weight,
        });
        Some(Self { stamp: Stamp(u64::from_be_bytes(*stamp)), listed, part })
    }
}

#[cfg(test)]
mod tests {
    use hapax_store::Seeded;

    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_panics() {
        let mut dice = Seeded::new(Seeded::seed_or(3));
        for _ in 0..500 {
            let moment = |dice: &mut Seeded| dice.chance(500).then(|| Stamp(dice.next()));
            let listed = dice.chance(800).then(|| Listed {
                surface: Tag(dice.bytes()),
                tenant: Tag(dice.bytes()),
                counted: if dice.chance(500) { Counted::Record } else { Counted::Tombstone },
                lease_end: moment(&mut dice),
                expiry: moment(&mut dice),
                in_doubt: dice.chance(500),
                weight: dice.below(3) * dice.below(1 << 40),
            });
            let part = dice.chance(200).then(|| dice.bytes());
            let head = Head { stamp: Stamp(dice.next()), listed, part };
            let text = head.encode();
            assert_eq!(Head::decode(&text), Some(head));
            let short = text.get(..dice.below(text.len() as u64) as usize).unwrap();
            assert_ne!(Head::decode(short), Some(head));
        }
        assert_eq!(Head::decode("no head"), None);
        // A format that this program does not know.
        let mut bytes = BASE64URL_NOPAD.decode(Head::of(Stamp(1), None).encode().as_bytes()).unwrap();
        bytes[0] = 2;
        assert_eq!(Head::decode(&BASE64URL_NOPAD.encode(&bytes)), None);
    }
}
