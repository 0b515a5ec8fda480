//! The subscription alone is lost, while everything else goes on.

use hapax_core::Version;
use hapax_redis::RedisStore;
use hapax_store::Store;
use hapax_testkit::{
    Redis,
    accidents::{self, eventually},
    sample::id,
};

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
    let away = accidents::a_subscription_that_is_away_is_made_up_for;
    let version = away(&waiting, watch.as_mut(), &writing, Version::NEVER).await;
    assert!(!waiting.listens(), "and goes on to");

    assert!(redis.say("ACL SETUSER app +subscribe").starts_with("+OK"));
    eventually("it listens again", async || waiting.listens()).await;
    accidents::a_subscription_that_is_back_wakes_at_once(watch.as_mut(), &writing, version).await;
}
