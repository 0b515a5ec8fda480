//! The effect and its record commit together, or not at all.

use std::sync::Arc;

use hapax_core::{
    Effect, Id, Millis, Nonce, Outcome, Policy, Preset, Recorded, Replay, Tag, Verdict,
    command::{Admit, Begin},
    record::About,
};
use hapax_engine::{Begun, Wait};
use hapax_postgres::{Entered, PostgresStore, TransactionError};
use hapax_store::{Seeded, Store};
use hapax_testkit::{Postgres, accidents};
use tokio_postgres::{Client, NoTls};

async fn client(postgres: &Postgres) -> Client {
    let (client, wire) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
    tokio::spawn(wire);
    client
}

async fn with_payments() -> (Postgres, Arc<PostgresStore>, Client) {
    let postgres = Postgres::forgetful();
    let store = Arc::new(PostgresStore::open(postgres.url()).await.unwrap());
    let client = client(&postgres).await;
    client.batch_execute("CREATE TABLE payments (order_id text, cents bigint)").await.unwrap();
    (postgres, store, client)
}

pub(crate) fn begin(seed: u64) -> Begin {
    Begin {
        nonce: Nonce(Seeded::new(seed).bytes()),
        fingerprint: None,
        effect: Effect::Irreversible,
        lease: None,
        owner: "test".into(),
        started: true,
        epoch: None,
        admit: Admit::Yes,
        room: Admit::Yes,
        about: Arc::new(About {
            surface: "pay".into(),
            tenant: "acme".into(),
            surface_tag: Tag([1; 16]),
            tenant_tag: Tag([2; 16]),
            principal: None,
            key_hash: [0; 8],
        }),
        ties: None,
    }
}

pub(crate) fn policy() -> Arc<Policy> {
    Arc::new(Preset::Standard.policy())
}

async fn payments(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM payments", &[]).await.unwrap().get(0)
}

pub(crate) const PAY: &str = "INSERT INTO payments VALUES ('order-17', 4200)";

pub(crate) fn of(number: u64) -> Id {
    Id(Seeded::new(number).bytes())
}

/// The process dies between the effect and the commit: neither is there, and the next one executes.
#[tokio::test]
async fn a_transaction_that_is_rolled_back_leaves_neither_effect_nor_record() {
    let (_postgres, store, mut client) = with_payments().await;
    let inside = store.transactional();
    let work = client.transaction().await.unwrap();
    let entered = inside.begin(&work, policy(), of(1), begin(1)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    work.batch_execute(PAY).await.unwrap();
    deed.complete(&work, Outcome::success("paid")).await.unwrap();
    drop(work);
    assert_eq!(payments(&client).await, 0);
    assert_eq!(store.get(&of(1)).await.unwrap().record, None);

    let work = client.transaction().await.unwrap();
    let entered = inside.begin(&work, policy(), of(1), begin(2)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    work.batch_execute(PAY).await.unwrap();
    deed.complete(&work, Outcome::success("paid")).await.unwrap();
    work.commit().await.unwrap();
    assert_eq!(payments(&client).await, 1);

    let work = client.transaction().await.unwrap();
    let told = inside.begin(&work, policy(), of(1), begin(3)).await.unwrap();
    let Entered::Told(Verdict::Replay(Replay { answer: Recorded::Whole(outcome), .. })) = told else {
        panic!("{told:?}")
    };
    assert_eq!(outcome, Outcome::success("paid"));
}

/// The account is empty, and stays so: it is refused for good. Rolled back, nobody has refused anything; committed, whoever
/// comes again gets the same refusal, in a transaction and by an engine, and nobody pays.
#[tokio::test]
async fn a_refusal_for_good_is_given_again_once_it_is_committed() {
    let (_postgres, store, mut client) = with_payments().await;
    let (inside, engine) = (store.transactional(), accidents::engine(store.clone()));
    let id = accidents::call(&engine, "order").id().unwrap();
    for (seed, commits) in [(1, false), (2, true)] {
        let work = client.transaction().await.unwrap();
        let entered = inside.begin(&work, policy(), id, begin(seed)).await.unwrap();
        let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
        deed.reject(&work, refusal()).await.unwrap();
        if commits {
            work.commit().await.unwrap();
        } else {
            work.rollback().await.unwrap();
        }
        assert_eq!(store.get(&id).await.unwrap().record.is_some(), commits);
    }
    let work = client.transaction().await.unwrap();
    let told = inside.begin(&work, policy(), id, begin(3)).await.unwrap();
    let Entered::Told(Verdict::Replay(replay)) = told else { panic!("{told:?}") };
    assert!(is_refusal(&replay), "{replay:?}");
    work.rollback().await.unwrap();
    let told = accidents::call(&engine, "order").begin().await.unwrap();
    assert!(matches!(&told, Begun::Replay(told) if is_refusal(&told.replay)), "{told:?}");
    assert_eq!(payments(&client).await, 0);
}

pub(crate) fn refusal() -> Outcome {
    Outcome::refusal("no money")
}

pub(crate) fn is_refusal(replay: &Replay) -> bool {
    replay.rejected && matches!(&replay.answer, Recorded::Whole(outcome) if *outcome == refusal())
}

/// The server is killed after the payment and its record were written and before they were committed.
#[tokio::test]
async fn a_server_killed_before_the_commit_has_neither_effect_nor_record() {
    let mut postgres = Postgres::start();
    let store = PostgresStore::open(postgres.url()).await.unwrap();
    let mut own = client(&postgres).await;
    own.batch_execute("CREATE TABLE payments (order_id text PRIMARY KEY, cents bigint NOT NULL)").await.unwrap();
    let inside = store.transactional();
    let work = own.transaction().await.unwrap();
    let entered = inside.begin(&work, policy(), of(1), begin(1)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    work.batch_execute(PAY).await.unwrap();
    deed.complete(&work, Outcome::success("paid")).await.unwrap();
    postgres.kill();
    work.commit().await.expect_err("nobody is there to commit it");
    postgres.restart();
    let mut own = client(&postgres).await;
    assert_eq!(payments(&own).await, 0);
    let work = own.transaction().await.unwrap();
    let entered = inside.begin(&work, policy(), of(1), begin(2)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    work.batch_execute(PAY).await.unwrap();
    deed.complete(&work, Outcome::success("paid")).await.unwrap();
    work.commit().await.unwrap();
    postgres.kill();
    postgres.restart();
    let mut own = client(&postgres).await;
    assert_eq!(payments(&own).await, 1);
    let work = own.transaction().await.unwrap();
    let told = inside.begin(&work, policy(), of(1), begin(3)).await.unwrap();
    assert!(matches!(told, Entered::Told(Verdict::Replay(_))), "{told:?}");
}

/// Eight callers, each with a transaction of its own, until each has an answer. One pays; nobody blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_transactions_one_pays_and_nobody_blocks() {
    let (postgres, store, own) = with_payments().await;
    let mut callers = Vec::new();
    for number in 0..8 {
        let (mut client, inside) = (client(&postgres).await, store.transactional());
        callers.push(tokio::spawn(async move {
            for turn in 0..1_000 {
                let work = client.transaction().await.unwrap();
                match inside.begin(&work, policy(), of(1), begin(100 + number * 1_000 + turn)).await.unwrap() {
                    Entered::Execute(deed) => {
                        work.batch_execute(PAY).await.unwrap();
                        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                        match deed.complete(&work, Outcome::success("paid")).await {
                            Ok(()) => work.commit().await.unwrap(),
                            Err(TransactionError::Overtaken) => continue,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    Entered::Told(Verdict::InFlight { .. }) => {
                        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    }
                    Entered::Told(Verdict::Replay(_)) => return true,
                    Entered::Told(other) => panic!("{other:?}"),
                }
            }
            false
        }));
    }
    for caller in callers {
        assert!(caller.await.unwrap(), "everybody gets the answer in the end");
    }
    assert_eq!(payments(&own).await, 1);
}

/// An engine in another process begins the same key while the transaction runs. The transaction must not commit over it.
#[tokio::test]
async fn a_transaction_that_was_overtaken_is_told_to_roll_back() {
    let (postgres, store, mut client) = with_payments().await;
    let engine = accidents::engine(store.clone());
    let id = accidents::call(&engine, "order").id().unwrap();
    let work = client.transaction().await.unwrap();
    let entered = store.transactional().begin(&work, policy(), id, begin(1)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    work.batch_execute(PAY).await.unwrap();
    let Ok(Begun::Execute(ticket)) = accidents::call(&engine, "order").begin().await else { panic!("it is free") };
    let ended = deed.complete(&work, Outcome::success("paid")).await;
    assert!(matches!(ended, Err(TransactionError::Overtaken)), "{ended:?}");
    drop(work);
    assert_eq!(payments(&client).await, 0);
    assert!(ticket.complete(&engine, Outcome::success("paid elsewhere")).await.unwrap().is_done());
    drop(postgres);
}

/// What was written in a transaction is an answer like any other: an engine replays it, and one that waits is woken.
#[tokio::test]
async fn an_engine_replays_and_joins_what_a_transaction_wrote() {
    let (_postgres, store, mut client) = with_payments().await;
    let engine = accidents::engine(store.clone());
    let id = accidents::call(&engine, "order").id().unwrap();
    let mut watch = store.watch(&id).await.unwrap();
    let work = client.transaction().await.unwrap();
    let entered = store.transactional().begin(&work, policy(), id, begin(1)).await.unwrap();
    let Entered::Execute(deed) = entered else { panic!("{entered:?}") };
    deed.complete(&work, Outcome::success("paid")).await.unwrap();
    work.commit().await.unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(30), watch.changed()).await.expect("woken by the commit");
    let told = accidents::call(&engine, "order").wait(Wait::AtMost(Millis::from_secs(1))).begin().await.unwrap();
    assert!(matches!(told, Begun::Replay(_)), "{told:?}");
}
