//! The same for a program that speaks to its database by `sqlx`.

use std::sync::Arc;

use hapax_core::{Outcome, Recorded, Replay, Verdict, command::Release};
use hapax_engine::Begun;
use hapax_postgres::{Entered, PostgresStore, TransactionError};
use hapax_store::Store;
use hapax_testkit::{Postgres, accidents};
use sqlx::{Connection, Executor, PgConnection, Transaction};

use crate::transactional::{PAY, begin, is_refusal, of, policy, refusal};

async fn with_payments(postgres: &Postgres) -> (Arc<PostgresStore>, PgConnection) {
    let store = Arc::new(PostgresStore::open(postgres.url()).await.unwrap());
    let mut connection = connect(postgres).await;
    connection.execute("CREATE TABLE payments (order_id text PRIMARY KEY, cents bigint NOT NULL)").await.unwrap();
    (store, connection)
}

async fn connect(postgres: &Postgres) -> PgConnection {
    PgConnection::connect(&postgres.url()).await.unwrap()
}

async fn end(work: Transaction<'_, sqlx::Postgres>, commits: bool) {
    if commits { work.commit().await } else { work.rollback().await }.unwrap();
}

async fn payments(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM payments").fetch_one(connection).await.unwrap()
}

/// Rolled back, neither is there; committed, both are, and whoever comes again is told.
#[tokio::test]
async fn payment_and_record_commit_together_or_not_at_all_by_sqlx() {
    let postgres = Postgres::forgetful();
    let (store, mut connection) = with_payments(&postgres).await;
    let inside = store.transactional();
    for (seed, commits) in [(1, false), (2, true)] {
        let mut work = connection.begin().await.unwrap();
        let entered = inside.begin(&mut *work, policy(), of(1), begin(seed)).await.unwrap();
        let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
        work.execute(PAY).await.unwrap();
        deed.complete(&mut *work, Outcome::success("paid")).await.unwrap();
        end(work, commits).await;
        assert_eq!(payments(&mut connection).await, i64::from(commits));
        assert_eq!(store.get(&of(1)).await.unwrap().record.is_some(), commits);
    }
    let mut work = connection.begin().await.unwrap();
    let told = inside.begin(&mut *work, policy(), of(1), begin(3)).await.unwrap();
    let Entered::Told(Verdict::Replay(Replay { answer: Recorded::Whole(outcome), .. })) = told else {
        panic!("{told:?}")
    };
    assert_eq!(outcome, Outcome::success("paid"));
}

/// Refused for good: rolled back, nobody has refused anything; committed, whoever comes again gets the same refusal.
#[tokio::test]
async fn a_refusal_for_good_is_given_again_once_it_is_committed_by_sqlx() {
    let postgres = Postgres::forgetful();
    let (store, mut connection) = with_payments(&postgres).await;
    let inside = store.transactional();
    for (seed, commits) in [(1, false), (2, true)] {
        let mut work = connection.begin().await.unwrap();
        let entered = inside.begin(&mut *work, policy(), of(1), begin(seed)).await.unwrap();
        let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
        deed.reject(&mut *work, refusal()).await.unwrap();
        end(work, commits).await;
        assert_eq!(store.get(&of(1)).await.unwrap().record.is_some(), commits);
    }
    let mut work = connection.begin().await.unwrap();
    let told = inside.begin(&mut *work, policy(), of(1), begin(3)).await.unwrap();
    let Entered::Told(Verdict::Replay(replay)) = told else { panic!("{told:?}") };
    assert!(is_refusal(&replay), "{replay:?}");
    work.rollback().await.unwrap();
    assert_eq!(payments(&mut connection).await, 0);
}

/// The server is killed after the payment and its record were written and before they were committed. Neither is there when
/// it is back, and the next one pays.
#[tokio::test]
async fn a_server_killed_before_the_commit_has_neither_by_sqlx() {
    let mut postgres = Postgres::start();
    let (store, mut connection) = with_payments(&postgres).await;
    let inside = store.transactional();
    let mut work = connection.begin().await.unwrap();
    let Entered::Execute(deed) = inside.begin(&mut *work, policy(), of(1), begin(1)).await.unwrap() else {
        panic!("it is free")
    };
    work.execute(PAY).await.unwrap();
    deed.complete(&mut *work, Outcome::success("paid")).await.unwrap();
    postgres.kill();
    work.commit().await.expect_err("nobody is there to commit it");
    postgres.restart();

    let mut connection = connect(&postgres).await;
    assert_eq!(payments(&mut connection).await, 0);
    let mut work = connection.begin().await.unwrap();
    let Entered::Execute(deed) = inside.begin(&mut *work, policy(), of(1), begin(2)).await.unwrap() else {
        panic!("nothing was recorded")
    };
    work.execute(PAY).await.unwrap();
    deed.complete(&mut *work, Outcome::success("paid")).await.unwrap();
    work.commit().await.unwrap();
    // And once more, after what was committed: both stay.
    postgres.kill();
    postgres.restart();
    let mut connection = connect(&postgres).await;
    assert_eq!(payments(&mut connection).await, 1);
    let mut work = connection.begin().await.unwrap();
    let told = inside.begin(&mut *work, policy(), of(1), begin(3)).await.unwrap();
    assert!(matches!(told, Entered::Told(Verdict::Replay(_))), "{told:?}");
}

/// While one transaction is at it, another on the same key is told so at once; an engine that takes the key meanwhile wins,
/// and the transaction is told to roll back. A later write over a version that is there works as the first.
#[tokio::test]
async fn another_transaction_is_told_and_an_engine_overtakes_by_sqlx() {
    let postgres = Postgres::forgetful();
    let (store, mut connection) = with_payments(&postgres).await;
    let mut other = connect(&postgres).await;
    let inside = store.transactional();
    let engine = accidents::engine(store.clone());
    let id = accidents::call(&engine, "order").id().unwrap();

    let mut work = connection.begin().await.unwrap();
    let Entered::Execute(deed) = inside.begin(&mut *work, policy(), id, begin(1)).await.unwrap() else {
        panic!("it is free")
    };
    let mut second = other.begin().await.unwrap();
    let told = inside.begin(&mut *second, policy(), id, begin(2)).await.unwrap();
    assert!(matches!(told, Entered::Told(Verdict::InFlight { .. })), "{told:?}");
    second.rollback().await.unwrap();
    work.execute(PAY).await.unwrap();
    let Ok(Begun::Execute(ticket)) = accidents::call(&engine, "order").begin().await else { panic!("it is free") };
    let ended = deed.complete(&mut *work, Outcome::success("paid")).await;
    assert!(matches!(ended, Err(TransactionError::Overtaken)), "{ended:?}");
    drop(work);
    assert_eq!(payments(&mut connection).await, 0);

    // The engine gives it back: the key was used before, so the record is written over a version.
    assert!(ticket.release(&engine, Release::NoEffect).await.unwrap().is_done());
    let mut work = connection.begin().await.unwrap();
    let entered = inside.begin(&mut *work, policy(), id, begin(3)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    work.execute(PAY).await.unwrap();
    // Too long for the record: the body goes with the same commit.
    let body = vec![b'x'; 200_000];
    deed.complete(&mut *work, Outcome::success(body.clone())).await.unwrap();
    work.commit().await.unwrap();
    assert_eq!(payments(&mut connection).await, 1);
    let Ok(Begun::Replay(replay)) = accidents::call(&engine, "order").begin().await else { panic!("it was done") };
    assert!(matches!(&replay.replay.answer, Recorded::Whole(outcome) if *outcome == Outcome::success(body)));
}
