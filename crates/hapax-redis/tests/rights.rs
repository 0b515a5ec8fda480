//! What a user of the server may do.

use std::time::Duration;

use hapax_core::{BodyId, Millis, Stamp, Version};
use hapax_redis::{OpenError, Options, RedisStore};
use hapax_store::{Due, Durability, Entry, Envelope, Index, List, Store};
use hapax_testkit::{
    Redis,
    accidents::eventually,
    sample::{id, number_in, numbered, put, tag},
};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a user `app`, and the URL for it.
fn with_user(rights: &str) -> (Redis, String) {
    let redis = Redis::start();
    let said = redis.say(&format!("ACL SETUSER app on >hush {rights}"));
    assert!(said.starts_with("+OK"), "{said}");
    let url = format!("redis://app:hush@127.0.0.1:{}/", redis.port());
    (redis, url)
}

/// A new user of Redis 7 has no channels. It could write, and nobody would be woken: it is told at the start, and what to do.
#[tokio::test]
async fn a_user_who_may_not_wake_or_be_woken_is_told_at_the_start() {
    for (rights, word) in [
        ("~* +@all", "PUBLISH"),
        ("~* +@all &other:*", "PUBLISH"),
        ("~* &* +@all -publish", "PUBLISH"),
        ("~* &* +@all -subscribe", "SUBSCRIBE"),
    ] {
        let (_redis, url) = with_user(rights);
        let error = RedisStore::open(&url).await.expect_err("it may not");
        let said = error.to_string();
        assert!(matches!(error, OpenError::Server { .. }) && said.contains("HX0132"), "{rights}: {said}");
        assert!(said.contains(word) && said.contains("ACL SETUSER … +publish +subscribe &hapax:*"), "{rights}: {said}");
        let other = RedisStore::open_with(Options::new(&url).prefix("shop/")).await;
        let said = other.expect_err("nor under another prefix").to_string();
        assert!(said.contains("&shop/*"), "{said}");
    }
    let (_redis, url) = with_user("~hapax:* &hapax:* +@all");
    assert_eq!(RedisStore::open(url).await.unwrap().durability(), Durability::Durable);
}

/// The right to publish is taken away while somebody waits. What is written is written, and said to be.
#[tokio::test]
async fn a_wake_up_that_may_not_be_sent_makes_no_write_unknown() {
    let (redis, url) = with_user("~* &* +@all");
    let (waiting, writing) = (RedisStore::open(&url).await.unwrap(), RedisStore::open(&url).await.unwrap());
    let _watch = waiting.watch(&id(1)).await.unwrap();
    assert!(redis.say("ACL SETUSER app resetchannels").starts_with("+OK"));
    eventually("its subscription has ended", async || !waiting.listens()).await;
    let (version, _) = put(&writing, &id(1), Version::NEVER, Some(numbered(1))).await;
    let held = writing.get(&id(1)).await.unwrap();
    assert_eq!((held.version, number_in(held.record.as_ref())), (version, Some(1)));
}

/// The line that the documentation gives to operators is enough for every kind of call.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    let text = include_str!("../../../docs/stores.md");
    let (_, line) = text.split_once("ACL SETUSER app on >PASSWORD ").expect("it is documented");
    let (rights, _) = line.split_once("\n\n").unwrap();
    let (redis, url) = with_user(&rights.split_whitespace().collect::<Vec<_>>().join(" "));
    let store = RedisStore::open_with(Options::new(&url).removal_memory(Millis(1))).await.unwrap();
    assert_eq!(store.durability(), Durability::Durable, "it may ask what it promises");
    let entry = |list, number| Entry { list, tag: tag(number), order: 1 };
    let full = Envelope {
        lease_end: Some(Due::After(Millis(1))),
        expiry: Some(Due::After(Millis(1))),
        in_doubt: true,
        entries: vec![entry(List::Group, 3), entry(List::Queue, 4)],
        ..numbered(1)
    };
    let body = BodyId([7; 32]);
    // What was removed in one round is forgotten in the next.
    for _ in 0..3 {
        let mut watch = store.watch(&id(1)).await.unwrap();
        let held = store.get(&id(1)).await.unwrap();
        let (version, _) = put(&store, &id(1), held.version, Some(full.clone())).await;
        timeout(PATIENCE, watch.changed()).await.expect("it is woken");
        for index in [
            Index::LeaseEnd { until: Stamp(u64::MAX) },
            Index::InDoubt,
            Index::TenantAge(tag(2)),
            Index::Group(tag(3)),
            Index::Queue(tag(4)),
        ] {
            assert_eq!(store.scan(index, None, 10).await.unwrap().items, [id(1)], "{index:?}");
        }
        assert_eq!(store.usage(tag(2)).await.unwrap().records, 1);
        store.put_body(&id(1), body, "long".into()).await.unwrap();
        assert_eq!(store.get_body(body).await.unwrap(), Some("long".into()));
        assert_eq!(store.bodies(None, 10).await.unwrap().items.len(), 1);
        store.drop_body(body).await.unwrap();
        put(&store, &id(1), version, None).await;
        assert_eq!(store.usage(tag(2)).await.unwrap().records, 0);
        store.changes(None, 10).await.unwrap();
    }
    // And for what `hapax verify` does in the end, with the two that it needs besides.
    assert!(store.erase().await.is_err());
    assert!(redis.say("ACL SETUSER app +scan +unlink").starts_with("+OK"));
    store.erase().await.unwrap();
}
