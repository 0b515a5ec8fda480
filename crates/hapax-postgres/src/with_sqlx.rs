//! The caller's transaction, begun by `sqlx`.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use hapax_core::{Id, Outcome, Policy, command::Begin};
//! # use hapax_postgres::{Entered, PostgresStore};
//! # async fn doc(
//! #     store: PostgresStore, mut connection: sqlx::PgConnection, policy: Arc<Policy>, id: Id, begin: Begin,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use sqlx::{Connection, Executor};
//!
//! let mut work = connection.begin().await?;
//! match store.transactional().begin(&mut *work, policy, id, begin).await? {
//!     Entered::Execute(deed) => {
//!         work.execute("INSERT INTO payments (order_id, cents) VALUES ('order-17', 4200)").await?;
//!         deed.complete(&mut *work, Outcome::success("paid")).await?;
//!         work.commit().await?;
//!     }
//!     Entered::Told(verdict) => println!("nothing is to be done here: {verdict:?}"),
//! }
//! # Ok(()) }
//! ```

use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::driver::{Cell, Column, Driver, Param};

/// Of a `sqlx::Transaction` as `&mut *transaction`.
impl Driver for &mut PgConnection {
    async fn first_row(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        columns: &[Column],
    ) -> Result<Option<Vec<Cell>>, String> {
        // The text is ours, with the name of the schema quoted.
        let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
        for param in params {
            query = match *param {
                Param::Bytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
                Param::Number(number) => query.bind(number),
                Param::Flag(flag) => query.bind(flag),
                Param::Text(text) => query.bind(text.to_owned()),
            };
        }
        let row = query.fetch_optional(&mut **self).await.map_err(|error| error.to_string())?;
        let Some(row) = row else { return Ok(None) };
        let cell = |(at, column): (usize, &Column)| {
            let read = match column {
                Column::Bytes => row.try_get(at).map(Cell::Bytes),
                Column::Number => row.try_get(at).map(Cell::Number),
                Column::Flag => row.try_get(at).map(Cell::Flag),
            };
            read.map_err(|error| error.to_string())
        };
        columns.iter().enumerate().map(cell).collect::<Result<_, _>>().map(Some)
    }
}
