//! What is stored under a record's key, and what is told to the script about its index entries.

use bytes::Bytes;
use hapax_core::{Stamp, Tag, Version};
use hapax_store::{Counted, Due, Envelope, List, Snapshot, wire};

/// Scores are floating point numbers: whole ones are exact up to here. A moment beyond it is three hundred thousand years
/// away, and comes too early by no more than that.
pub(crate) const LARGEST: u64 = (1 << 53) - 1;

/// Where one id stands in one index.
pub(crate) struct Item {
    pub(crate) set: Vec<u8>,
    /// What stands before the id in the member; of a count the whole of it.
    pub(crate) member: Vec<u8>,
    pub(crate) score: String,
}

/// Everything a record is listed under.
pub(crate) fn items(envelope: &Envelope) -> Vec<Item> {
    let mut items = Vec::with_capacity(5 + envelope.entries.len());
    let mut add = |set: Vec<u8>, member: Vec<u8>, score: String| items.push(Item { set, member, score });
    if let Some(due) = envelope.lease_end {
        add(b"l".to_vec(), Vec::new(), moment(due));
    }
    if let Some(due) = envelope.expiry {
        add(b"e".to_vec(), Vec::new(), moment(due));
    }
    if envelope.in_doubt {
        add(b"d".to_vec(), Vec::new(), "v".into());
    }
    add(tagged(b't', envelope.tenant), Vec::new(), "v".into());
    add(b"u".to_vec(), count(envelope.surface, envelope.counted), String::new());
    if envelope.tenant != envelope.surface {
        add(b"u".to_vec(), count(envelope.tenant, envelope.counted), String::new());
    }
    for entry in &envelope.entries {
        let set = match entry.list {
            List::Group => b'g',
            List::Queue => b'q',
        };
        add(tagged(set, entry.tag), entry.order.to_be_bytes().to_vec(), "=0".into());
    }
    items
}

pub(crate) fn tagged(set: u8, tag: Tag) -> Vec<u8> {
    let mut name = Vec::with_capacity(17);
    name.push(set);
    name.extend_from_slice(&tag.0);
    name
}

pub(crate) fn count(tag: Tag, counted: Counted) -> Vec<u8> {
    tagged(
        match counted {
            Counted::Record => b'r',
            Counted::Tombstone => b't',
        },
        tag,
    )
}

fn moment(due: Due) -> String {
    match due {
        // Beside a stamp it must not run over.
        Due::After(span) if span.0 < LARGEST / 2 => format!("+{}", span.0),
        Due::After(_) => format!("={LARGEST}"),
        Due::At(at) => format!("={}", at.0.min(LARGEST)),
    }
}

/// What the script stores behind version and stamp.
pub(crate) fn tail(items: &[Item], envelope: &Envelope) -> Vec<u8> {
    let mut tail = vec![0, 0];
    for item in items {
        // No name is longer than a letter, a tag and an order.
        tail.push(item.set.len() as u8);
        tail.extend_from_slice(&item.set);
        tail.push(item.member.len() as u8);
        tail.extend_from_slice(&item.member);
    }
    let names = (tail.len() - 2) as u16;
    tail[..2].copy_from_slice(&names.to_be_bytes());
    tail.extend_from_slice(&wire::encode(envelope));
    tail
}

/// Reads what the script stored.
pub(crate) fn snapshot(held: Option<Vec<u8>>, now: Stamp) -> Result<Snapshot, String> {
    let Some(held) = held else {
        return Ok(Snapshot { record: None, version: Version::NEVER, stamp: Stamp(0), now });
    };
    let bytes = Bytes::from(held);
    let number = |at: usize| bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map(u64::from_be_bytes);
    let names = bytes.get(16..18).and_then(|part| part.try_into().ok()).map(u16::from_be_bytes);
    let (Some(version), Some(stamp), Some(names)) = (number(0), number(8), names) else {
        return Err("it is cut short".into());
    };
    let start = 18 + usize::from(names);
    if start > bytes.len() {
        return Err("it is cut short".into());
    }
    let envelope = bytes.slice(start..);
    let record =
        if envelope.is_empty() { None } else { Some(wire::decode(&envelope).map_err(|error| error.to_string())?) };
    let stamp = Stamp(stamp);
    Ok(Snapshot { record, version: Version(version), stamp, now: now.max(stamp) })
}
