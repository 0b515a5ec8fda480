//! Between envelopes and rows.

use bytes::Bytes;
use hapax_core::{Stamp, Version};
use hapax_store::{Counted, Due, Envelope, Snapshot, wire};
use tokio_postgres::types::ToSql;

use crate::driver::Param;

/// The columns of one write. What a moment is relative to is only known in the database.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) record: Option<Vec<u8>>,
    pub(crate) surface: Option<Vec<u8>>,
    pub(crate) tenant: Option<Vec<u8>>,
    pub(crate) tombstone: bool,
    pub(crate) lease_end: Moment,
    pub(crate) expiry: Moment,
    pub(crate) gone: Moment,
    pub(crate) in_doubt: bool,
    pub(crate) entries: Option<Vec<u8>>,
    pub(crate) weight: Option<i64>,
}

/// Either of the two, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) at: Option<i64>,
    pub(crate) after: Option<i64>,
}

impl Moment {
    fn of(due: Option<Due>) -> Self {
        match due {
            None => Self::default(),
            Some(Due::At(at)) => Self { at: Some(signed(at.0)), after: None },
            // Beside a stamp it must not run over.
            Some(Due::After(span)) if span.0 < (i64::MAX / 2) as u64 => Self { at: None, after: Some(signed(span.0)) },
            Some(Due::After(_)) => Self { at: Some(i64::MAX), after: None },
        }
    }
}

impl Columns {
    pub(crate) fn of(next: Option<&Envelope>) -> Self {
        let Some(envelope) = next else { return Self::default() };
        Self {
            record: Some(wire::encode(envelope)),
            surface: Some(envelope.surface.0.to_vec()),
            tenant: Some(envelope.tenant.0.to_vec()),
            tombstone: match envelope.counted {
                Counted::Record => false,
                Counted::Tombstone => true,
            },
            lease_end: Moment::of(envelope.lease_end),
            expiry: Moment::of(envelope.expiry),
            gone: Moment::of(envelope.gone),
            in_doubt: envelope.in_doubt,
            entries: (!envelope.entries.is_empty()).then(|| entries(envelope)),
            weight: Some(signed(envelope.weight())),
        }
    }
}

impl Columns {
    /// In the order of the two statements that write.
    pub(crate) fn params<'a>(&'a self, id: &'a &'a [u8], channel: &'a String) -> Vec<&'a (dyn ToSql + Sync)> {
        vec![
            id,
            &self.record,
            &self.surface,
            &self.tenant,
            &self.tombstone,
            &self.lease_end.at,
            &self.lease_end.after,
            &self.expiry.at,
            &self.expiry.after,
            &self.gone.at,
            &self.gone.after,
            &self.in_doubt,
            &self.entries,
            &self.weight,
            channel,
        ]
    }

    /// The same for whoever brings a transaction.
    pub(crate) fn plain<'a>(&'a self, id: &'a [u8], channel: &'a str) -> Vec<Param<'a>> {
        vec![
            Param::Bytes(Some(id)),
            Param::Bytes(self.record.as_deref()),
            Param::Bytes(self.surface.as_deref()),
            Param::Bytes(self.tenant.as_deref()),
            Param::Flag(self.tombstone),
            Param::Number(self.lease_end.at),
            Param::Number(self.lease_end.after),
            Param::Number(self.expiry.at),
            Param::Number(self.expiry.after),
            Param::Number(self.gone.at),
            Param::Number(self.gone.after),
            Param::Flag(self.in_doubt),
            Param::Bytes(self.entries.as_deref()),
            Param::Number(self.weight),
            Param::Text(channel),
        ]
    }
}

fn entries(envelope: &Envelope) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(envelope.entries.len() * 25);
    for entry in &envelope.entries {
        bytes.push(entry.list as u8);
        bytes.extend_from_slice(&entry.tag.0);
        bytes.extend_from_slice(&entry.order.to_be_bytes());
    }
    bytes
}

/// A moment beyond what the database counts to comes at its end, which nobody will live to see.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// What a row says, or why it says nothing.
pub(crate) fn snapshot(
    version: i64,
    stamp: i64,
    record: Option<Vec<u8>>,
    now: i64,
) -> Result<Snapshot, wire::WireError> {
    let record = record.map(|bytes| wire::decode(&Bytes::from(bytes))).transpose()?;
    let stamp = Stamp(unsigned(stamp));
    Ok(Snapshot { record, version: Version(unsigned(version)), stamp, now: Stamp(unsigned(now)).max(stamp) })
}
