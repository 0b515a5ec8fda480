//! Several servers: a cluster, and a master that Sentinels watch.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use crate::common::Shared;
use hapax_core::{Id, Millis, Outcome, Stamp, Tag, Version};
use hapax_engine::Begun;
use hapax_redis::{OpenError, Options, RedisStore};
use hapax_store::{Changes, Due, Durability, Envelope, Index, Snapshot, Store, StoreError, Swap, conformance};
use hapax_testkit::{
    Redis, RedisCluster, RedisSentinel,
    accidents::{self, call, engine},
    sample::{id, number_in, numbered, put},
};
use tokio::time::timeout;

async fn open(url: &str) -> Arc<RedisStore> {
    let options = Options::new(url).answer_timeout(accidents::ANSWER);
    Arc::new(RedisStore::open_with(options).await.unwrap_or_else(|error| panic!("{error}")))
}

/// Records lie on three servers: what a single one takes in one go, scans, counts and the feed, has to be asked of each.
/// The whole contract holds, and each step is still one round trip.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_a_store() {
    let cluster = RedisCluster::start();
    // Nobody fails over, and each of them syncs before it answers.
    let store = open(&cluster.url()).await;
    assert_eq!(store.durability(), Durability::Durable);
    moved(&cluster, store.as_ref()).await;
    steps_are_one_round_trip(&store).await;
    // Found from any one of its servers.
    let one = open(&cluster.nodes[2].url()).await;
    put(one.as_ref(), &id(1), Version::NEVER, Some(numbered(7))).await;
    assert_eq!(number_in(store.get(&id(1)).await.unwrap().record.as_ref()), Some(7));
    // One that does not sync is enough to forget something, and is named.
    for node in &cluster.nodes {
        node.say("CONFIG SET appendfsync no");
    }
    let said = store.check().await.unwrap().to_string();
    assert!(said.contains("appendfsync") && said.contains("redis://127.0.0.1:"), "{said}");
    let shared = Arc::new(Shared::at(cluster.url()));
    // What is asked of all servers, and one of each kind that is asked of one; the soak tries the rest.
    for part in ["swap::", "index::", "list::", "feed::", "body::", "usage::", "watch::"] {
        conformance::run_only(shared.clone(), part).await.assert_passed();
    }
    store.erase().await.unwrap();
    assert!(store.get(&id(1)).await.unwrap().record.is_none());
    let other = RedisStore::open(format!("{}3", cluster.url())).await;
    assert!(matches!(other, Err(OpenError::Server { .. })), "a cluster has one database: {other:?}");
}

async fn steps_are_one_round_trip(store: &Arc<RedisStore>) {
    let (one, other) = (engine(store.clone()), engine(store.clone()));
    // What is left of the quotas is looked up once.
    for (engine, key) in [(&one, "warm"), (&other, "warm-too")] {
        let Ok(Begun::Execute(ticket)) = call(engine, key).begin().await else { panic!("it is free") };
        assert!(ticket.complete(engine, Outcome::success("done")).await.unwrap().is_done());
    }
    for number in 0..20 {
        let key = format!("key-{number}");
        let before = store.round_trips();
        let Ok(Begun::Execute(ticket)) = call(&one, &key).begin().await else { panic!("a first begin executes") };
        assert_eq!(store.round_trips() - before, 1, "a first begin");
        assert!(ticket.complete(&one, Outcome::success("done")).await.unwrap().is_done());
        assert_eq!(store.round_trips() - before, 2, "a completion");
        assert!(matches!(call(&other, &key).begin().await, Ok(Begun::Replay(_))));
        assert_eq!(store.round_trips() - before, 3, "a duplicate");
    }
}

/// An operator moves a slot while the cluster is used: whoever asks the old place is sent on, and nobody notices.
async fn moved(cluster: &RedisCluster, store: &RedisStore) {
    // Nothing lies in there yet, so it can be given away whole.
    let (slot, bucket) = (13_254, 0x00);
    let mut wanted = (1_000..).map(id).filter(|id| id.0[0] == bucket);
    let free = wanted.next().unwrap();
    cluster.move_slot(slot, 2, 0);
    let (version, _) = put(store, &free, Version::NEVER, Some(numbered(1))).await;
    put(store, &free, version, Some(numbered(2))).await;
    assert_eq!(number_in(store.get(&free).await.unwrap().record.as_ref()), Some(2));
    assert!(store.changes(None, 1_000).await.is_ok() && store.usage(hapax_core::Tag([1; 16])).await.is_ok());
}

/// An operator carries a slot full of records to another master, and back, while four tasks write there. For a long moment
/// some keys of the bucket are on one server and some on the other: a script that ran then would find half of what it needs,
/// give out versions anew, or count and list what it cannot see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_is_carried_over_under_writers_and_nothing_is_lost_or_done_twice() {
    const SHARED: usize = 40;
    let cluster = RedisCluster::start();
    let store = open(&cluster.url()).await;
    let (slot, bucket) = (13_254, 0x00);
    let here: Vec<Id> = (1_000..).map(id).filter(|id| id.0[0] == bucket).take(400).collect();
    let (shared, fresh) = here.split_at(SHARED);
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let written: Arc<Mutex<Vec<(Id, Version)>>> = Arc::default();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (store, stop, next, written) = (store.clone(), stop.clone(), next.clone(), written.clone());
            let (shared, fresh) = (shared.to_vec(), fresh.to_vec());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let turn = next.fetch_add(1, SeqCst) as usize;
                    add_one(&store, &shared[turn % SHARED], &written).await;
                    if let Some(id) = fresh.get(turn / 4).filter(|_| turn.is_multiple_of(4)) {
                        add_one(&store, id, &written).await;
                    }
                }
            })
        })
        .collect();
    let count = || written.lock().unwrap().len();
    accidents::eventually("enough was written", async || count() >= 100).await;
    let cluster = Arc::new(cluster);
    for (from, to) in [(2, 0), (0, 2)] {
        let (cluster, reader) = (cluster.clone(), store.clone());
        let (handle, known) = (tokio::runtime::Handle::current(), shared[0]);
        let between = move || assert!(handle.block_on(reader.get(&known)).unwrap().record.is_some());
        // The indexes first, then the head, then records: a write that still finds its own two keys must leave the rest alone.
        let order = |key: &[u8]| if key.ends_with(b"}h") { 40 } else { key.len() };
        let carry = move || cluster.carry_slot(slot, (from, to), order, between);
        let carried = tokio::task::spawn_blocking(carry).await.unwrap();
        assert!(carried > 20, "{carried}");
        let before = count();
        accidents::eventually("it goes on", async || count() >= before + 50).await;
    }
    stop.store(true, SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    let written = written.lock().unwrap().clone();
    let versions: BTreeSet<Version> = written.iter().map(|one| one.1).collect();
    assert_eq!(versions.len(), written.len(), "a version came twice");
    let ids: BTreeSet<Id> = written.iter().map(|one| one.0).collect();
    for id in &ids {
        let writes = written.iter().filter(|one| one.0 == *id).count() as u64;
        assert_eq!(number_in(store.get(id).await.unwrap().record.as_ref()), Some(writes), "{id}");
    }
    let (mut listed, mut after) = (BTreeSet::new(), None);
    loop {
        let page = store.scan(Index::LeaseEnd { until: Stamp(u64::MAX) }, after.as_ref(), 10_000).await.unwrap();
        listed.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids);
    assert_eq!(store.usage(Tag([1; 16])).await.unwrap().records, ids.len() as u64);
    let Changes::Page { items, .. } = store.changes(None, 10_000).await.unwrap() else {
        panic!("nothing is forgotten")
    };
    assert_eq!(items.into_iter().map(|change| change.id).collect::<BTreeSet<_>>(), ids);
}

/// One more than it held. Only a refusal is tried again: a write of unknown fate would be a failure here.
async fn add_one(store: &RedisStore, id: &Id, written: &Mutex<Vec<(Id, Version)>>) {
    let mut held = None;
    loop {
        let Snapshot { record, version, .. } = match held.take() {
            Some(held) => held,
            None => match store.get(id).await {
                Ok(held) => held,
                Err(error) => {
                    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
                    continue;
                }
            },
        };
        let more = number_in(record.as_ref()).unwrap_or(0) + 1;
        let next = Envelope { lease_end: Some(Due::After(Millis::from_mins(1))), ..numbered(more) };
        match store.swap(id, version, Some(next)).await {
            Ok(Swap::Swapped { version, .. }) => return written.lock().unwrap().push((*id, version)),
            Ok(Swap::Conflict(now)) => held = Some(now),
            Err(error) => assert!(matches!(error, StoreError::Unavailable { .. }), "{error}"),
        }
    }
}

/// A master of the cluster is killed, its replica takes over. The store finds it by itself, whoever waits is woken, and what
/// may have been lost was said beforehand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_fails_over_and_had_said_what_that_may_lose() {
    println!("{}", cluster_round(1).await);
}

async fn cluster_round(round: u64) -> String {
    let cluster = RedisCluster::with_replicas();
    let url = cluster.url();
    let store = open(&url).await;
    let said = store.durability();
    assert!(matches!(&said, Durability::BestEffort(why) if why.contains("fail-over")), "{said}");
    let shared: Arc<dyn Store> = store.clone();
    // Not always one that the URL names.
    let struck = ((round + 1) % 3) as usize;
    let gone = cluster.nodes[struck].port();
    let cluster = Arc::new(Mutex::new(cluster));
    let struck_one = Arc::clone(&cluster);
    let strike = move || struck_one.lock().unwrap().fail_over(struck);
    let toll = accidents::fail_over(shared.clone(), round, strike).await;
    accidents::judge(&shared, &said, &toll);
    wakes(&store, &url).await;
    let known = format!("{store:?}");
    assert!(struck < 2 || !known.contains(&format!("\"127.0.0.1:{gone}\"")), "who is gone is forgotten: {known}");
    format!("{toll:?}; {said}")
}

/// A slot has lost its master, and only some commands of many are told so. Where everything lies is asked anew by the next
/// call, or the store would stay away from whoever takes the slot over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_down_for_one_command_of_many_is_looked_at_again() {
    let cluster = RedisCluster::start();
    let store = open(&cluster.url()).await;
    let asked = || {
        let calls = |node: &Redis| {
            let said = node.say("INFO commandstats");
            let line = said.lines().find_map(|line| line.strip_prefix("cmdstat_cluster|slots:calls="))?;
            line.split(',').next()?.parse::<u64>().ok()
        };
        cluster.nodes.iter().filter_map(calls).sum::<u64>()
    };
    store.usage(Tag([1; 16])).await.unwrap();
    cluster.nodes[2].say("CONFIG SET cluster-require-full-coverage no");
    assert!(cluster.nodes[2].say("CLUSTER DELSLOTS 13254").starts_with("+OK"));
    let error = store.usage(Tag([1; 16])).await.expect_err("a slot has nobody");
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
    let before = asked();
    assert!(store.usage(Tag([1; 16])).await.is_err());
    assert!(asked() > before, "it is asked who has the slot now");
}

/// A master is killed, and the Sentinels make its replica the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watched_master_fails_over_and_had_said_what_that_may_lose() {
    println!("{}", sentinel_round(1).await);
}

async fn sentinel_round(round: u64) -> String {
    let mut watched = RedisSentinel::start();
    let url = watched.url();
    let store = open(&url).await;
    let said = store.durability();
    assert!(matches!(&said, Durability::BestEffort(why) if why.contains("fail-over")), "{said}");
    let shared: Arc<dyn Store> = store.clone();
    // The first that is asked is gone as well.
    watched.kill_sentinel(0);
    let watched = Arc::new(Mutex::new(watched));
    let struck = Arc::clone(&watched);
    let strike = move || struck.lock().unwrap().fail_over();
    let toll = accidents::fail_over(shared.clone(), round, strike).await;
    accidents::judge(&shared, &said, &toll);
    wakes(&store, &url).await;
    // The replica is away, and nobody follows: it may come back, so nothing more is promised.
    let after = store.check().await.unwrap();
    assert!(matches!(&after, Durability::BestEffort(why) if why.contains("Sentinels")), "{after}");
    format!("{toll:?}; {said}")
}

/// Long enough for a machine that is busy with a fail-over.
const WOKEN_WITHIN: std::time::Duration = std::time::Duration::from_secs(20);

/// What another writes: whoever writes himself wakes his own.
async fn wakes(store: &RedisStore, url: &str) {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 50);
    let other = open(url).await;
    drop(store.watch(&id(NEXT.fetch_add(1, SeqCst))).await.unwrap());
    accidents::eventually("it listens after the fail-over", async || store.listens()).await;
    for _ in 0..8 {
        let key = id(NEXT.fetch_add(1, SeqCst));
        let mut watch = store.watch(&key).await.unwrap();
        put(other.as_ref(), &key, Version::NEVER, Some(numbered(1))).await;
        timeout(WOKEN_WITHIN, watch.changed()).await.expect("woken after the fail-over");
    }
}

/// Sentinels that do not know the name, and several hosts that are no cluster, are told apart from a server that is down.
#[tokio::test]
async fn what_cannot_be_reached_says_what_to_do() {
    let one = hapax_testkit::Redis::forgetful();
    let nobody = RedisStore::open(format!("redis://127.0.0.1:{}/?sentinel=pay", one.port())).await;
    let said = nobody.expect_err("it is no Sentinel").to_string();
    assert!(said.contains("HX0131"), "{said}");
    let other = hapax_testkit::Redis::forgetful();
    let two = format!("redis://127.0.0.1:{},127.0.0.1:{}/", one.port(), other.port());
    let said = RedisStore::open(two).await.expect_err("two servers are no cluster").to_string();
    assert!(said.contains("sentinel=") && said.contains("HX0132"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: cargo xtask soak stores"]
async fn soak_cluster() {
    let cluster = RedisCluster::start();
    conformance::run(Arc::new(Shared::at(cluster.url()))).await.assert_passed();
    drop(cluster);
    accidents::soak("Redis Cluster", cluster_round).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: cargo xtask soak stores"]
async fn soak_sentinel() {
    accidents::soak("Redis with Sentinels", sentinel_round).await;
}
