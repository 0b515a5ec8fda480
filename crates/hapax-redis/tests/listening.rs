//! The subscription alone is lost, while everything else goes on.

use std::time::Duration;

use hapax_core::Version;
use hapax_redis::RedisStore;
use hapax_store::Store;
use hapax_store::Watch;
use hapax_testkit::{
    Redis,
    accidents::eventually,
    sample::{id, number_in, numbered, put},
};
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
/// Between two wake-ups of those who have no subscription.
const FALL_BACK: Duration = Duration::from_millis(250);

/// A user may not subscribe for a while, and its subscription is ended. Whoever waits comes to see what others write, and nobody
/// waits for the subscription first; once it may again, it listens again, and is woken by nothing but writes.
#[tokio::test]
async fn a_subscription_that_is_away_is_made_up_for_and_comes_back() {
    let redis = Redis::forgetful();
    assert!(redis.say("ACL SETUSER app on >hush ~* &* +@all").starts_with("+OK"));
    let url = format!("redis://app:hush@127.0.0.1:{}/", redis.port());
    let (waiting, writing) = (RedisStore::open(url).await.unwrap(), RedisStore::open(redis.url()).await.unwrap());
    let mut watch = waiting.watch(&id(1)).await.unwrap();
    eventually("it listens", async || waiting.listens()).await;

    assert!(redis.say("ACL SETUSER app -subscribe").starts_with("+OK"));
    assert_eq!(redis.say("CLIENT KILL TYPE pubsub").trim(), ":1");
    eventually("its end is noticed", async || !waiting.listens()).await;
    let others = async {
        for number in 100..110 {
            drop(waiting.watch(&id(number)).await.unwrap());
        }
    };
    timeout(Duration::from_secs(10), others).await.expect("nobody waits two seconds for it");
    let (version, _) = put(&writing, &id(1), Version::NEVER, Some(numbered(1))).await;
    // Where nobody else wakes, each of them is the fall-back's.
    let noticed = async {
        for _ in 0..8 {
            watch.changed().await;
        }
        number_in(waiting.get(&id(1)).await.unwrap().record.as_ref())
    };
    let noticed = timeout(Duration::from_secs(10), noticed).await.expect("it is woken every quarter of a second");
    assert_eq!(noticed, Some(1));
    assert!(!waiting.listens(), "and goes on to");

    assert!(redis.say("ACL SETUSER app +subscribe").starts_with("+OK"));
    eventually("it listens again", async || waiting.listens()).await;
    timeout(PATIENCE, falls_quiet(watch.as_mut())).await.expect("nobody is woken for nothing");
    let quickest = quickest_wake_up(watch.as_mut(), &writing, version).await;
    assert!(quickest < FALL_BACK / 2, "{quickest:?}");
}

/// Four times as long as the fall-back waits, nobody is woken.
async fn falls_quiet(watch: &mut dyn Watch) {
    while timeout(FALL_BACK * 4, watch.changed()).await.is_ok() {}
}

/// Each write wakes: nothing else does now.
async fn quickest_wake_up(watch: &mut dyn Watch, writing: &RedisStore, mut version: Version) -> Duration {
    let mut quickest = PATIENCE;
    for number in 2..10 {
        let begun = Instant::now();
        (version, _) = put(writing, &id(1), version, Some(numbered(number))).await;
        timeout(PATIENCE, watch.changed()).await.expect("it is woken");
        quickest = quickest.min(begun.elapsed());
    }
    quickest
}
