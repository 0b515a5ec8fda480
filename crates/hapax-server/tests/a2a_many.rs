//! The queue over HTTP when many use it, some of them leave, and what is in force changes.

use std::sync::Arc;

use hapax_client::Client;
use hapax_server::{Auth, Keys, Limits, hash_key};
use hapax_store::MemoryStore;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::support::{Running, Setup, ask, connect};

#[path = "../../hapax-queue/tests/queue/slow.rs"]
#[allow(unreachable_pub, dead_code, reason = "it is the queue's own, and counts more than is asked for here")]
mod slow;

fn entry(name: &str, tenant: &str, more: &str) -> String {
    let hash = hash_key(&format!("secret-of-{name}"));
    format!("[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\ntenant = \"{tenant}\"\n{more}\n")
}

fn keys() -> Auth {
    let client = "roles = [\"client\"]";
    let all = [
        entry("planner", "acme", client),
        entry("indexer", "acme", client),
        entry("globex", "globex", client),
        entry("root", "acme", "roles = [\"admin\"]"),
    ];
    Auth::Keys(Keys::from_toml(&all.concat()).unwrap())
}

async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    ask(client, "POST", &format!("/v1/a2a/{path}"), body).await
}

fn task(number: u32) -> Value {
    let id = format!("00000000-0000-4000-8000-{number:012}");
    json!({ "id": id, "recipient": { "key": "indexer" }, "kind": "index", "payload": { "page": number } })
}

/// A worker's connection breaks while its lease is written. The lease is there and nobody was told its token; the worker
/// asks again, under the name of its call, and must get the very lease.
#[tokio::test]
async fn a_lease_whose_caller_left_while_it_was_written_is_had_again() {
    let store = slow::Slow::over(Arc::new(MemoryStore::default()));
    let daemon = Setup { auth: keys(), store: store.clone(), ..Setup::default() }.start().await;
    let indexer = daemon.as_key("indexer");
    for keyed in [false, true] {
        let mut wanted = task(u32::from(keyed) + 1);
        if keyed {
            wanted["idempotency"] = json!({ "class": "idempotent", "key": "k" });
        }
        assert_eq!(post(&daemon.as_key("planner"), "send", wanted.clone()).await.0, 200);
        store.hold();
        let mut leaving = connect(&daemon.address).await;
        let body = json!({ "request": format!("{:032x}", u32::from(keyed)) });
        let request = format!(
            "POST /v1/a2a/lease HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret-of-indexer\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.to_string().len()
        );
        leaving.write_all(request.as_bytes()).await.unwrap();
        store.reached.acquire().await.unwrap().forget();
        drop(leaving);
        store.let_go();
        let path = format!("/v1/a2a/task?id={}", wanted["id"].as_str().unwrap());
        while ask(&indexer, "GET", &path, Value::Null).await.1["state"] != "leased" {
            tokio::task::yield_now().await;
        }
        let (_, list) = post(&indexer, "lease", body).await;
        assert_eq!(
            (&list["items"][0]["task"]["id"], &list["items"][0]["attempt"]),
            (&wanted["id"], &json!(1)),
            "{list}"
        );
    }
}

/// The daemon is told to stop while a lease is written, and answers that there is no task.
#[tokio::test]
async fn a_stop_while_a_lease_is_written_tells_of_the_task() {
    let store = slow::Slow::over(Arc::new(MemoryStore::default()));
    let daemon = Setup { auth: keys(), store: store.clone(), ..Setup::default() }.start().await;
    assert_eq!(post(&daemon.as_key("planner"), "send", task(1)).await.0, 200);
    store.hold();
    let indexer = daemon.as_key("indexer");
    let leasing = tokio::spawn(async move { post(&indexer, "lease", json!({ "wait_ms": 20_000 })).await });
    store.reached.acquire().await.unwrap().forget();
    daemon.server.stop();
    store.let_go();
    let (status, list) = leasing.await.unwrap();
    assert_eq!((status, list["items"].as_array().unwrap().len()), (200, 1), "{list}");
}

/// Workers of one tenant wait by the thousand. Each is cheap, and together they are not: one tenant could take every
/// connection, and make each send a search for all of them.
#[tokio::test]
async fn those_who_wait_for_tasks_and_results_are_bounded_for_each_tenant() {
    let limits = Limits { queue_waiters_per_tenant: 8, ..Limits::default() };
    let daemon = Setup { auth: keys(), limits, ..Setup::default() }.start().await;
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..20 {
        let client = daemon.as_key("indexer");
        let path = if number % 2 == 0 { "lease" } else { "results" };
        waiting.spawn(async move { post(&client, path, json!({ "wait_ms": 30_000 })).await });
    }
    for _ in 0..12 {
        let (status, told) = waiting.join_next().await.unwrap().unwrap();
        assert_eq!((status, &told["code"]), (429, &json!("HX0075")), "{told}");
        assert!(told["retry_after_ms"].as_u64().is_some() || told["retry_after"].is_number(), "{told}");
    }
    // Who does not wait, and who is somebody else, is served.
    assert_eq!(post(&daemon.as_key("indexer"), "lease", json!({})).await.0, 200);
    let globex = daemon.as_key("globex");
    assert_eq!(post(&globex, "lease", json!({ "wait_ms": 1 })).await.0, 200);
    daemon.server.stop();
    while let Some(answer) = waiting.join_next().await {
        assert_eq!(answer.unwrap().0, 200, "they had a place");
    }
}

async fn put_policies(daemon: &Running, file: &str) -> (u16, Value) {
    let (status, bytes) = daemon.root().raw("PUT".parse().unwrap(), "/v1/policies", file.as_bytes()).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Policies under which leased tasks run again by themselves are put in force while tasks are leased. A start under them
/// was refused; the change was not.
#[tokio::test]
async fn policies_that_hand_leased_work_out_again_are_refused_while_it_runs_too() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let unfit = "[surface.a2a]\non_lapse = { idempotent = \"open\" }\n";
    let (status, refused) = put_policies(&daemon, unfit).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused.to_string().contains("stale"), "{refused}");
    let (policies, _) = hapax_engine::Policies::from_toml(unfit).unwrap();
    let error = daemon.server.reload(keys(), policies, "signal HUP").unwrap_err().to_string();
    assert!(error.contains("HX0119"), "{error}");
    let (status, told) = put_policies(&daemon, "[surface.a2a]\nsuccess = \"30d\"\n").await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(post(&daemon.as_key("planner"), "send", task(1)).await.0, 200);
}
