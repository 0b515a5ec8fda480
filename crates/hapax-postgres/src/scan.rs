use bytes::Bytes;
use hapax_core::{Id, Tag};
use hapax_store::{Cursor, Index, List, Page, StoreError};
use tokio_postgres::Row;

use crate::{error::Call, row::signed, statement::Sql, store::PostgresStore};

const CALL: Call = Call::Read("scan");
/// How many rows one pass of the sweeper has deleted at most; the next pass goes on.
const BATCH: i64 = 500;

/// A place in a scan: what it is ordered by, and the id.
struct Place {
    order: [u8; 8],
    id: Vec<u8>,
}

impl Place {
    fn parse(cursor: &Cursor) -> Option<Self> {
        let (order, id) = cursor.0.split_first_chunk::<8>()?;
        (id.len() == 32).then(|| Self { order: *order, id: id.to_vec() })
    }

    fn cursor(order: [u8; 8], id: &[u8]) -> Cursor {
        Cursor(Bytes::from([order.as_slice(), id].concat()))
    }

    /// Before everything.
    const fn start() -> Self {
        Self { order: [0; 8], id: Vec::new() }
    }

    const fn number(&self) -> u64 {
        u64::from_be_bytes(self.order)
    }
}

impl PostgresStore {
    pub(crate) async fn page(
        &self,
        index: Index,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Id>, StoreError> {
        let limit = limit.max(1);
        let from = match after {
            None => Place::start(),
            Some(cursor) => Place::parse(cursor).ok_or_else(|| self.foreign_cursor())?,
        };
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let number = signed(from.number());
        // Before a start without an id nothing is smaller; a moment of 0 must be found too.
        let number = if after.is_none() { -1 } else { number };
        let rows = match index {
            Index::LeaseEnd { until } => {
                self.pool.query(CALL, Sql::ScanLease, &[&signed(until.0), &number, &from.id, &most]).await?
            }
            Index::Expiry { until } => {
                if after.is_none() {
                    self.clean().await?;
                }
                self.pool.query(CALL, Sql::ScanExpiry, &[&signed(until.0), &number, &from.id, &most]).await?
            }
            Index::InDoubt => self.pool.query(CALL, Sql::ScanDoubt, &[&from.id, &most]).await?,
            Index::TenantAge(tag) => {
                let changed = from.number().to_string();
                self.pool.query(CALL, Sql::ScanAge, &[&tag.0.as_slice(), &changed, &from.id, &most]).await?
            }
            Index::Group(tag) => self.list(List::Group, tag, &from, after.is_some(), most).await?,
            Index::Queue(tag) => self.list(List::Queue, tag, &from, after.is_some(), most).await?,
        };
        let more = rows.len() >= limit;
        let next = rows.last().filter(|_| more).map(|row| Place::cursor(order_of(index, row), row.get(0)));
        let items = rows.iter().filter_map(|row| row.get::<_, &[u8]>(0).try_into().ok().map(Id)).collect();
        Ok(Page { items, next })
    }

    async fn list(&self, list: List, tag: Tag, from: &Place, resumed: bool, most: i64) -> Result<Vec<Row>, StoreError> {
        let place: &[u8] = if resumed { &from.order } else { &[] };
        self.pool.query(CALL, Sql::ScanList, &[&(list as i16), &tag.0.as_slice(), &place, &from.id, &most]).await
    }

    /// Deletes what nobody can need any more, a small batch of it.
    async fn clean(&self) -> Result<(), StoreError> {
        let cleaned = self.pool.query(Call::Write("clean"), Sql::Clean, &[&self.removal_memory_ms, &BATCH]).await;
        match cleaned {
            Ok(_) => Ok(()),
            // The rows stay until the next pass; whoever scans does not suffer for it.
            Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. } | StoreError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn order_of(index: Index, row: &Row) -> [u8; 8] {
    match index {
        Index::LeaseEnd { .. } | Index::Expiry { .. } => row.get::<_, i64>(1).to_be_bytes(),
        Index::InDoubt => [0; 8],
        Index::TenantAge(_) => row.get::<_, &str>(1).parse().unwrap_or(0u64).to_be_bytes(),
        Index::Group(_) | Index::Queue(_) => row.get::<_, &[u8]>(1).try_into().unwrap_or([0; 8]),
    }
}
