//! The consumer alone is lost, while everything else goes on.

use std::{fs, process::Command};

use async_nats::ConnectOptions;
use hapax_core::Version;
use hapax_nats::NatsStore;
use hapax_store::Store;
use hapax_testkit::{
    Nats, TempDir,
    accidents::{self, eventually},
    sample::id,
};

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

    async fn set(&self, denied: &str) {
        fs::write(self.own.join("users.conf"), users(denied)).unwrap();
        let pid = fs::read_to_string(self.own.join("pid")).unwrap();
        let before = self.reloads();
        assert!(Command::new("kill").args(["-HUP", pid.trim()]).status().unwrap().success());
        // It does so in its own time, and meanwhile lets nobody in, refuses, or loses an answer.
        eventually("it has read its users anew", async || self.reloads() > before).await;
    }

    /// The last thing that it says of each.
    fn reloads(&self) -> usize {
        self.nats.log().matches("Reloaded server configuration").count()
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

    server.set("\"$JS.API.CONSUMER.CREATE.>\"").await;
    for consumer in server.consumers().await {
        let said = server.say(&format!("$JS.API.CONSUMER.DELETE.KV_hapax.{consumer}")).await;
        assert!(said.contains("\"success\":true"), "{said}");
    }
    eventually("its end is noticed", async || !waiting.listens()).await;
    let away = accidents::a_subscription_that_is_away_is_made_up_for;
    let version = away(&waiting, watch.as_mut(), &writing, Version::NEVER).await;
    assert!(!waiting.listens(), "and goes on to");

    server.set("").await;
    eventually("it follows again", async || waiting.listens()).await;
    accidents::a_subscription_that_is_back_wakes_at_once(watch.as_mut(), &writing, version).await;
}
