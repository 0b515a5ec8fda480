//! The payment and the record of it in one transaction of PostgreSQL: both are there, or neither.
//!
//! Run it with `cargo run --example in_your_transaction`; it starts a PostgreSQL of its own, or uses that of `DATABASE_URL`.

use std::sync::Arc;

use hapax::{
    Effect, Engine, Hapax, Outcome, PostgresStore, Recorded, Replay, Verdict,
    postgres::{Entered, Transactional},
};
use hapax_testkit::Postgres;
use tokio_postgres::{Client, NoTls};

type Failed = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let (_server, url) = match std::env::var("DATABASE_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = Postgres::start();
            let url = server.url();
            (Some(server), url)
        }
    };
    let store = Arc::new(PostgresStore::open(url.as_str()).await?);
    let inside = store.transactional();
    // It knows the policies, and makes ids of keys.
    let engine = Hapax::on(store).build()?;

    let (mut client, wire) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(wire);
    client.batch_execute("CREATE TEMPORARY TABLE payments (order_id text PRIMARY KEY, cents bigint NOT NULL)").await?;

    // The first request breaks off before its commit: nothing is left of it. The second pays. The third is told.
    for commits in [false, true, true] {
        let said = pay(&mut client, &engine, &inside, "order-17", 4_200, commits).await?;
        let rows: i64 = client.query_one("SELECT count(*) FROM payments", &[]).await?.get(0);
        println!("{said}; {rows} payments");
        assert_eq!(rows, i64::from(commits));
    }
    Ok(())
}

async fn pay(
    client: &mut Client,
    engine: &Engine,
    inside: &Transactional,
    order: &str,
    cents: i64,
    commits: bool,
) -> Result<String, Failed> {
    let call = engine.surface("pay").tenant("acme").key(order).fingerprint(&cents).effect(Effect::Irreversible);
    let asked = call.within().await?;
    let work = client.transaction().await?;
    match inside.begin(&work, asked.policy, asked.id, asked.begin).await? {
        Entered::Execute(deed) => {
            work.execute("INSERT INTO payments (order_id, cents) VALUES ($1, $2)", &[&order, &cents]).await?;
            deed.complete(&work, Outcome::success(format!("paid {cents}"))).await?;
            if !commits {
                work.rollback().await?;
                return Ok("broken off".to_owned());
            }
            work.commit().await?;
            Ok("paid".to_owned())
        }
        Entered::Told(Verdict::Replay(Replay { answer: Recorded::Whole(outcome), .. })) => {
            Ok(format!("was paid before: {outcome:?}"))
        }
        Entered::Told(verdict) => Ok(format!("not now: {verdict:?}")),
    }
}
