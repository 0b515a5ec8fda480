//! What happens between a program and its Postgres.

use std::{sync::Arc, time::Duration};

use hapax_core::{Id, Millis, Stamp, Version};
use hapax_engine::{BuildError, Engine, Settings};
use hapax_postgres::{OpenError, Options, PostgresStore};
use hapax_store::{BoxFuture, Changes, Cursor, Due, Durability, Envelope, Index, Store, StoreError, Swap};
use hapax_testkit::{
    Postgres, Proxy,
    accidents::{self, ANSWER, HASTY, SECRET},
    children,
    sample::{id, number_in, numbered, put},
};
use tokio_postgres::{AsyncMessage, Client, NoTls};

fn open(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    at(format!("postgres://postgres@127.0.0.1:{port}/postgres"), ANSWER)
}

/// For accidents in which answers are lost.
fn hasty(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    at(format!("postgres://postgres@127.0.0.1:{port}/postgres"), HASTY)
}

fn at(url: String, longest: Duration) -> BoxFuture<'static, Arc<dyn Store>> {
    Box::pin(async move {
        let options = Options::new(url).answer_timeout(longest);
        Arc::new(PostgresStore::open_with(options).await.unwrap()) as Arc<dyn Store>
    })
}

/// C2.
#[tokio::test]
async fn a_begin_that_lands_after_its_release_conflicts() {
    let postgres = Postgres::forgetful();
    accidents::a_begin_that_lands_after_its_release_conflicts(&hasty, postgres.port()).await;
}

/// C3.
#[tokio::test]
async fn a_begin_that_lands_after_it_was_disowned_conflicts() {
    let postgres = Postgres::forgetful();
    accidents::a_begin_that_lands_after_it_was_disowned_conflicts(&hasty, postgres.port()).await;
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_can_be_recognised() {
    let postgres = Postgres::forgetful();
    accidents::a_lost_answer_is_unknown_and_can_be_recognised(&hasty, postgres.port()).await;
}

#[tokio::test]
async fn a_cut_connection_comes_back() {
    let postgres = Postgres::forgetful();
    accidents::a_cut_connection_comes_back(&hasty, postgres.port()).await;
}

#[tokio::test]
async fn wakes_reach_other_processes() {
    let postgres = Postgres::forgetful();
    accidents::wakes_reach_other_processes(&open, postgres.port()).await;
}

#[tokio::test]
async fn a_watch_outlives_its_connection() {
    let postgres = Postgres::forgetful();
    accidents::a_watch_outlives_its_connection(&hasty, postgres.port()).await;
}

#[tokio::test]
async fn every_error_names_the_server_and_a_next_step() {
    let mut postgres = Postgres::forgetful();
    let open = |port: u16| at(format!("postgres://postgres:{SECRET}@127.0.0.1:{port}/postgres"), HASTY);
    accidents::every_error_names_the_server_and_a_next_step(&open, &mut postgres).await;
}

#[tokio::test]
async fn each_step_is_one_round_trip() {
    let postgres = Postgres::forgetful();
    accidents::each_step_is_one_round_trip(&open, postgres.port()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let mut postgres = Postgres::start();
    accidents::what_was_acknowledged_survives_kill_9(&open, &mut postgres).await;
}

#[tokio::test]
async fn a_pause_past_the_lease_runs_nothing_twice() {
    let postgres = Postgres::start();
    accidents::a_pause_past_the_lease_runs_nothing_twice(&open, &postgres).await;
}

/// Not a test of its own: one process of a crew.
#[tokio::test]
async fn child() {
    let Some(task) = children::task() else { return };
    let (what, port) = task.split_once(' ').unwrap();
    let store = open(port.parse().unwrap()).await;
    match what {
        "share" => accidents::share_keys(store).await,
        key => accidents::skewed(store, key).await,
    }
}

#[tokio::test]
async fn two_and_eight_processes_share_their_keys() {
    for processes in [2, 8] {
        let postgres = Postgres::forgetful();
        let task = || format!("share {}", postgres.port());
        accidents::count_together("accidents::child", processes, open(postgres.port()).await, task).await;
    }
}

#[tokio::test]
async fn clients_with_wrong_clocks_change_nothing() {
    let postgres = Postgres::forgetful();
    accidents::skewed_clocks_change_nothing("accidents::child", |key| format!("{key} {}", postgres.port())).await;
}

async fn client(postgres: &Postgres) -> Client {
    let (client, wire) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
    tokio::spawn(wire);
    client
}

async fn seen(store: &dyn Store, after: Option<&Cursor>) -> (Vec<(Id, Version)>, Cursor) {
    match store.changes(after, 100).await.unwrap() {
        Changes::Page { items, next } => {
            (items.into_iter().map(|change| (change.id, change.snapshot.version)).collect(), next)
        }
        Changes::Gap { .. } => panic!("a gap"),
    }
}

/// P1: were the table partitioned by expiry, two begins of one id could land in two partitions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_begins_of_one_id_with_different_expiries_have_one_winner() {
    let postgres = Postgres::forgetful();
    let store = open(postgres.port()).await;
    for round in 0..20 {
        let mut begins = Vec::new();
        for days in 0..8 {
            let (store, id) = (store.clone(), id(round));
            let expiry = Some(Due::After(Millis::from_days(1 + 300 * days)));
            let record = Envelope { expiry, gone: expiry, ..numbered(days) };
            begins.push(tokio::spawn(async move { store.swap(&id, Version::NEVER, Some(record)).await }));
        }
        let mut winners = 0;
        for begin in begins {
            winners += usize::from(matches!(begin.await.unwrap().unwrap(), Swap::Swapped { .. }));
        }
        assert_eq!(winners, 1, "begins of one id that went through");
    }
    let kind = "SELECT relkind::text, (SELECT count(*) FROM hapax.records) FROM pg_class WHERE oid = 'hapax.records'::regclass";
    let row = client(&postgres).await.query_one(kind, &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("r", 20), "one plain table, one row an id");
}

/// P2: a write takes its place in the feed, and commits after one that took a later place. A reader that has gone past it
/// would never see it.
#[tokio::test]
async fn the_feed_does_not_pass_a_row_that_commits_late() {
    let postgres = Postgres::forgetful();
    let store = open(postgres.port()).await;
    let (first, _) = put(store.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await;
    let (_, cursor) = seen(store.as_ref(), None).await;
    let mut client = client(&postgres).await;
    let slow = client.transaction().await.unwrap();
    let update = "UPDATE hapax.records SET version = version + 1, changed = pg_current_xact_id() WHERE id = $1";
    slow.execute(update, &[&id(1).0.as_slice()]).await.unwrap();
    let (second, _) = put(store.as_ref(), &id(2), Version::NEVER, Some(numbered(2))).await;
    let (early, cursor) = seen(store.as_ref(), Some(&cursor)).await;
    assert_eq!(early, [], "what committed first has to wait for what began first");
    slow.commit().await.unwrap();
    let (late, _) = seen(store.as_ref(), Some(&cursor)).await;
    assert_eq!(late, [(id(1), Version(first.0 + 1)), (id(2), second)]);
}

/// The row that stands in the way was committed after the statement had begun, so the statement cannot show it. It is read
/// again, and counted.
#[tokio::test]
async fn an_empty_conflict_is_read_again_and_counted() {
    let postgres = Postgres::forgetful();
    // The lock is held until the wait for it is seen, however long that takes here today.
    let options = Options::new(postgres.url()).lock_timeout(Duration::from_secs(60)).answer_timeout(ANSWER * 24);
    let store = Arc::new(PostgresStore::open_with(options).await.unwrap());
    put(store.as_ref(), &id(7), Version::NEVER, Some(numbered(7))).await;
    let mut client = client(&postgres).await;
    let other = client.transaction().await.unwrap();
    let copy = "INSERT INTO hapax.records (id, version, changed, stamp, record, surface, tenant) \
                SELECT $1, version, pg_current_xact_id(), stamp, record, surface, tenant FROM hapax.records WHERE id = $2";
    other.execute(copy, &[&id(1).0.as_slice(), &id(7).0.as_slice()]).await.unwrap();
    let blocked = tokio::spawn({
        let store = store.clone();
        async move { store.swap(&id(1), Version::NEVER, Some(numbered(1))).await }
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while other.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.commit().await.unwrap();
    let Ok(Swap::Conflict(held)) = blocked.await.unwrap() else { panic!("somebody was there first") };
    assert_eq!(number_in(held.record.as_ref()), Some(7));
    assert_eq!(store.read_again(), 1);
}

/// Somebody holds the row in a long transaction. The swap gives up after the lock time-out, and has done nothing.
#[tokio::test]
async fn a_row_that_somebody_holds_does_not_hang_the_caller() {
    let postgres = Postgres::forgetful();
    let options = Options::new(postgres.url()).lock_timeout(Duration::from_millis(200));
    let store = PostgresStore::open_with(options).await.unwrap();
    let (version, _) = put(&store, &id(1), Version::NEVER, Some(numbered(1))).await;
    let mut client = client(&postgres).await;
    let holder = client.transaction().await.unwrap();
    holder.execute("SELECT FROM hapax.records WHERE id = $1 FOR UPDATE", &[&id(1).0.as_slice()]).await.unwrap();
    let error = store.swap(&id(1), version, Some(numbered(2))).await.expect_err("the row is held");
    assert!(matches!(error, StoreError::Unavailable { .. }), "nothing was written: {error}");
    assert!(error.to_string().contains("55P03"), "{error}");
    holder.rollback().await.unwrap();
    put(&store, &id(1), version, Some(numbered(2))).await;
}

/// Nobody waits, so nobody is told: a notification takes a lock that all commits share.
#[tokio::test]
async fn a_write_that_nobody_waits_for_notifies_nobody() {
    let postgres = Postgres::forgetful();
    let store = open(postgres.port()).await;
    let (client, mut wire) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
    let (notes, mut heard) = tokio::sync::mpsc::channel(100);
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| wire.poll_message(context)).await {
            if let AsyncMessage::Notification(note) = message {
                notes.send(note.payload().to_owned()).await.unwrap();
            }
        }
    });
    client.batch_execute("LISTEN \"hapax hapax\"").await.unwrap();
    for number in 0..20 {
        put(store.as_ref(), &id(number), Version::NEVER, Some(numbered(number))).await;
    }
    let mut watch = store.watch(&id(100)).await.unwrap();
    put(store.as_ref(), &id(100), Version::NEVER, Some(numbered(1))).await;
    watch.changed().await;
    // The first that is heard is the one that was waited for.
    assert_eq!(heard.recv().await.unwrap(), id(100).to_string());
}

/// Removals whose version nobody can need, and records that read as absent, leave the table in small batches; what stands
/// between stays.
#[tokio::test]
async fn what_nobody_can_need_is_deleted() {
    let postgres = Postgres::forgetful();
    let options = Options::new(postgres.url()).removal_memory(Millis(200));
    let store = PostgresStore::open_with(options).await.unwrap();
    let past = Some(Due::At(Stamp(1_000)));
    for number in 0..10 {
        let (version, _) = put(&store, &id(number), Version::NEVER, Some(numbered(number))).await;
        match number % 3 {
            0 => drop(put(&store, &id(number), version, None).await),
            1 => {
                let gone = Envelope { expiry: past, gone: past, ..numbered(number) };
                put(&store, &id(number), version, Some(gone)).await;
            }
            _ => {}
        }
    }
    let (_, cursor) = seen(&store, None).await;
    let (version, _) = put(&store, &id(2), store.get(&id(2)).await.unwrap().version, None).await;
    let client = client(&postgres).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        store.scan(Index::Expiry { until: Stamp(0) }, None, 1).await.unwrap();
        let row = client.query_one("SELECT count(*) FROM hapax.records", &[]).await.unwrap();
        if row.get::<_, i64>(0) == 2 {
            break;
        }
        let left = row.get::<_, i64>(0);
        assert!(tokio::time::Instant::now() < deadline, "{left} rows are left after a minute");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for number in [5, 8] {
        assert!(store.get(&id(number)).await.unwrap().record.is_some(), "{number} is still needed");
    }
    // Its version is forgotten, and never given out again; who has not read of its removal is told of the gap.
    assert_eq!(store.get(&id(2)).await.unwrap().version, Version::NEVER);
    assert!(put(&store, &id(2), Version::NEVER, Some(numbered(2))).await.0 > version);
    assert!(matches!(store.changes(Some(&cursor), 10).await.unwrap(), Changes::Gap { .. }));
}

#[tokio::test]
async fn what_a_server_may_lose_is_named_and_refused_where_durability_is_demanded() {
    for (setting, word) in [("synchronous_commit=off", "synchronous_commit"), ("fsync=off", "fsync")] {
        let postgres = Postgres::with(&[setting]);
        let store = open(postgres.port()).await;
        let said = store.durability();
        assert!(matches!(&said, Durability::BestEffort(why) if why.contains(word)), "{said}");
        let settings = Settings { demand_durable: true, ..Settings::default() };
        let refused = Engine::builder(store).settings(settings).build();
        assert!(matches!(refused, Err(BuildError::NotDurable { .. })), "{refused:?}");
    }
    let postgres = Postgres::start();
    let store = PostgresStore::open(postgres.url()).await.unwrap();
    assert_eq!(store.durability(), Durability::Durable);
    // Somebody changes it while we run: the next check says so.
    client(&postgres).await.batch_execute("ALTER ROLE postgres SET synchronous_commit = off").await.unwrap();
    assert!(store.check().await.unwrap().to_string().contains("synchronous_commit"));
    client(&postgres)
        .await
        .batch_execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        .await
        .unwrap();
    let refused = PostgresStore::open(postgres.url()).await.expect_err("nothing can be written");
    assert!(refused.to_string().contains("read-only"), "{refused}");
}

#[tokio::test]
async fn tables_of_a_newer_program_are_refused_and_those_of_ours_are_found_again() {
    let postgres = Postgres::forgetful();
    let first = PostgresStore::open(postgres.url()).await.unwrap();
    put(&first, &id(1), Version::NEVER, Some(numbered(1))).await;
    let second = PostgresStore::open(postgres.url()).await.unwrap();
    assert!(second.get(&id(1)).await.unwrap().record.is_some());
    client(&postgres).await.batch_execute("INSERT INTO hapax.migrations (version) VALUES (99)").await.unwrap();
    let refused = PostgresStore::open(postgres.url()).await.expect_err("they are newer");
    assert!(matches!(refused, OpenError::Newer { found: 99, .. }), "{refused}");
}

/// The number of transactions gets one more digit while a tenant's records are written. The oldest are still found first, and none is
/// passed over between two pages.
#[tokio::test]
async fn age_goes_by_number_and_not_by_digits() {
    let postgres = Postgres::forgetful();
    let store = PostgresStore::open(postgres.url()).await.unwrap();
    let mut written = Vec::new();
    let transactions = async || {
        let row = client(&postgres).await.query_one("SELECT pg_current_xact_id()::text", &[]).await.unwrap();
        row.get::<_, String>(0)
    };
    let digits = transactions().await.len();
    while written.len() < 20 || transactions().await.len() == digits {
        for _ in 0..20 {
            let id = id(written.len() as u64);
            put(&store, &id, Version::NEVER, Some(numbered(1))).await;
            written.push(id);
        }
        assert!(written.len() < 2_000, "it has counted further than a fresh server does");
    }
    for number in 0..20 {
        let id = id(written.len() as u64 + number);
        put(&store, &id, Version::NEVER, Some(numbered(1))).await;
        written.push(id);
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.scan(Index::TenantAge(numbered(1).tenant), after.as_ref(), 7).await.unwrap();
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(found == written, "{} of {} were found, or out of order", found.len(), written.len());
}

/// The tables were made by a program that did not count bytes. They are brought up to date, what lies in their rows is counted, and
/// the rest once it is written again.
#[tokio::test]
async fn tables_from_before_bytes_were_counted_are_brought_up_to_date() {
    let postgres = Postgres::forgetful();
    let first = PostgresStore::open(postgres.url()).await.unwrap();
    let (plain, heavy) = (numbered(1), Envelope { beside: 1 << 20, ..numbered(2) });
    put(&first, &id(1), Version::NEVER, Some(plain.clone())).await;
    let (version, _) = put(&first, &id(2), Version::NEVER, Some(heavy.clone())).await;
    let before = "ALTER TABLE hapax.records DROP COLUMN weight; DELETE FROM hapax.migrations WHERE version = 2";
    client(&postgres).await.batch_execute(before).await.unwrap();
    let store = PostgresStore::open(postgres.url()).await.unwrap();
    let usage = store.usage(plain.tenant).await.unwrap();
    assert!(usage.counts([&plain, &numbered(2)]), "{usage:?}");
    put(&store, &id(2), version, Some(heavy.clone())).await;
    let usage = store.usage(plain.tenant).await.unwrap();
    assert!(usage.counts([&plain, &heavy]), "{usage:?}");
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let secret = "hunter2-very-secret";
    let postgres = Postgres::forgetful();
    let right = format!("postgres://postgres:{secret}@127.0.0.1:{}/postgres", postgres.port());
    let store = PostgresStore::open(right.clone()).await.unwrap();
    let shown = format!("{store:?} {:?} {}", Options::new(right), store.name());
    assert!(!shown.contains(secret), "{shown}");
    let port = postgres.port();
    let urls = [
        format!("postgres://nobody:{secret}@127.0.0.1:{port}/postgres"),
        format!("postgres://postgres:{secret}@127.0.0.1:{port}/not-there"),
        format!("postgres://postgres:{secret}@127.0.0.1:1/postgres"),
        format!("postgres://postgres:{secret}@127.0.0.1:notaport/postgres"),
        format!("postgres:{secret}"),
        format!("mysql://postgres:{secret}@127.0.0.1:{port}/postgres?host=127.0.0.1"),
        // The driver takes the first `@` for the one before the host.
        format!("postgres://postgres:first@{secret}@127.0.0.1:{port}/postgres"),
        format!("postgres://postgres:first@{secret}/x@127.0.0.1:{port}/postgres"),
        format!("postgres://postgres:first@{secret}?port=1@127.0.0.1:{port}/postgres"),
        format!("postgres://127.0.0.1:{port}/postgres?user=postgres&password=first@{secret}"),
        format!("postgres://postgres:first/{secret}@127.0.0.1:{port}/postgres"),
        // Encoded as a whole, or with what belongs elsewhere.
        format!("postgres://postgres%3A{secret}%40127.0.0.1:{port}/postgres"),
        format!("postgres://postgres%3A{secret}@127.0.0.1:{port}/postgres"),
        format!("postgres://postgres:{port}/{secret}%40127.0.0.1/postgres"),
        format!("postgres://127.0.0.1:{port}/postgres&password={secret}"),
        format!("postgres://host=127.0.0.1 password={secret}"),
        format!("host=127.0.0.1,password={secret} port={port}"),
        format!("host=127.0.0.1 port={port} dbname=postgres;password={secret}"),
        format!("host=127.0.0.1 port={port} user=postgres:{secret}"),
        format!("host=127.0.0.1 port={port} password=first {secret}"),
        format!("host=127.0.0.1 port={port} password='first {secret}"),
    ];
    for url in urls {
        let error: OpenError = PostgresStore::open(url.clone()).await.expect_err("none of these can be opened");
        let shown = all_of(&error);
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("127.0.0.1") || matches!(error, OpenError::Url { .. }), "{shown}");
        assert!(
            ["check", "write ", "create ", "give "].iter().any(|word| shown.contains(word)),
            "it says what to do next: {shown}"
        );
        let listening = Options::new(postgres.url()).listen_url(url);
        // Where to listen is not tried before somebody waits.
        if let Ok(store) = PostgresStore::open_with(listening).await {
            let shown = format!("{store:?}");
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

/// As people see it, as programs log it, and what it says was the reason.
fn all_of(error: &dyn std::error::Error) -> String {
    let mut shown = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(error) = source {
        shown.push_str(&format!(" {error} {error:?}"));
        source = error.source();
    }
    shown
}

/// The server runs and answers. To look whether it does, or to wait, would lead nowhere: what helps is another password, and
/// that is said, without the wrong one.
#[tokio::test]
async fn a_wrong_password_is_told_as_one() {
    let postgres = Postgres::with_password("right-one");
    let url = |login: &str| format!("postgres://{login}@127.0.0.1:{}/postgres", postgres.port());
    for (login, word) in [("app:wrong-one", "28P01"), ("app:", "28P01"), ("app", "password missing")] {
        let error = PostgresStore::open(url(login)).await.expect_err("it is not the password");
        let shown = all_of(&error);
        assert!(matches!(error, OpenError::Denied { .. }) && shown.contains(word), "{shown}");
        assert!(shown.contains("give the right user and password") && !shown.contains("runs"), "{shown}");
        assert!(!shown.contains("wrong-one"), "{shown}");
    }
    let store = PostgresStore::open(url("app:right-one")).await.unwrap();
    put(&store, &id(1), Version::NEVER, Some(numbered(1))).await;
    // Changed while we run, and the old sessions ended.
    postgres.say("ALTER ROLE app PASSWORD 'other-one'");
    let swept = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE usename = 'app'";
    postgres.say(swept);
    let mut said = String::new();
    for _ in 0..2 {
        // The first call may still meet a session that was ended.
        said = all_of(&store.get(&id(1)).await.expect_err("it is the password no more"));
    }
    assert!(said.contains("28P01") && said.contains("give the right user and password"), "{said}");
    assert!(!said.contains("right-one"), "{said}");
}

/// A pooler hands each statement to another session, so nobody hears what `LISTEN` was said to. The URL says where to listen
/// instead; when that way is cut, whoever waits comes to see the change all the same. When it is open again, changes
/// are told as quickly as before.
#[tokio::test]
async fn behind_a_pooler_wake_ups_come_by_the_way_that_the_url_says() {
    let postgres = Postgres::forgetful();
    let direct = Proxy::before(postgres.port()).await;
    let url = format!("{}?schema=pooled&listen=127.0.0.1:{}", postgres.url(), direct.port());
    let store = PostgresStore::open(url).await.unwrap();
    assert_eq!(direct.asked(), 0, "statements do not go there");
    let mut watch = store.watch(&id(1)).await.unwrap();
    assert!(direct.asked() > 0, "it listens there");
    // Written by another process, so that only the server can tell.
    let other = PostgresStore::open(format!("{}?schema=pooled", postgres.url())).await.unwrap();
    let (version, _) = put(&other, &id(1), Version::NEVER, Some(numbered(1))).await;
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("woken");
    direct.down();
    let (version, _) = put(&other, &id(1), version, Some(numbered(2))).await;
    tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("woken to read for itself");
    assert_eq!(number_in(store.get(&id(1)).await.unwrap().record.as_ref()), Some(2));
    accidents::eventually("nobody listens", async || !store.listens()).await;

    direct.mend();
    accidents::eventually("somebody listens again", async || store.listens()).await;
    accidents::a_subscription_that_is_back_wakes_at_once(watch.as_mut(), &other, version).await;
    assert!(store.listens(), "the way is open");
}

/// Where nobody can listen, that costs whoever waits nothing: only the first waits for the session, and only until it is
/// known to have failed.
#[tokio::test]
async fn while_nobody_can_listen_a_watch_begins_at_once() {
    let postgres = Postgres::forgetful();
    let direct = Proxy::before(postgres.port()).await;
    direct.down();
    let url = format!("{}?listen=127.0.0.1:{}", postgres.url(), direct.port());
    let store = PostgresStore::open(url).await.unwrap();
    let (began, mut watches) = (tokio::time::Instant::now(), Vec::new());
    for number in 0..6 {
        watches.push(store.watch(&id(number)).await.unwrap());
    }
    let took = began.elapsed();
    assert!(!store.listens() && took < Duration::from_secs(2), "six took {took:?}");
    // The server is there, and keeps its silence: the first waits a moment for it, the others do not, and are woken to read
    // for themselves long before that attempt has ended.
    direct.mend();
    direct.hold();
    let url = format!("{}?listen=127.0.0.1:{}", postgres.url(), direct.port());
    let options = Options::new(url).connect_timeout(Duration::from_secs(600));
    let store = PostgresStore::open_with(options).await.unwrap();
    watches.push(store.watch(&id(10)).await.unwrap());
    let began = tokio::time::Instant::now();
    for number in 11..16 {
        watches.push(store.watch(&id(number)).await.unwrap());
    }
    let took = began.elapsed();
    assert!(!store.listens() && took < Duration::from_secs(2), "five took {took:?}");
    let mut last = watches.pop().unwrap();
    for _ in 0..3 {
        tokio::time::timeout(Duration::from_secs(60), last.changed()).await.expect("woken now and then");
    }
}
