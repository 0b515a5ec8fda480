//! Records that are new to the feed share one member of it, and long ones are stored as they came.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hapax_core::{Id, Millis, Version};
use hapax_redis::{Options, RedisStore};
use hapax_store::{Changes, Cursor, Store, Swap};
use hapax_testkit::{
    Redis,
    sample::{id, numbered, put, record},
};

fn same_bucket(count: usize) -> Vec<Id> {
    (0..).map(id).filter(|one| one.0[0] == id(0).0[0]).take(count).collect()
}

/// How often each is told, and that nothing is left to tell.
async fn told(store: &dyn Store, cursor: &mut Option<Cursor>, limit: usize) -> BTreeMap<Id, usize> {
    let mut all = BTreeMap::new();
    loop {
        let page = store.changes(cursor.as_ref(), limit).await.unwrap();
        let Changes::Page { items, next } = page else { panic!("{page:?}") };
        *cursor = Some(next);
        if items.is_empty() {
            return all;
        }
        assert!(items.len() <= limit);
        for change in items {
            *all.entry(change.id).or_default() += 1;
        }
    }
}

/// A page ends amid a run, and the next one goes on there: everything is told once. What is written again is told again.
#[tokio::test]
async fn a_page_that_ends_amid_a_run_loses_nothing() {
    let redis = Redis::forgetful();
    let store = RedisStore::open(redis.url()).await.unwrap();
    let ids = same_bucket(30);
    let mut versions = Vec::new();
    for one in &ids {
        versions.push(put(&store, one, Version::NEVER, Some(numbered(1))).await.0);
    }
    let once: BTreeMap<Id, usize> = ids.iter().map(|one| (*one, 1)).collect();
    let mut cursor = None;
    assert_eq!(told(&store, &mut cursor, 7).await, once);
    assert_eq!(redis.say(&format!("ZCARD hapax:{{{:02x}}}f", ids[0].0[0])), ":1\r\n");
    assert_eq!(told(&store, &mut None, 1).await, once);

    put(&store, &ids[3], versions[3], Some(numbered(2))).await;
    put(&store, &ids[4], versions[4], None).await;
    let again = BTreeMap::from([(ids[3], 1), (ids[4], 1)]);
    assert_eq!(told(&store, &mut cursor, 7).await, again);
}

/// Records come and go for years, and a few stay. What the feed keeps of those that are forgotten does not grow with them.
#[tokio::test]
async fn runs_of_what_is_forgotten_are_thinned_out() {
    const MEMORY: Millis = Millis(50);
    let redis = Redis::forgetful();
    let store = RedisStore::open_with(Options::new(redis.url()).removal_memory(MEMORY)).await.unwrap();
    let ids = same_bucket(22);
    let [kept, gone @ .., last] = ids.as_slice() else { panic!("some of them") };
    let runs = || redis.say(&format!("LLEN hapax:{{{:02x}}}k", kept.0[0]));
    let mut versions = Vec::new();
    for one in std::iter::once(kept).chain(gone) {
        versions.push(put(&store, one, Version::NEVER, Some(numbered(1))).await.0);
    }
    told(&store, &mut None, 100).await;
    assert_eq!(runs(), ":1\r\n");
    for (one, version) in gone.iter().zip(&versions[1..]) {
        put(&store, one, *version, None).await;
    }
    told(&store, &mut None, 100).await;
    assert_eq!(runs(), ":1\r\n", "they are remembered for a while");
    tokio::time::sleep(Duration::from_millis(4 * MEMORY.0)).await;
    for _ in 0..8 {
        let held = store.get(last).await.unwrap().version;
        let (version, _) = put(&store, last, held, Some(numbered(1))).await;
        put(&store, last, version, None).await;
        store.usage(hapax_testkit::sample::tag(2)).await.unwrap();
    }
    assert_eq!(runs(), ":0\r\n");
    let Changes::Page { items, .. } = store.changes(None, 100).await.unwrap() else {
        panic!("nothing was read before")
    };
    let mut left: Vec<Id> = items.iter().map(|change| change.id).collect();
    left.sort_unstable();
    let mut expected = vec![*kept, *last];
    expected.sort_unstable();
    assert_eq!(left, expected);
}

/// Many write one record in one call, and it is a long one. One of them is the first, and the others meet what it wrote.
#[tokio::test]
async fn a_long_record_is_met_by_those_who_travel_with_it() {
    let redis = Redis::forgetful();
    let store = Arc::new(RedisStore::open(redis.url()).await.unwrap());
    let mut under_way = tokio::task::JoinSet::new();
    for number in 0..32_u8 {
        let store = store.clone();
        under_way.spawn(async move {
            let long = record(vec![number; 4_000]);
            store.swap(&id(1), Version::NEVER, Some(long)).await.unwrap()
        });
    }
    let all = under_way.join_all().await;
    let held = store.get(&id(1)).await.unwrap();
    let mut first = 0;
    for one in all {
        match one {
            Swap::Swapped { version, stamp } => {
                assert_eq!((version, stamp), (held.version, held.stamp));
                first += 1;
            }
            Swap::Conflict(met) => assert_eq!((met.version, met.record), (held.version, held.record.clone())),
        }
    }
    assert_eq!(first, 1);
    put(store.as_ref(), &id(1), held.version, Some(numbered(1))).await;
}
