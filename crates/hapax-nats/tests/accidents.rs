//! What happens between a program and its NATS.

use std::{sync::Arc, time::Duration};

use hapax_core::{Millis, Version};
use hapax_engine::{Begun, BuildError, Engine, Settings};
use hapax_nats::{NatsStore, OpenError, Options};
use hapax_store::{BoxFuture, Changes, Durability, Index, Store, StoreError, Swap};
use hapax_testkit::{
    Nats, Proxy,
    accidents::{self, ANSWER, HASTY, SECRET},
    children,
    sample::{id, number_in, numbered, put, record, tag},
};

fn open(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    at(format!("nats://127.0.0.1:{port}"), ANSWER)
}

/// For accidents in which answers are lost.
fn hasty(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    at(format!("nats://127.0.0.1:{port}"), HASTY)
}

fn at(url: String, longest: Duration) -> BoxFuture<'static, Arc<dyn Store>> {
    Box::pin(async move {
        let options = Options::new(url).answer_timeout(longest).connect_timeout(longest);
        Arc::new(NatsStore::open_with(options).await.unwrap()) as Arc<dyn Store>
    })
}

/// C2.
#[tokio::test]
async fn a_begin_that_lands_after_its_release_conflicts() {
    let nats = Nats::start();
    accidents::a_begin_that_lands_after_its_release_conflicts(&hasty, nats.port()).await;
}

/// C3.
#[tokio::test]
async fn a_begin_that_lands_after_it_was_disowned_conflicts() {
    let nats = Nats::start();
    accidents::a_begin_that_lands_after_it_was_disowned_conflicts(&hasty, nats.port()).await;
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_can_be_recognised() {
    let nats = Nats::start();
    accidents::a_lost_answer_is_unknown_and_can_be_recognised(&hasty, nats.port()).await;
}

#[tokio::test]
async fn a_cut_connection_comes_back() {
    let nats = Nats::start();
    accidents::a_cut_connection_comes_back(&hasty, nats.port()).await;
}

#[tokio::test]
async fn wakes_reach_other_processes() {
    let nats = Nats::start();
    accidents::wakes_reach_other_processes(&open, nats.port()).await;
}

#[tokio::test]
async fn a_watch_outlives_its_connection() {
    let nats = Nats::start();
    accidents::a_watch_outlives_its_connection(&hasty, nats.port()).await;
}

#[tokio::test]
async fn every_error_names_the_server_and_a_next_step() {
    let mut nats = Nats::with(&format!("authorization {{ user: me, password: {SECRET:?} }}"));
    let open = |port: u16| at(format!("nats://me:{SECRET}@127.0.0.1:{port}"), HASTY);
    accidents::every_error_names_the_server_and_a_next_step(&open, &mut nats).await;
}

/// A refusal names a sequence and nothing more, so a duplicate reads as well.
#[tokio::test]
async fn each_step_is_one_round_trip_and_a_duplicate_two() {
    let nats = Nats::start();
    accidents::each_step_is_one_round_trip_but_a_duplicate(&open, nats.port(), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let mut nats = Nats::start();
    accidents::what_was_acknowledged_survives_kill_9(&open, &mut nats).await;
}

#[tokio::test]
async fn a_pause_past_the_lease_runs_nothing_twice() {
    let nats = Nats::start();
    accidents::a_pause_past_the_lease_runs_nothing_twice(&open, &nats).await;
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
        let nats = Nats::start();
        let task = || format!("share {}", nats.port());
        accidents::count_together("accidents::child", processes, open(nats.port()).await, task).await;
    }
}

#[tokio::test]
async fn clients_with_wrong_clocks_change_nothing() {
    let nats = Nats::start();
    accidents::skewed_clocks_change_nothing("accidents::child", |key| format!("{key} {}", nats.port())).await;
}

async fn say(port: u16, subject: &str, body: &str) -> String {
    let client = async_nats::connect(format!("nats://127.0.0.1:{port}")).await.unwrap();
    let answer = client.request(subject.to_owned(), body.to_owned().into()).await.unwrap();
    String::from_utf8(answer.payload.to_vec()).unwrap()
}

#[tokio::test]
async fn what_a_server_may_lose_is_named_and_refused_where_durability_is_demanded() {
    let nats = Nats::start();
    let make = async |bucket: &str, more: &str| {
        for stream in [bucket.to_owned(), format!("{bucket}-bodies")] {
            let config = format!(
                r#"{{"name":"KV_{stream}","subjects":["$KV.{stream}.>"],"retention":"limits","discard":"new",
                "max_msgs_per_subject":1,"deny_delete":true,{more}}}"#
            );
            let said = say(nats.port(), &format!("$JS.API.STREAM.CREATE.KV_{stream}"), &config).await;
            assert!(!said.contains("error"), "{said}");
        }
    };
    make("in-memory", r#""storage":"memory""#).await;
    make("short", r#""storage":"file","max_age":3600000000000"#).await;
    make("small", r#""storage":"file","max_bytes":1000000"#).await;
    for (bucket, word) in [
        ("in-memory", "memory storage"),
        ("short", "after 3600 s"),
        ("small", "max_bytes"),
        ("made-by-us", "sync_interval"),
    ] {
        let store = NatsStore::open(format!("{}/{bucket}", nats.url())).await.unwrap();
        let said = store.durability();
        assert!(matches!(&said, Durability::BestEffort(why) if why.contains(word)), "{bucket}: {said}");
        assert_eq!(store.check().await.unwrap(), said);
        // Whoever made the bucket, it works.
        put(&store, &id(1), Version::NEVER, Some(numbered(1))).await;
        let settings = Settings { demand_durable: true, ..Settings::default() };
        let refused = Engine::builder(Arc::new(store)).settings(settings).build();
        assert!(matches!(refused, Err(BuildError::NotDurable { .. })), "{refused:?}");
    }
}

/// A bucket that is full refuses, and says so; nothing is dropped to make room.
#[tokio::test]
async fn a_full_bucket_refuses_and_drops_nothing() {
    let nats = Nats::start();
    let store = NatsStore::open(nats.url()).await.unwrap();
    let config = r#"{"name":"KV_hapax","subjects":["$KV.hapax.>"],"retention":"limits","discard":"new","storage":"file",
        "max_msgs_per_subject":1,"allow_rollup_hdrs":true,"max_msgs":20}"#;
    let said = say(nats.port(), "$JS.API.STREAM.UPDATE.KV_hapax", config).await;
    assert!(said.contains(r#""max_msgs":20"#), "{said}");
    let mut written = Vec::new();
    let full = loop {
        let next = written.len() as u64;
        assert!(next < 1_000, "it is never full");
        match store.swap(&id(next), Version::NEVER, Some(numbered(next))).await {
            Ok(Swap::Swapped { version, .. }) => written.push(version),
            Ok(Swap::Conflict(held)) => panic!("nobody else writes: {held:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, StoreError::Full { .. }), "{full}");
    for (number, version) in written.iter().enumerate() {
        let held = store.get(&id(number as u64)).await.unwrap();
        assert_eq!((held.version, number_in(held.record.as_ref())), (*version, Some(number as u64)));
    }
}

/// Marks of removals do not pile up, and once one is forgotten its id starts anew at a higher version, in this process, in
/// another, and after a restart of the server.
#[tokio::test]
async fn forgotten_removals_leave_nothing_and_repeat_no_version() {
    let mut nats = Nats::start();
    let options = Options::new(nats.url()).removal_memory(Millis(300));
    let store = NatsStore::open_with(options.clone()).await.unwrap();
    let mut highest = Version::NEVER;
    for number in 0..50 {
        let (begun, _) = put(&store, &id(number), Version::NEVER, Some(numbered(number))).await;
        (highest, _) = put(&store, &id(number), begun, None).await;
    }
    put(&store, &id(1_000), Version::NEVER, Some(numbered(1))).await;
    // Whoever scans keeps the bucket clean.
    let all = Index::TenantAge(tag(2));
    wait(async || {
        store.scan(all, None, 10).await.unwrap();
        store.get(&id(49)).await.unwrap().version == Version::NEVER
    })
    .await;
    wait(async || {
        let info = say(nats.port(), "$JS.API.STREAM.INFO.KV_hapax", "").await;
        // The record that is there, and the word that removals were forgotten.
        info.contains(r#""messages":2,"#)
    })
    .await;
    // A server that is killed may have kept a mark that it was told to delete. Still it is a mark, and nothing that was
    // removed comes back.
    nats.restart();
    wait(async || store.get(&id(0)).await.is_ok()).await;
    let other = NatsStore::open_with(options).await.unwrap();
    let held = other.get(&id(7)).await.unwrap();
    assert_eq!(held.record, None);
    let (again, _) = put(&other, &id(7), held.version, Some(numbered(7))).await;
    assert!(again > highest, "{again} was given out before: the last was {highest}");
    // And a feed that was read before says that it may have missed something.
    let Changes::Page { next, .. } = other.changes(None, 10).await.unwrap() else { panic!("it begins") };
    let (removed, _) = put(&other, &id(7), again, None).await;
    put(&other, &id(1_001), Version::NEVER, Some(numbered(1))).await;
    wait(async || {
        other.scan(all, None, 10).await.unwrap();
        other.get(&id(7)).await.unwrap().version == Version::NEVER
    })
    .await;
    let seen = other.changes(Some(&next), 10).await.unwrap();
    assert!(matches!(seen, Changes::Gap { .. }), "the removal at {removed} cannot be shown any more: {seen:?}");
}

/// A record longer than a message is read back whole, and what it leaves behind when it is replaced is swept.
#[tokio::test]
async fn a_record_longer_than_a_message_leaves_nothing_behind() {
    let nats = Nats::with("max_payload: 65536");
    let options = Options::new(nats.url()).removal_memory(Millis(200));
    let store = NatsStore::open_with(options).await.unwrap();
    let long = record(vec![7; 200_000]);
    let (first, _) = put(&store, &id(1), Version::NEVER, Some(long.clone())).await;
    assert_eq!(store.get(&id(1)).await.unwrap().record, Some(long.clone()));
    let conflict = store.swap(&id(1), Version::NEVER, Some(long.clone())).await.unwrap();
    assert!(matches!(&conflict, Swap::Conflict(held) if held.record == Some(long.clone())), "with all of it");
    let (second, _) = put(&store, &id(1), first, Some(long.clone())).await;
    put(&store, &id(1), second, Some(numbered(1))).await;
    let mut swept = 0;
    wait(async || {
        swept += store.sweep().await.unwrap();
        swept >= 2
    })
    .await;
    put(&store, &id(2), Version::NEVER, Some(long.clone())).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(store.sweep().await.unwrap(), 0, "what is named stays");
    assert_eq!(store.get(&id(2)).await.unwrap().record, Some(long));
    let info =
        say(nats.port(), "$JS.API.STREAM.INFO.KV_hapax-bodies", r#"{"subjects_filter":"$KV.hapax-bodies.*.p"}"#).await;
    assert_eq!(info.matches(".p\":").count(), 1, "one part is left: {info}");
}

/// The store estimates the time, says how far it may be off, and the engine lets no lease be shorter than ten times that.
#[tokio::test]
async fn no_lease_is_shorter_than_ten_times_the_error_of_the_clock() {
    let nats = Nats::start();
    let proxy = Proxy::before(nats.port()).await;
    proxy.delay(Duration::from_millis(100));
    let store = NatsStore::open(format!("nats://127.0.0.1:{}", proxy.port())).await.unwrap();
    let error = store.clock_error();
    assert!(error >= Millis(50), "half of a way of a tenth of a second: {error:?}");
    let engine = accidents::engine(Arc::new(store));
    let begun = accidents::call(&engine, "short").lease(Millis(1)).begin().await.unwrap();
    let Begun::Execute(ticket) = begun else { panic!("{begun:?}") };
    assert!(ticket.lease().0 >= 10 * error.0, "{:?} with an error of {error:?}", ticket.lease());
    let begun = accidents::call(&engine, "long").lease(Millis::from_mins(5)).begin().await.unwrap();
    let Begun::Execute(ticket) = begun else { panic!("{begun:?}") };
    assert_eq!(ticket.lease(), Millis::from_mins(5), "a longer one is left as it is");
}

/// Somebody empties the stream by hand. Whoever follows it must notice that nothing more comes, and not wait for ever.
#[tokio::test]
async fn a_bucket_emptied_by_hand_is_read_to_its_end() {
    let nats = Nats::start();
    let store = NatsStore::open(nats.url()).await.unwrap();
    for number in 0..5 {
        put(&store, &id(number), Version::NEVER, Some(numbered(number))).await;
    }
    let said = say(nats.port(), "$JS.API.STREAM.PURGE.KV_hapax", "").await;
    assert!(said.contains(r#""success":true"#), "{said}");
    let all = Index::TenantAge(tag(2));
    let page = store.scan(all, None, 10).await.unwrap();
    assert!(page.items.is_empty(), "{page:?}");
    put(&store, &id(9), Version::NEVER, Some(numbered(9))).await;
    assert_eq!(store.scan(all, None, 10).await.unwrap().items, [id(9)]);
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let secret = "hunter2-very-secret";
    let nats = Nats::with(&format!("authorization {{ user: me, password: {secret:?} }}"));
    let right = format!("nats://me:{secret}@127.0.0.1:{}/box", nats.port());
    let store = NatsStore::open(right.clone()).await.unwrap();
    let shown = format!("{store:?} {:?} {}", Options::new(right), store.name());
    assert!(!shown.contains(secret), "{shown}");
    assert_eq!(store.name(), format!("nats://127.0.0.1:{}/box", nats.port()));
    let urls = [
        format!("nats://me:wrong-{secret}@127.0.0.1:{}/", nats.port()),
        format!("nats://me:{secret}@127.0.0.1:1/"),
        format!("nats://me:{secret}@127.0.0.1:{}/a.b", nats.port()),
        format!("nats://me:{secret}@"),
        format!("http://me:{secret}@127.0.0.1/"),
        format!("nats://127.0.0.1:{}/", nats.port()),
    ];
    for url in urls {
        let error = NatsStore::open(url.clone()).await.expect_err("none of these can be opened");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("127.0.0.1") || matches!(error, OpenError::Url { .. }), "{shown}");
        assert!(shown.contains("check") || shown.contains("write "), "it says what to do next: {shown}");
        assert!(!shown.contains("try again"), "it would be the same: {shown}");
    }
    // A bucket that belongs to something else.
    let other = r#"{"name":"KV_jobs","subjects":["jobs.>"],"retention":"workqueue","storage":"file"}"#;
    let client = async_nats::ConnectOptions::with_user_and_password("me".into(), secret.into());
    let client = client.connect(format!("127.0.0.1:{}", nats.port())).await.unwrap();
    client.request("$JS.API.STREAM.CREATE.KV_jobs", other.into()).await.unwrap();
    let error = NatsStore::open(format!("nats://me:{secret}@127.0.0.1:{}/jobs", nats.port())).await.unwrap_err();
    assert!(matches!(&error, OpenError::Bucket { .. }) && error.to_string().contains("HX0101"), "{error}");
}

async fn wait(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..3_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within a minute");
}
