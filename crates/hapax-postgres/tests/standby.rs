//! A primary with a standby, without which it acknowledges nothing.

use std::sync::{Arc, Mutex};

use hapax_engine::{BuildError, Engine, Settings};
use hapax_postgres::{Options, PostgresStore};
use hapax_store::{Durability, Store};
use hapax_testkit::{Postgres, accidents};

/// The primary is killed under load and the standby promoted. Nothing that was acknowledged is lost, nothing runs twice, and
/// the store finds the new one by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_has_everything_that_was_acknowledged() {
    println!("{}", round(1).await);
}

async fn round(number: u64) -> String {
    let (primary, standby) = Postgres::with_standby();
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    let options = Options::new(url).answer_timeout(accidents::ANSWER).connect_timeout(accidents::ANSWER);
    let store = Arc::new(PostgresStore::open_with(options).await.unwrap());
    let said = store.durability();
    assert_eq!(said, Durability::Durable);
    // The standby itself is no place to write to.
    let refused = PostgresStore::open(standby.url()).await.expect_err("it is a standby").to_string();
    assert!(refused.contains("HX0132"), "{refused}");
    let shared: Arc<dyn Store> = store.clone();
    let pair = Arc::new(Mutex::new((primary, standby)));
    let struck = Arc::clone(&pair);
    let strike = move || {
        let mut pair = struck.lock().unwrap();
        pair.0.kill();
        pair.1.promote();
    };
    let toll = accidents::fail_over(shared.clone(), number, strike).await;
    accidents::judge(&shared, &said, &toll);
    assert_eq!((toll.lost, toll.twice), (0, 0), "{toll:?}");
    format!("{toll:?}; {said}")
}

/// A standby that nobody waits for may lack what was acknowledged last. That is said, and strict mode does not start on it.
#[tokio::test]
async fn a_standby_that_nobody_waits_for_is_said_to_lose_what_was_acknowledged_last() {
    let (primary, _standby) = Postgres::with_standby();
    let store = PostgresStore::open(primary.url()).await.unwrap();
    assert_eq!(store.durability(), Durability::Durable);
    // In the sessions of this store only: the server's own command line cannot be overruled while it runs.
    primary.say("ALTER DATABASE postgres SET synchronous_commit = 'local'");
    let store = PostgresStore::open(primary.url()).await.unwrap();
    let said = store.durability();
    assert!(matches!(&said, Durability::DurableIf(_)), "{said}");
    let settings = Settings { demand_durable: true, ..Settings::default() };
    let strict = Engine::builder(Arc::new(store)).settings(settings).build();
    assert!(matches!(strict, Err(BuildError::NotDurable { .. })), "{strict:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: cargo xtask soak stores"]
async fn soak_standby() {
    accidents::soak("PostgreSQL with a synchronous standby", round).await;
}
