//! The tables, made and brought up to date by whoever comes first.

use tokio_postgres::Client;

use crate::{
    error::{OpenError, shown},
    options::Options,
    statement::{MIGRATIONS, Sql, quoted},
};

/// One process at a time, whatever its schema.
const LOCK: i64 = 0x6861_7061_7800_0001;

pub(crate) async fn migrate(client: &mut Client, server: &str, options: &Options) -> Result<(), OpenError> {
    let refused = |error: tokio_postgres::Error| OpenError::Server {
        server: server.to_owned(),
        reason: format!("its tables cannot be made or brought up to date: {}", shown(&error)),
    };
    let known = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    let newer = |found: i32| OpenError::Newer {
        server: server.to_owned(),
        schema: options.schema_name().to_owned(),
        found,
        known,
    };
    // Without rights to make tables one can still use those that are there.
    match version(client, options.schema_name()).await.map_err(refused)? {
        Some(found) if found > known => return Err(newer(found)),
        Some(found) if found == known => return Ok(()),
        Some(_) | None => {}
    }
    let schema = quoted(options.schema_name());
    let work = client.transaction().await.map_err(refused)?;
    work.batch_execute("SET LOCAL lock_timeout = '60s'").await.map_err(refused)?;
    work.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await.map_err(refused)?;
    work.batch_execute(&format!(
        "CREATE SCHEMA IF NOT EXISTS {schema}; \
         CREATE TABLE IF NOT EXISTS {schema}.migrations \
         (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
    ))
    .await
    .map_err(refused)?;
    let row = work.query_one(&format!("SELECT coalesce(max(version), 0) FROM {schema}.migrations"), &[]).await;
    let found: i32 = row.map_err(refused)?.get(0);
    if found > known {
        return Err(newer(found));
    }
    for (number, text) in (1i32..).zip(MIGRATIONS) {
        if number > found {
            work.batch_execute(&Sql::within(text, options.schema_name())).await.map_err(refused)?;
            work.execute(&format!("INSERT INTO {schema}.migrations (version) VALUES ($1)"), &[&number])
                .await
                .map_err(refused)?;
        }
    }
    work.commit().await.map_err(refused)
}

/// `None`: there are no tables.
async fn version(client: &Client, schema: &str) -> Result<Option<i32>, tokio_postgres::Error> {
    let table = format!("{}.migrations", quoted(schema));
    let row = client.query_one("SELECT to_regclass($1::text)::oid IS NOT NULL", &[&table]).await?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_one(&format!("SELECT coalesce(max(version), 0) FROM {table}"), &[]).await?;
    Ok(Some(row.get(0)))
}
