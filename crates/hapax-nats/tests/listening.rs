//! The consumer alone is lost, while everything else goes on.

use std::{fs, process::Command, time::Duration};

use async_nats::ConnectOptions;
use hapax_core::Version;
use hapax_nats::NatsStore;
use hapax_store::{Store, Watch};
use hapax_testkit::{
    Nats, TempDir,
    accidents::eventually,
    sample::{id, number_in, numbered, put},
};
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
/// Between two wake-ups of those who have no consumer.
const FALL_BACK: Duration = Duration::from_millis(250);

/// A server whose user `app` may be forbidden to make consumers, while it runs.
struct Strict {
    nats: Nats,
    own: TempDir,
}

impl Strict {
    fn start() -> Self {
        let own = TempDir::new("nats-users");
        fs::write(own.join("users.conf"), users("")).unwrap();
        // What is included is looked for from the directory of the configuration, which lies beside this one.
        let beside = own.path().file_name().unwrap().display();
        let nats = Nats::with(&format!("pid_file: {:?}\ninclude \"../{beside}/users.conf\"", own.join("pid")));
        Self { nats, own }
    }

    fn url(&self, user: &str) -> String {
        format!("nats://{user}:hush@127.0.0.1:{}", self.nats.port())
    }

    fn set(&self, denied: &str) {
        fs::write(self.own.join("users.conf"), users(denied)).unwrap();
        let pid = fs::read_to_string(self.own.join("pid")).unwrap();
        assert!(Command::new("kill").args(["-HUP", pid.trim()]).status().unwrap().success());
    }

    async fn say(&self, subject: &str) -> String {
        let options = ConnectOptions::with_user_and_password("operator".into(), "hush".into());
        let client = options.connect(format!("127.0.0.1:{}", self.nats.port())).await.unwrap();
        let answer = client.request(subject.to_owned(), "".into()).await.unwrap();
        String::from_utf8(answer.payload.to_vec()).unwrap()
    }

    async fn consumers(&self) -> Vec<String> {
        let said = self.say("$JS.API.CONSUMER.NAMES.KV_hapax").await;
        let (_, names) = said.split_once("\"consumers\":[").unwrap_or_else(|| panic!("{said}"));
        let (names, _) = names.split_once(']').unwrap();
        names.split(',').map(|name| name.trim_matches('"').to_owned()).filter(|name| !name.is_empty()).collect()
    }
}

fn users(denied: &str) -> String {
    format!(
        "authorization {{ users: [
           {{ user: app, password: hush, permissions: {{ publish: {{ allow: \">\", deny: [{denied}] }} }} }}
           {{ user: operator, password: hush }}
         ] }}"
    )
}

/// A user may make no consumer for a while, and the one that it has is deleted. Whoever waits comes to see what others write, as
/// soon as the fall-back says, and nobody waits for the consumer first; once it may again, it follows again, and those who wait
/// are woken by nothing but writes.
#[tokio::test]
async fn a_consumer_that_is_away_is_made_up_for_and_comes_back() {
    let server = Strict::start();
    let waiting = NatsStore::open(server.url("app")).await.unwrap();
    let writing = NatsStore::open(server.url("operator")).await.unwrap();
    let mut watch = waiting.watch(&id(1)).await.unwrap();
    eventually("it follows", async || waiting.listens()).await;

    server.set("\"$JS.API.CONSUMER.CREATE.>\"");
    for consumer in server.consumers().await {
        server.say(&format!("$JS.API.CONSUMER.DELETE.KV_hapax.{consumer}")).await;
    }
    eventually("its end is noticed", async || !waiting.listens()).await;
    let others = async {
        for number in 100..110 {
            drop(waiting.watch(&id(number)).await.unwrap());
        }
    };
    timeout(Duration::from_secs(10), others).await.expect("nobody waits two seconds for it");
    let (version, _) = put(&writing, &id(1), Version::NEVER, Some(numbered(1))).await;
    // Where nobody else wakes, each of them is the fall-back's. The request for a consumer is given up only after three seconds.
    let noticed = async {
        for _ in 0..8 {
            watch.changed().await;
        }
        number_in(waiting.get(&id(1)).await.unwrap().record.as_ref())
    };
    let noticed = timeout(Duration::from_secs(10), noticed).await.expect("it is woken every quarter of a second");
    assert_eq!(noticed, Some(1));
    assert!(!waiting.listens(), "and goes on to");

    server.set("");
    eventually("it follows again", async || waiting.listens()).await;
    timeout(PATIENCE, falls_quiet(watch.as_mut())).await.expect("nobody is woken for nothing");
    let quickest = quickest_wake_up(watch.as_mut(), &writing, version).await;
    assert!(quickest < FALL_BACK / 2, "{quickest:?}");
}

/// Four times as long as the fall-back waits, nobody is woken.
async fn falls_quiet(watch: &mut dyn Watch) {
    while timeout(FALL_BACK * 4, watch.changed()).await.is_ok() {}
}

/// Each write wakes: nothing else does now.
async fn quickest_wake_up(watch: &mut dyn Watch, writing: &NatsStore, mut version: Version) -> Duration {
    let mut quickest = PATIENCE;
    for number in 2..10 {
        let begun = Instant::now();
        (version, _) = put(writing, &id(1), version, Some(numbered(number))).await;
        timeout(PATIENCE, watch.changed()).await.expect("it is woken");
        quickest = quickest.min(begun.elapsed());
    }
    quickest
}
