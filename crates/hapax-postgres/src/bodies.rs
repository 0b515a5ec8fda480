use bytes::Bytes;
use hapax_core::{BodyId, Id, Stamp};
use hapax_store::{BodyInfo, Cursor, Page, StoreError};
use tokio_postgres::Row;

use crate::{error::Call, row::unsigned, statement::Sql, store::PostgresStore};

impl PostgresStore {
    pub(crate) async fn keep_body(&self, owner: &Id, body: BodyId, bytes: &Bytes) -> Result<(), StoreError> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&body.0.as_slice(), &owner.0.as_slice(), &bytes.as_ref()];
        self.pool.query(Call::Write("put_body"), Sql::PutBody, &params).await.map(drop)
    }

    pub(crate) async fn read_body(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        let rows = self.pool.query(Call::Read("get_body"), Sql::GetBody, &[&body.0.as_slice()]).await?;
        Ok(rows.first().map(|row| Bytes::from(row.get::<_, Vec<u8>>(0))))
    }

    pub(crate) async fn forget_body(&self, body: BodyId) -> Result<(), StoreError> {
        self.pool.query(Call::Write("drop_body"), Sql::DropBody, &[&body.0.as_slice()]).await.map(drop)
    }

    pub(crate) async fn list_bodies(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<BodyInfo>, StoreError> {
        let limit = limit.max(1);
        let from: &[u8] = after.map_or(&[], |cursor| cursor.0.as_ref());
        if !from.is_empty() && from.len() != 32 {
            return Err(self.foreign_cursor());
        }
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.pool.query(Call::Read("bodies"), Sql::ListBodies, &[&from, &most]).await?;
        let more = rows.len() >= limit;
        let next = rows.last().filter(|_| more).map(|row| Cursor(Bytes::copy_from_slice(row.get(0))));
        Ok(Page { items: rows.iter().filter_map(info).collect(), next })
    }
}

fn info(row: &Row) -> Option<BodyInfo> {
    Some(BodyInfo {
        body: BodyId(row.get::<_, &[u8]>(0).try_into().ok()?),
        owner: Id(row.get::<_, &[u8]>(1).try_into().ok()?),
        stored: Stamp(unsigned(row.get(2))),
        length: unsigned(i64::from(row.get::<_, i32>(3))),
    })
}
