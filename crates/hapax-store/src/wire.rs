//! An envelope as bytes, for stores that keep it as one opaque value.
//!
//! A format byte, a CRC-32C of all that follows, a fixed head, in format 2 what lies beside it, the entries, the payload.
//! Every length is checked before anything is read. It is written in the oldest format that can hold it.

use bytes::Bytes;
use hapax_core::{Millis, Stamp, Tag};

use crate::{Counted, Due, Entry, Envelope, Kind, List};

const FORMAT: u8 = 1;
/// With bodies beside it.
const HEAVY: u8 = 2;
/// Format and checksum.
const FRONT: usize = 5;
/// Kind, flags, number of entries, two tags, three moments.
const HEAD: usize = 3 + 32 + 3 * 9;
const BESIDE: usize = 8;
const ENTRY: usize = 1 + 16 + 8;

const TOMBSTONE: u8 = 1;
const IN_DOUBT: u8 = 2;

/// Why bytes are not an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    #[error("it is cut short")]
    Short,
    #[error("its checksum does not fit")]
    Checksum,
    #[error("it is in format {0}, which is newer than this program; update the program")]
    Newer(u8),
    #[error("its {0} has a value that means nothing")]
    Invalid(&'static str),
}

#[must_use]
pub fn encode(envelope: &Envelope) -> Vec<u8> {
    let format = if envelope.beside == 0 { FORMAT } else { HEAVY };
    let size = FRONT + HEAD + BESIDE + envelope.entries.len() * ENTRY + envelope.payload.len();
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(&[format, 0, 0, 0, 0, envelope.kind.0, flags(envelope)]);
    // No store keeps more than `Envelope::MOST_ENTRIES`.
    bytes.push(u8::try_from(envelope.entries.len()).unwrap_or(u8::MAX));
    bytes.extend_from_slice(&envelope.surface.0);
    bytes.extend_from_slice(&envelope.tenant.0);
    for due in [envelope.lease_end, envelope.expiry, envelope.gone] {
        let (kind, value) = match due {
            None => (0, 0),
            Some(Due::After(span)) => (1, span.0),
            Some(Due::At(at)) => (2, at.0),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&value.to_be_bytes());
    }
    if format == HEAVY {
        bytes.extend_from_slice(&envelope.beside.to_be_bytes());
    }
    for entry in envelope.entries.iter().take(usize::from(u8::MAX)) {
        bytes.push(entry.list as u8);
        bytes.extend_from_slice(&entry.tag.0);
        bytes.extend_from_slice(&entry.order.to_be_bytes());
    }
    bytes.extend_from_slice(&envelope.payload);
    let checksum = crc32c::crc32c(&bytes[FRONT..]);
    bytes[1..FRONT].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// Reads back what [`encode`] wrote. The payload is a part of the bytes that were given, not a copy.
pub fn decode(bytes: &Bytes) -> Result<Envelope, WireError> {
    let format = *bytes.first().ok_or(WireError::Short)?;
    if format > HEAVY {
        return Err(WireError::Newer(format));
    }
    if format < FORMAT {
        return Err(WireError::Invalid("format"));
    }
    let rest = bytes.get(FRONT..).ok_or(WireError::Short)?;
    if bytes[1..FRONT] != crc32c::crc32c(rest).to_be_bytes() {
        return Err(WireError::Checksum);
    }
    let mut reader = Reader(rest);
    let [kind, flags, count] = reader.take()?;
    if flags & !(TOMBSTONE | IN_DOUBT) != 0 {
        return Err(WireError::Invalid("flags"));
    }
    let (surface, tenant) = (Tag(reader.take()?), Tag(reader.take()?));
    let (lease_end, expiry, gone) = (reader.due()?, reader.due()?, reader.due()?);
    let beside = if format == HEAVY { u64::from_be_bytes(reader.take()?) } else { 0 };
    let entries = (0..count).map(|_| reader.entry()).collect::<Result<_, _>>()?;
    Ok(Envelope {
        kind: Kind(kind),
        surface,
        tenant,
        counted: if flags & TOMBSTONE == 0 { Counted::Record } else { Counted::Tombstone },
        lease_end,
        expiry,
        gone,
        in_doubt: flags & IN_DOUBT != 0,
        entries,
        beside,
        payload: bytes.slice(bytes.len() - reader.0.len()..),
    })
}

const fn flags(envelope: &Envelope) -> u8 {
    let tombstone = match envelope.counted {
        Counted::Record => 0,
        Counted::Tombstone => TOMBSTONE,
    };
    tombstone | if envelope.in_doubt { IN_DOUBT } else { 0 }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn due(&mut self) -> Result<Option<Due>, WireError> {
        let [kind] = self.take()?;
        let value = u64::from_be_bytes(self.take()?);
        match kind {
            0 => Ok(None),
            1 => Ok(Some(Due::After(Millis(value)))),
            2 => Ok(Some(Due::At(Stamp(value)))),
            _ => Err(WireError::Invalid("moment")),
        }
    }

    fn entry(&mut self) -> Result<Entry, WireError> {
        let list = match self.take()? {
            [1] => List::Group,
            [2] => List::Queue,
            _ => return Err(WireError::Invalid("list")),
        };
        Ok(Entry { list, tag: Tag(self.take()?), order: u64::from_be_bytes(self.take()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seeded;

    fn sample(dice: &mut Seeded) -> Envelope {
        let due = |dice: &mut Seeded| match dice.below(3) {
            0 => None,
            1 => Some(Due::After(Millis(dice.next()))),
            _ => Some(Due::At(Stamp(dice.next()))),
        };
        let entries = (0..dice.below(9)).map(|_| Entry {
            list: if dice.chance(500) { List::Group } else { List::Queue },
            tag: Tag(dice.bytes()),
            order: dice.next(),
        });
        Envelope {
            entries: entries.collect(),
            kind: Kind(dice.below(256) as u8),
            surface: Tag(dice.bytes()),
            tenant: Tag(dice.bytes()),
            counted: if dice.chance(500) { Counted::Record } else { Counted::Tombstone },
            lease_end: due(dice),
            expiry: due(dice),
            gone: due(dice),
            in_doubt: dice.chance(500),
            beside: if dice.chance(500) { 0 } else { dice.next() },
            payload: (0..dice.below(100)).map(|byte| byte as u8).collect(),
        }
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else_is() {
        let mut dice = Seeded::new(Seeded::seed_or(1));
        for _ in 0..300 {
            let envelope = sample(&mut dice);
            let bytes = Bytes::from(encode(&envelope));
            assert_eq!(decode(&bytes), Ok(envelope.clone()));
            // Cut short, or with any one bit turned, it is refused and nobody panics.
            let short = bytes.slice(..dice.below(bytes.len() as u64) as usize);
            assert!(decode(&short).is_err());
            let mut turned = bytes.to_vec();
            let place = dice.below(turned.len() as u64) as usize;
            turned[place] ^= 1 << dice.below(8);
            assert!(decode(&Bytes::from(turned)).is_err(), "a turned bit in byte {place}");
        }
    }

    /// Old rows must be readable for ever: these bytes may not change.
    #[test]
    fn the_first_format_stays_as_it_is() {
        let envelope = Envelope {
            kind: Kind::TASK,
            surface: Tag([0xAA; 16]),
            tenant: Tag([0xBB; 16]),
            counted: Counted::Tombstone,
            lease_end: Some(Due::After(Millis(5))),
            expiry: Some(Due::At(Stamp(6))),
            gone: None,
            in_doubt: true,
            entries: vec![Entry { list: List::Queue, tag: Tag([0xCC; 16]), order: 7 }],
            beside: 0,
            payload: Bytes::from_static(b"pay"),
        };
        let head = "03".to_owned() + "03" + "01" + &"aa".repeat(16) + &"bb".repeat(16);
        let moments = "010000000000000005".to_owned() + "020000000000000006" + "000000000000000000";
        let entry = "02".to_owned() + &"cc".repeat(16) + "0000000000000007";
        let rest: String = head + &moments + &entry + "706179";
        let bytes = encode(&envelope);
        let shown: String = bytes[FRONT..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, rest);
        assert_eq!(bytes[0], 1);
        assert_eq!(decode(&Bytes::from(bytes)), Ok(envelope));
    }

    #[test]
    fn the_second_format_says_what_lies_beside_it() {
        let first = Envelope {
            kind: Kind::OPERATION,
            surface: Tag([0xAA; 16]),
            tenant: Tag([0xBB; 16]),
            counted: Counted::Record,
            lease_end: None,
            expiry: None,
            gone: None,
            in_doubt: false,
            entries: Vec::new(),
            beside: 0,
            payload: Bytes::from_static(b"pay"),
        };
        let second = Envelope { beside: 0x0102, ..first.clone() };
        let (plain, heavy) = (encode(&first), encode(&second));
        assert_eq!((plain[0], heavy[0]), (1, 2));
        assert_eq!(&heavy[FRONT..FRONT + HEAD], &plain[FRONT..FRONT + HEAD]);
        assert_eq!(&heavy[FRONT + HEAD..], b"\0\0\0\0\0\0\x01\x02pay");
        assert_eq!(decode(&Bytes::from(heavy)), Ok(second));
    }

    #[test]
    fn a_newer_format_is_said_to_be_newer() {
        assert_eq!(decode(&Bytes::from_static(&[9, 0, 0, 0, 0])), Err(WireError::Newer(9)));
        assert_eq!(decode(&Bytes::new()), Err(WireError::Short));
    }
}
