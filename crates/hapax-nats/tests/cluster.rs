//! Three servers that keep the bucket together.

use std::sync::{Arc, Mutex};

use hapax_core::Version;
use hapax_nats::{NatsStore, Options};
use hapax_store::{Durability, Store};
use hapax_testkit::{
    NatsCluster, accidents,
    sample::{id, numbered, put},
};
use tokio::time::timeout;

/// The server that leads the bucket is killed under load, and another leads. Every process of it was only killed, so what
/// three had taken is still there; that a power cut may cost more was said beforehand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_of_three_is_killed_and_nothing_acknowledged_is_lost() {
    println!("{}", round(1).await);
}

async fn round(number: u64) -> String {
    let cluster = NatsCluster::start();
    let options = Options::new(cluster.url()).answer_timeout(accidents::ANSWER).connect_timeout(accidents::ANSWER);
    let open = async || NatsStore::open_with(options.clone()).await.unwrap_or_else(|error| panic!("{error}"));
    let store = Arc::new(open().await);
    let said = store.durability();
    assert!(matches!(&said, Durability::BestEffort(why) if why.contains("sync_interval")), "{said}");
    let shared: Arc<dyn Store> = store.clone();
    let cluster = Arc::new(Mutex::new(cluster));
    let struck = Arc::clone(&cluster);
    let toll = accidents::fail_over(shared.clone(), number, move || struck.lock().unwrap().fail_over()).await;
    accidents::judge(&shared, &said, &toll);
    assert_eq!((toll.lost, toll.twice), (0, 0), "two of three are left: {toll:?}");
    // What another writes: whoever writes himself wakes his own.
    let other = open().await;
    let mut watch = store.watch(&id(7)).await.unwrap();
    accidents::eventually("it follows after the fail-over", async || store.listens()).await;
    put(&other, &id(7), Version::NEVER, Some(numbered(1))).await;
    timeout(std::time::Duration::from_secs(20), watch.changed()).await.expect("woken after the fail-over");
    format!("{toll:?}; {said}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: cargo xtask soak stores"]
async fn soak_cluster() {
    accidents::soak("three NATS servers", round).await;
}
