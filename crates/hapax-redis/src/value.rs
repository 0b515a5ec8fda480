//! What is stored under a record's key, and what is told to the script about its index entries.

use bytes::Bytes;
use hapax_core::{Stamp, Tag, Version};
use hapax_store::{Counted, Due, Envelope, List, Snapshot, wire};

/// Scores are floating point numbers: whole ones are exact up to here. A moment beyond it is three hundred thousand years
/// away, and comes too early by no more than that.
pub(crate) const LARGEST: u64 = (1 << 53) - 1;

/// What a record is counted and listed under, for as long as it stays there: a letter, surface, tenant, and the lists.
fn tags(envelope: &Envelope, into: &mut Vec<u8>) {
    into.push(letter(envelope.counted));
    into.extend_from_slice(&envelope.surface.0);
    into.extend_from_slice(&envelope.tenant.0);
    for entry in &envelope.entries {
        into.push(match entry.list {
            List::Group => b'g',
            List::Queue => b'q',
        });
        into.extend_from_slice(&entry.tag.0);
        into.extend_from_slice(&entry.order.to_be_bytes());
    }
}

fn moment(due: Option<Due>) -> [u8; 9] {
    let (how, number) = match due {
        None => (b'-', 0),
        // Beside a stamp it must not run over.
        Some(Due::After(span)) if span.0 < LARGEST / 2 => (b'+', span.0),
        Some(Due::After(_)) => (b'=', LARGEST),
        Some(Due::At(at)) => (b'=', at.0.min(LARGEST)),
    };
    let mut moment = [how; 9];
    moment[1..].copy_from_slice(&u64::to_be_bytes(number));
    moment
}

/// The weight of a record is counted up to here: more would not fit into the sums.
const MOST_WEIGHT: u64 = 1 << 40;

pub(crate) fn tagged(set: u8, tag: Tag) -> Vec<u8> {
    let mut name = Vec::with_capacity(17);
    name.push(set);
    name.extend_from_slice(&tag.0);
    name
}

pub(crate) fn count(tag: Tag, counted: Counted) -> Vec<u8> {
    tagged(letter(counted), tag)
}

/// Where the bytes of a tag are counted.
pub(crate) fn weight(tag: Tag) -> Vec<u8> {
    tagged(b'b', tag)
}

const fn letter(counted: Counted) -> u8 {
    match counted {
        Counted::Record => b'r',
        Counted::Tombstone => b't',
    }
}

/// What the script stores behind version and stamp: dues, weight, tags, the envelope.
pub(crate) fn tail(envelope: &Envelope) -> Vec<u8> {
    let encoded = wire::encode(envelope);
    let mut tail = Vec::with_capacity(62 + 25 * envelope.entries.len() + encoded.len());
    tail.extend_from_slice(&[0, 0]);
    tail.extend_from_slice(&moment(envelope.lease_end));
    tail.extend_from_slice(&moment(envelope.expiry));
    tail.push(if envelope.in_doubt { b'3' } else { b'2' });
    tail.extend_from_slice(&envelope.weight().min(MOST_WEIGHT).to_be_bytes());
    tags(envelope, &mut tail);
    // At most eight lists.
    let length = (tail.len() - 2) as u16;
    tail[..2].copy_from_slice(&length.to_be_bytes());
    tail.extend_from_slice(&encoded);
    tail
}

/// Version and stamp, as they stand before everything that is stored.
pub(crate) fn front(bytes: &[u8]) -> Option<(Version, Stamp)> {
    let (version, rest) = bytes.split_first_chunk::<8>()?;
    let (stamp, _) = rest.split_first_chunk::<8>()?;
    Some((Version(u64::from_be_bytes(*version)), Stamp(u64::from_be_bytes(*stamp))))
}

/// Reads what the script stored.
pub(crate) fn snapshot(held: Option<Vec<u8>>, now: Stamp) -> Result<Snapshot, String> {
    let Some(held) = held else {
        return Ok(Snapshot { record: None, version: Version::NEVER, stamp: Stamp(0), now });
    };
    let bytes = Bytes::from(held);
    let tags = bytes.get(16..18).and_then(|part| part.try_into().ok()).map(u16::from_be_bytes);
    let (Some((version, stamp)), Some(tags)) = (front(&bytes), tags) else {
        return Err("it is cut short".into());
    };
    let start = 18 + usize::from(tags);
    if start > bytes.len() {
        return Err("it is cut short".into());
    }
    let envelope = bytes.slice(start..);
    let record =
        if envelope.is_empty() { None } else { Some(wire::decode(&envelope).map_err(|error| error.to_string())?) };
    Ok(Snapshot { record, version, stamp, now: now.max(stamp) })
}
