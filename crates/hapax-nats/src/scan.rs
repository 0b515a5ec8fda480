//! Scans and counts, from the index of this process once it has come as far as the bucket.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag};
use hapax_store::{Cursor, Index, Page, StoreError, Usage};

use crate::{
    error::Call,
    index::{Found, Moments},
    shared::Shared,
};

/// Whoever wants more asks again.
const LARGEST_PAGE: usize = 10_000;

impl Shared {
    pub(crate) async fn page(
        self: &Arc<Self>,
        index: Index,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Id>, StoreError> {
        let limit = limit.clamp(1, LARGEST_PAGE);
        let (moment, sequence) = self.place(after)?;
        let moments = |which: Moments, until: Stamp| {
            let found = self.index.read().moments(which, (moment, sequence), until, limit + 1);
            paged(found, limit, |(at, sequence)| (at, sequence))
        };
        let alone = |found: Found<u64>| paged(found, limit, |sequence| (Stamp(0), sequence));
        match index {
            Index::Group(_) | Index::Queue(_) => {
                return Err(
                    self.unsupported("groups and queues need a store of level full; use postgres or redis".into())
                );
            }
            Index::LeaseEnd { .. } | Index::Expiry { .. } | Index::InDoubt | Index::TenantAge(_) => {}
        }
        self.caught_up(Call::Read("scan")).await?;
        Ok(match index {
            Index::LeaseEnd { until } => moments(Moments::Leases, until),
            Index::Expiry { until } => moments(Moments::Expiries, until),
            Index::InDoubt => alone(self.index.read().doubts(sequence, limit + 1)),
            Index::TenantAge(tag) => alone(self.index.read().tenant(tag, sequence, limit + 1)),
            Index::Group(_) | Index::Queue(_) => Page { items: Vec::new(), next: None },
        })
    }

    /// A moment and a sequence; from the start both are zero, which no message has.
    fn place(&self, after: Option<&Cursor>) -> Result<(Stamp, u64), StoreError> {
        let Some(cursor) = after else { return Ok((Stamp(0), 0)) };
        let (numbers, []) = cursor.0.as_chunks::<8>() else { return Err(self.foreign_cursor()) };
        let [moment, sequence] = numbers else { return Err(self.foreign_cursor()) };
        Ok((Stamp(u64::from_be_bytes(*moment)), u64::from_be_bytes(*sequence)))
    }

    pub(crate) async fn count(self: &Arc<Self>, tag: Tag) -> Result<Usage, StoreError> {
        self.caught_up(Call::Read("usage")).await?;
        Ok(self.index.read().usage(tag))
    }
}

fn paged<P: Copy>(mut found: Found<P>, limit: usize, place: impl Fn(P) -> (Stamp, u64)) -> Page<Id> {
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(last, _)| {
        let (moment, sequence) = place(*last);
        Cursor(Bytes::from([moment.0.to_be_bytes(), sequence.to_be_bytes()].concat()))
    });
    Page { items: found.into_iter().map(|(_, id)| id).collect(), next }
}
