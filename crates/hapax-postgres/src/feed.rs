//! The change feed: rows in the order of the transactions that wrote them, as far as all of those have ended.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::Id;
use hapax_store::{Change, Changes, Cursor, StoreError};

use crate::{error::Call, statement::Sql, store::PostgresStore};

const CALL: Call = Call::Read("changes");
/// How long the end of the feed waits for transactions that hold back what has been committed after them.
const PATIENCE: Duration = Duration::from_millis(10);
const TRIES: u32 = 50;

/// How far it was read, and which transactions had all ended when reading began: what was removed and forgotten before
/// that had never been shown.
struct Place {
    through: u64,
    id: Vec<u8>,
    began: u64,
}

impl Place {
    fn parse(cursor: &Cursor) -> Option<Self> {
        let (through, rest) = cursor.0.split_first_chunk::<8>()?;
        let (began, id) = rest.split_first_chunk::<8>()?;
        let (through, began) = (u64::from_be_bytes(*through), u64::from_be_bytes(*began));
        (id.is_empty() || id.len() == 32).then(|| Self { through, id: id.to_vec(), began })
    }

    fn cursor(&self) -> Cursor {
        Cursor(Bytes::from([&self.through.to_be_bytes(), &self.began.to_be_bytes(), self.id.as_slice()].concat()))
    }
}

/// What the server says about its transactions.
struct State {
    forgotten: u64,
    all_ended_below: u64,
    held_back: bool,
}

impl PostgresStore {
    pub(crate) async fn feed(&self, after: Option<&Cursor>, limit: usize) -> Result<Changes, StoreError> {
        let mut from = match after {
            Some(cursor) => Place::parse(cursor).ok_or_else(|| self.foreign_cursor())?,
            None => self.start().await?,
        };
        let most = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
        for _ in 0..TRIES {
            let rows = self.pool.query(CALL, Sql::Feed, &[&from.through.to_string(), &from.id, &most]).await?;
            // After the rows: what was forgotten before they were read is known by now.
            let state = self.state().await?;
            // Those from `began` on had not all ended when reading began.
            if state.forgotten > from.through && state.forgotten >= from.began {
                return Ok(Changes::Gap { oldest: self.start().await?.cursor() });
            }
            if rows.is_empty() && state.held_back {
                tokio::time::sleep(PATIENCE).await;
                continue;
            }
            let mut items = Vec::with_capacity(rows.len());
            for row in &rows {
                let Ok(id) = row.get::<_, &[u8]>(0).try_into().map(Id) else { continue };
                let snapshot = self.snapshot(&id, row.get(1), row.get(2), row.get(3), row.get(5))?;
                items.push(Change { id, snapshot });
                from.through = row.get::<_, &str>(4).parse().unwrap_or(from.through);
                from.id = id.0.to_vec();
            }
            return Ok(Changes::Page { items, next: from.cursor() });
        }
        Ok(Changes::Page { items: Vec::new(), next: from.cursor() })
    }

    async fn start(&self) -> Result<Place, StoreError> {
        Ok(Place { through: 0, id: Vec::new(), began: self.state().await?.all_ended_below })
    }

    async fn state(&self) -> Result<State, StoreError> {
        let rows = self.pool.query(CALL, Sql::FeedState, &[]).await?;
        let number = |at: usize| rows.first().and_then(|row| row.get::<_, &str>(at).parse().ok()).unwrap_or(0);
        Ok(State {
            forgotten: number(0),
            all_ended_below: number(1),
            held_back: rows.first().is_some_and(|row| row.get(2)),
        })
    }
}
