//! What happens between a program and its Redis.

use std::{sync::Arc, time::Duration};

use hapax_core::Version;
use hapax_engine::{BuildError, Engine, Settings};
use hapax_redis::{OpenError, Options, RedisStore};
use hapax_store::{BoxFuture, Changes, Durability, Store, StoreError, Swap};
use hapax_testkit::{
    Proxy, Redis,
    accidents::{self, ANSWER, HASTY, SECRET},
    children,
    sample::{id, number_in, numbered, put},
};

fn open(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    at(format!("redis://127.0.0.1:{port}/"), ANSWER)
}

/// For accidents in which answers are lost.
fn hasty(port: u16) -> BoxFuture<'static, Arc<dyn Store>> {
    at(format!("redis://127.0.0.1:{port}/"), HASTY)
}

fn at(url: String, longest: Duration) -> BoxFuture<'static, Arc<dyn Store>> {
    Box::pin(async move {
        let options = Options::new(url).answer_timeout(longest);
        Arc::new(RedisStore::open_with(options).await.unwrap()) as Arc<dyn Store>
    })
}

/// C2.
#[tokio::test]
async fn a_begin_that_lands_after_its_release_conflicts() {
    let redis = Redis::forgetful();
    accidents::a_begin_that_lands_after_its_release_conflicts(&hasty, redis.port()).await;
}

/// C3.
#[tokio::test]
async fn a_begin_that_lands_after_it_was_disowned_conflicts() {
    let redis = Redis::forgetful();
    accidents::a_begin_that_lands_after_it_was_disowned_conflicts(&hasty, redis.port()).await;
}

#[tokio::test]
async fn a_lost_answer_is_unknown_and_can_be_recognised() {
    let redis = Redis::forgetful();
    accidents::a_lost_answer_is_unknown_and_can_be_recognised(&hasty, redis.port()).await;
}

#[tokio::test]
async fn a_cut_connection_comes_back() {
    let redis = Redis::forgetful();
    accidents::a_cut_connection_comes_back(&hasty, redis.port()).await;
}

#[tokio::test]
async fn wakes_reach_other_processes() {
    let redis = Redis::forgetful();
    accidents::wakes_reach_other_processes(&open, redis.port()).await;
}

#[tokio::test]
async fn a_watch_outlives_its_connection() {
    let redis = Redis::forgetful();
    accidents::a_watch_outlives_its_connection(&hasty, redis.port()).await;
}

#[tokio::test]
async fn every_error_names_the_server_and_a_next_step() {
    let mut redis = Redis::with(&["--save", "", "--requirepass", SECRET]);
    let open = |port: u16| at(format!("redis://:{SECRET}@127.0.0.1:{port}/"), HASTY);
    accidents::every_error_names_the_server_and_a_next_step(&open, &mut redis).await;
}

#[tokio::test]
async fn each_step_is_one_round_trip() {
    let redis = Redis::forgetful();
    accidents::each_step_is_one_round_trip(&open, redis.port()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let mut redis = Redis::start();
    accidents::what_was_acknowledged_survives_kill_9(&open, &mut redis).await;
}

#[tokio::test]
async fn a_pause_past_the_lease_runs_nothing_twice() {
    let redis = Redis::start();
    accidents::a_pause_past_the_lease_runs_nothing_twice(&open, &redis).await;
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
        let redis = Redis::forgetful();
        let task = || format!("share {}", redis.port());
        accidents::count_together("accidents::child", processes, open(redis.port()).await, task).await;
    }
}

#[tokio::test]
async fn clients_with_wrong_clocks_change_nothing() {
    let redis = Redis::forgetful();
    accidents::skewed_clocks_change_nothing("accidents::child", |key| format!("{key} {}", redis.port())).await;
}

/// Many wait, and their marks are made anew one after the other over a slow wire. Whoever completes meanwhile is heard
/// meanwhile.
#[tokio::test]
async fn wake_ups_do_not_wait_for_the_marks_of_all_who_wait() {
    const WAITERS: u64 = 1_000;
    let redis = Redis::forgetful();
    let proxy = Proxy::before(redis.port()).await;
    let (through, direct) = (open(proxy.port()).await, open(redis.port()).await);
    let mut others = tokio::task::JoinSet::new();
    for number in 2..WAITERS {
        let store = through.clone();
        others.spawn(async move { store.watch(&id(number)).await.unwrap() });
    }
    let others = others.join_all().await;
    let mut watch = through.watch(&id(1)).await.unwrap();
    // One by one this takes a minute.
    proxy.delay(Duration::from_millis(60));
    let quiet = proxy.asked();
    while proxy.asked() < quiet + 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    put(direct.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await;
    tokio::time::timeout(Duration::from_secs(25), watch.changed()).await.expect("woken while marks are made");
    drop(others);
}

/// The server's clock went back, by a fail-over to a machine that is behind or by an operator. Versions and stamps of a
/// record go on from where they were.
#[tokio::test]
async fn a_clock_that_went_back_repeats_no_version() {
    let redis = Redis::forgetful();
    let store = open(redis.port()).await;
    let head = format!("hapax:{{{:02x}}}h", id(1).0[0]);
    let ahead = 4_000_000_000_000_000_u64;
    assert!(redis.say(&format!("SET {head} }}{ahead:016}{:013}", 0)).starts_with("+OK"));
    let (first, _) = put(store.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await;
    let (second, _) = put(store.as_ref(), &id(1), first, None).await;
    let (third, _) = put(store.as_ref(), &id(1), second, Some(numbered(2))).await;
    assert_eq!([first.0, second.0, third.0], [ahead + 1, ahead + 2, ahead + 3]);
}

/// Records were written and the indexes have yet to learn of them when a neighbour in their bucket is removed, which moves the
/// bucket's highest version past theirs. Whoever follows the feed is told of each of them, and of what becomes of it later.
#[tokio::test]
async fn a_removal_hides_no_write_of_its_bucket_from_the_feed() {
    let redis = Redis::forgetful();
    let store = open(redis.port()).await;
    let same_bucket: Vec<_> = (0..).map(id).filter(|one| one.0[0] == id(0).0[0]).take(3).collect();
    let [early, removed, late] = same_bucket.as_slice() else { panic!("three of them") };
    let (first, _) = put(store.as_ref(), removed, Version::NEVER, Some(numbered(1))).await;
    let mut cursor = None;
    let mut told = async || {
        let mut all = Vec::new();
        loop {
            let page = store.changes(cursor.as_ref(), 2).await.unwrap();
            let Changes::Page { items, next } = page else { panic!("{page:?}") };
            cursor = Some(next);
            if items.is_empty() {
                return all;
            }
            all.extend(items.into_iter().map(|change| (change.id, number_in(change.snapshot.record.as_ref()))));
        }
    };
    assert_eq!(told().await, [(*removed, Some(1))]);
    let (begun, _) = put(store.as_ref(), early, Version::NEVER, Some(numbered(2))).await;
    put(store.as_ref(), removed, first, None).await;
    put(store.as_ref(), late, Version::NEVER, Some(numbered(3))).await;
    put(store.as_ref(), early, begun, Some(numbered(4))).await;
    let mut all = told().await;
    all.sort_by_key(|one| one.1);
    assert_eq!(all, [(*removed, None), (*late, Some(3)), (*early, Some(4))]);
    assert!(told().await.is_empty());
    let late_version = store.get(late).await.unwrap().version;
    put(store.as_ref(), late, late_version, Some(numbered(5))).await;
    assert_eq!(told().await, [(*late, Some(5))]);
}

/// Nobody waits, so nobody is told: publishing costs every server of a cluster.
#[tokio::test]
async fn a_write_that_nobody_waits_for_publishes_nothing() {
    let redis = Redis::forgetful();
    let store = open(redis.port()).await;
    // A store that is opened tries whether it may.
    assert!(redis.say("CONFIG RESETSTAT").starts_with("+OK"));
    let published = || redis.say("INFO commandstats").contains("cmdstat_publish");
    for number in 0..50 {
        put(store.as_ref(), &id(number), Version::NEVER, Some(numbered(number))).await;
    }
    assert!(!published());
    let mut watch = store.watch(&id(100)).await.unwrap();
    put(store.as_ref(), &id(100), Version::NEVER, Some(numbered(1))).await;
    watch.changed().await;
    assert!(published());
}

/// A server that restarts has forgotten our scripts; it is sent them again, and the call succeeds.
#[tokio::test]
async fn a_server_that_forgot_the_scripts_is_sent_them_again() {
    let redis = Redis::forgetful();
    let store = open(redis.port()).await;
    assert!(redis.say("SCRIPT FLUSH").starts_with("+OK"));
    put(store.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await;
    assert!(store.get(&id(1)).await.unwrap().record.is_some());
}

/// The server has become a replica, and of several commands in one go only some are told. The connection is given up: by
/// the next call the address may lead to the master.
#[tokio::test]
async fn a_replica_that_refuses_one_command_of_many_is_left() {
    let (redis, master) = (Redis::forgetful(), Redis::forgetful());
    let store = RedisStore::open_with(Options::new(redis.url()).connections(1)).await.unwrap();
    let connected = || {
        let said = redis.say("INFO stats");
        let count = said.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap()
    };
    assert!(redis.say(&format!("REPLICAOF 127.0.0.1 {}", master.port())).starts_with("+OK"));
    assert!(redis.say("CONFIG SET replica-serve-stale-data yes").starts_with("+OK"));
    let body = hapax_core::BodyId([7; 32]);
    let error = store.drop_body(body).await.expect_err("a replica is not written to");
    assert!(error.to_string().contains("READONLY"), "{error}");
    let before = connected();
    assert!(store.drop_body(body).await.is_err());
    // One for each time it was looked at, and one for the new connection.
    assert_eq!(connected() - before, 2);
}

/// Many write at once, half of them to one record. They travel together, and each is told what became of its own write: of
/// that record one is the first, and all others meet what it wrote.
#[tokio::test]
async fn writes_that_travel_together_are_each_told_their_own() {
    let redis = Redis::forgetful();
    let store = Arc::new(RedisStore::open(redis.url()).await.unwrap());
    let before = store.round_trips();
    let mut under_way = tokio::task::JoinSet::new();
    for number in 0..64_u64 {
        let (store, shared) = (store.clone(), number.is_multiple_of(2));
        under_way.spawn(async move {
            let id = id(if shared { 1_000 } else { number });
            (shared, number, store.swap(&id, Version::NEVER, Some(numbered(number))).await.unwrap())
        });
    }
    let all = under_way.join_all().await;
    assert!(store.round_trips() - before < 16, "{} calls", store.round_trips() - before);
    let held = store.get(&id(1_000)).await.unwrap();
    let mut first = 0;
    for (shared, number, told) in all {
        match told {
            Swap::Swapped { version, stamp } => {
                let own = store.get(&id(if shared { 1_000 } else { number })).await.unwrap();
                assert_eq!((own.version, own.stamp), (version, stamp));
                assert_eq!(number_in(own.record.as_ref()), Some(number));
                first += u64::from(shared);
            }
            Swap::Conflict(met) => assert!(shared && met.version == held.version && met.record == held.record),
        }
    }
    assert_eq!(first, 1);
}

/// The server stands still, and more is waiting than travels at once. Everybody learns in time that nothing is known: nobody
/// stands behind calls that are given up one after the other.
#[tokio::test]
async fn whoever_waits_to_be_sent_does_not_wait_for_those_before() {
    let redis = Redis::forgetful();
    let options = Options::new(redis.url()).answer_timeout(Duration::from_millis(500));
    let store = Arc::new(RedisStore::open_with(options).await.unwrap());
    redis.pause();
    let mut under_way = tokio::task::JoinSet::new();
    for number in 0..3_000 {
        let store = store.clone();
        under_way.spawn(async move { store.swap(&id(number), Version::NEVER, Some(numbered(number))).await });
    }
    // One after the other they would take six seconds.
    let told = tokio::time::timeout(Duration::from_secs(4), under_way.join_all()).await;
    redis.resume();
    assert!(told.expect("in time").iter().all(Result::is_err));
}

/// Somebody deletes a record by hand, before its entry reached the indexes. What is gone is gone; but whoever lists, counts or
/// writes beside it must not stumble over it for ever.
#[tokio::test]
async fn a_record_that_was_deleted_by_hand_stands_in_nobodys_way() {
    let redis = Redis::forgetful();
    let store = open(redis.port()).await;
    let (lost, kept) = (id(1), id(2));
    for one in [&lost, &kept] {
        assert!(matches!(store.swap(one, Version::NEVER, Some(numbered(1))).await, Ok(Swap::Swapped { .. })));
    }
    let hex: String = lost.0.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    let deleted = redis.say(&format!("DEL \"hapax:{{{:02x}}}r{hex}\"", lost.0[0]));
    assert!(deleted.starts_with(":1"), "{deleted}");
    let changed = store.changes(None, 10).await;
    let Ok(Changes::Page { items: changes, .. }) = &changed else { panic!("the feed does not go on: {changed:?}") };
    assert!(changes.iter().any(|change| change.id == kept), "{changes:?}");
    assert!(store.get(&lost).await.unwrap().record.is_none());
    assert!(matches!(store.swap(&lost, Version::NEVER, Some(numbered(2))).await, Ok(Swap::Swapped { .. })));
}

/// An older program has written here, and lists its records in another way. Nothing is guessed.
#[tokio::test]
async fn an_older_layout_is_refused_and_left_as_it_is() {
    for written in ["1763300000000000", "=17633000000000000000000000000"] {
        let redis = Redis::forgetful();
        let store = open(redis.port()).await;
        let head = format!("hapax:{{{:02x}}}h", id(1).0[0]);
        assert!(redis.say(&format!("SET {head} {written}")).starts_with("+OK"));
        let error = store.swap(&id(1), Version::NEVER, Some(numbered(1))).await.expect_err("it is not ours to write");
        let said = error.to_string();
        assert!(matches!(error, StoreError::Unavailable { .. }) && said.contains("older"), "{said}");
        assert!(store.get(&id(1)).await.unwrap().record.is_none());
        assert!(store.changes(None, 10).await.is_err());
        let said = RedisStore::open(redis.url()).await.expect_err("nor to open").to_string();
        assert!(said.contains("HX0132") && said.contains("older"), "{said}");
        assert!(redis.say(&format!("GET {head}")).contains(written));
    }
}

/// A program from before records had weights has written here and left a head, a record, and an entry to be settled. All of it is
/// found, nothing of it is weighed until it is written again, and from then on that program is turned away.
#[tokio::test]
async fn records_from_before_there_were_weights_are_taken_over() {
    let redis = Redis::forgetful();
    let old = numbered(1);
    let mut stored = 5u64.to_be_bytes().to_vec();
    stored.extend(7u64.to_be_bytes());
    stored.extend(52u16.to_be_bytes());
    stored.extend(
        [b"-\0\0\0\0\0\0\0\0".as_slice(), b"-\0\0\0\0\0\0\0\0", b"0", b"r", &old.surface.0, &old.tenant.0].concat(),
    );
    stored.extend(hapax_store::wire::encode(&old));
    let bucket = format!("hapax:{{{:02x}}}", id(1).0[0]);
    let record = [format!("{bucket}r").as_bytes(), &id(1).0].concat();
    let entry = [b"n".as_slice(), &id(1).0].concat();
    let quoted = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("\\x{byte:02x}"));
    for (key, value) in [
        (record, stored),
        (format!("{bucket}p").into_bytes(), entry),
        (format!("{bucket}h").into_bytes(), b"~00000000000000000000000000000".to_vec()),
    ] {
        assert!(redis.say(&format!("SET \"{}\" \"{}\"", quoted(&key), quoted(&value))).starts_with("+OK"));
    }
    let store = open(redis.port()).await;
    assert!(redis.say(&format!("GET {bucket}h")).contains("}0000000000000"));
    let usage = store.usage(old.tenant).await.unwrap();
    assert_eq!((usage.records, usage.bytes), (1, 0));
    let held = store.get(&id(1)).await.unwrap();
    assert_eq!((held.version, held.record.as_ref()), (Version(5), Some(&old)));
    let Ok(Swap::Swapped { version, .. }) = store.swap(&id(1), held.version, Some(old.clone())).await else {
        panic!("it cannot be written over");
    };
    let usage = store.usage(old.tenant).await.unwrap();
    assert!(usage.counts([&old]), "{usage:?}");
    assert!(matches!(store.swap(&id(1), version, None).await, Ok(Swap::Swapped { .. })));
    assert!(store.usage(old.tenant).await.unwrap().counts([]));
}

#[tokio::test]
async fn what_a_server_may_lose_is_named_and_refused_where_durability_is_demanded() {
    let always = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
    for (args, word) in [
        (vec!["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "allkeys-lru"], "allkeys-lru"),
        (vec!["--appendonly", "no"], "appendonly"),
        (vec!["--appendonly", "yes", "--appendfsync", "everysec"], "everysec"),
    ] {
        let redis = Redis::with(&args);
        let store = open(redis.port()).await;
        let said = store.durability();
        assert!(matches!(&said, Durability::BestEffort(why) if why.contains(word)), "{said}");
        let settings = Settings { demand_durable: true, ..Settings::default() };
        let refused = Engine::builder(store).settings(settings).build();
        assert!(matches!(refused, Err(BuildError::NotDurable { .. })), "{refused:?}");
    }
    let redis = Redis::with(&always);
    let store = RedisStore::open(redis.url()).await.unwrap();
    assert_eq!(store.durability(), Durability::Durable);
    // Somebody changes it while we run: the next check says so.
    redis.say("CONFIG SET appendfsync everysec");
    assert!(store.check().await.unwrap().to_string().contains("everysec"));
    assert!(store.durability().to_string().contains("everysec"));
}

#[tokio::test]
async fn no_error_shows_the_password() {
    let secret = "hunter2-very-secret";
    let redis = Redis::with(&["--save", "", "--requirepass", secret]);
    let right = format!("redis://:{secret}@127.0.0.1:{}/", redis.port());
    let store = RedisStore::open(right.clone()).await.unwrap();
    let shown = format!("{store:?} {:?} {}", Options::new(right), store.name());
    assert!(!shown.contains(secret), "{shown}");
    let urls = [
        format!("redis://:wrong-{secret}@127.0.0.1:{}/", redis.port()),
        format!("redis://:{secret}@127.0.0.1:1/"),
        format!("redis://:{secret}@127.0.0.1:{}/99999", redis.port()),
        format!("redis://:{secret}@"),
        format!("http://:{secret}@127.0.0.1/"),
        format!("redis://127.0.0.1:{}/", redis.port()),
    ];
    for url in urls {
        let error: OpenError = RedisStore::open(url.clone()).await.expect_err("none of these can be opened");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("127.0.0.1") || matches!(error, OpenError::Url { .. }), "{shown}");
        assert!(
            ["check", "write ", "name "].iter().any(|word| shown.contains(word)),
            "it says what to do next: {shown}"
        );
        assert!(!shown.contains("try again"), "it would be the same: {shown}");
    }
    let braces = RedisStore::open_with(Options::new(redis.url()).prefix("a{b}")).await;
    assert!(matches!(braces, Err(OpenError::Prefix { .. })), "{braces:?}");
}
