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
        entry("stranger", "acme", client),
        entry("payer", "acme", "roles = [\"client\"]\nsurfaces = [\"payments\"]"),
        entry("operator", "acme", "roles = [\"operator\"]"),
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
    let error = daemon.server.reload(keys(), None, policies, "signal HUP").unwrap_err().to_string();
    assert!(error.contains("HX0119"), "{error}");
    let (status, told) = put_policies(&daemon, "[surface.a2a]\nsuccess = \"30d\"\n").await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(post(&daemon.as_key("planner"), "send", task(1)).await.0, 200);
}

/// The page shows what is in flight and what waits. It showed the twenty tasks that had not changed for the longest time:
/// after twenty that were done, nothing new any more.
#[tokio::test]
async fn the_page_shows_what_is_in_flight_however_much_is_done() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let (planner, indexer, operator) = (daemon.as_key("planner"), daemon.as_key("indexer"), daemon.as_key("operator"));
    for number in 0..40 {
        assert_eq!(post(&planner, "send", task(number)).await.0, 200);
        let (_, list) = post(&indexer, "lease", json!({})).await;
        let handed = &list["items"][0];
        let result = json!({ "task": handed["task"]["id"], "token": handed["token"], "status": "completed" });
        assert_eq!(post(&indexer, "post", result).await.0, 200);
        assert_eq!(post(&planner, "ack", json!({ "task": handed["task"]["id"] })).await.0, 200);
    }
    assert_eq!(post(&operator, "compact", json!({})).await.1["compacted"], 40);
    for number in 100..150 {
        assert_eq!(post(&planner, "send", task(number)).await.0, 200);
    }
    let (_, list) = post(&indexer, "lease", json!({})).await;
    let leased = list["items"][0]["task"]["id"].as_str().unwrap().to_owned();
    let waiting = task(101)["id"].as_str().unwrap().to_owned();
    let (_, page) = ask(&operator, "GET", "/", Value::Null).await;
    let page = page.to_string();
    assert!(page.contains(&leased) && page.contains(&waiting), "{page}");
    assert!(!page.contains(task(3)["id"].as_str().unwrap()), "what is compacted is not in flight");
    let (_, first) = ask(&planner, "GET", "/v1/a2a/tasks?limit=1", Value::Null).await;
    assert_eq!(
        (&first["items"][0]["task"]["id"], &first["items"][0]["state"]),
        (&json!(leased), &json!("leased")),
        "{first}"
    );
    // Who sees none of them is shown none, and is told so at once.
    let (_, none) = ask(&daemon.as_key("stranger"), "GET", "/v1/a2a/tasks?limit=1", Value::Null).await;
    assert_eq!((&none["items"], &none["next"]), (&json!([]), &Value::Null), "{none}");
}

/// A key for payments alone sent tasks and took those of others; and any client of the tenant read, as operations, the tasks
/// that it was not shown as tasks.
#[tokio::test]
async fn the_queue_has_no_side_doors() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let payer = daemon.as_key("payer");
    for path in ["send", "lease", "results", "retry-stale"] {
        let body = if path == "send" { task(9) } else { json!({}) };
        let (status, refused) = post(&payer, path, body).await;
        assert_eq!((status, &refused["code"]), (403, &json!("HX0071")), "{path}: {refused}");
    }
    assert_eq!(ask(&payer, "GET", "/v1/a2a/tasks", Value::Null).await.0, 403);

    let mut wanted = task(1);
    wanted["idempotency"] = json!({ "class": "idempotent", "key": "k" });
    assert_eq!(post(&daemon.as_key("planner"), "send", wanted).await.0, 200);
    assert_eq!(post(&daemon.as_key("indexer"), "lease", json!({})).await.0, 200);
    let (_, all) = ask(&daemon.as_key("operator"), "GET", "/v1/operations?surface=a2a", Value::Null).await;
    let operation = all["items"][0]["operation"].as_str().unwrap_or_else(|| panic!("{all}")).to_owned();
    let stranger = daemon.as_key("stranger");
    let (_, none) = ask(&stranger, "GET", "/v1/operations?surface=a2a", Value::Null).await;
    assert_eq!(none["items"], json!([]), "a peer sees its own tasks, as tasks");
    assert_eq!(ask(&stranger, "GET", &format!("/v1/operations/{operation}"), Value::Null).await.0, 404);
    assert_eq!(
        ask(&daemon.as_key("operator"), "GET", &format!("/v1/operations/{operation}"), Value::Null).await.0,
        200
    );
    let mut feed = crate::support::feed(&daemon.address, "authorization: Bearer secret-of-stranger\r\n").await;
    crate::support::begin(&stranger, json!({})).await;
    feed.until(1, "event: operation").await;
    // By the whole member: three letters may be in any digest.
    let of = |surface: &str| feed.text.contains(&format!("\"surface\":\"{surface}\""));
    assert!(!of("a2a") && of("payments"), "{}", feed.text);
}

async fn rows(daemon: &Running) -> Vec<Value> {
    let (_, page) = ask(&daemon.root(), "GET", "/v1/audit", Value::Null).await;
    page["rows"].as_array().or(page["items"].as_array()).unwrap_or_else(|| panic!("{page}")).clone()
}

/// An administrator sends, takes and posts as somebody else, lets the gate act, and compacts: each of it stands in the log,
/// before it is done.
#[tokio::test]
async fn what_is_done_in_the_name_of_another_peer_is_written_down() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let root = daemon.root();
    let mut wanted = task(1);
    wanted["as"] = json!("planner");
    assert_eq!(post(&root, "send", wanted.clone()).await.0, 200);
    let (_, list) = post(&root, "lease", json!({ "as": "indexer" })).await;
    let handed = &list["items"][0];
    let result = json!({ "task": handed["task"]["id"], "token": handed["token"], "status": "completed" });
    assert_eq!(post(&root, "post", result).await.0, 200);
    assert_eq!(post(&root, "ack", json!({ "task": wanted["id"] })).await.0, 200);
    let steps: Vec<(Value, Value)> = rows(&daemon)
        .await
        .iter()
        .filter(|row| row["action"] == "operate")
        .map(|row| (row["detail"]["step"].clone(), row["detail"]["as_peer"].clone()))
        .collect();
    let of = |step: &str, peer: &str| (json!(step), json!(peer));
    let all =
        [of("a2a.send", "planner"), of("a2a.lease", "indexer"), of("a2a.post", "indexer"), of("a2a.ack", "planner")];
    assert!(all.iter().all(|one| steps.contains(one)) && steps.len() == 4, "{steps:?}");

    let operator = daemon.as_key("operator");
    assert_eq!(post(&operator, "retry-stale", json!({})).await.0, 200);
    let of = |rows: &[Value], action: &str| rows.iter().filter(|row| row["action"] == action).count();
    assert_eq!(of(&rows(&daemon).await, "a2a_retry_stale"), 0, "a preview does nothing");
    assert_eq!(post(&operator, "retry-stale", json!({ "enable": true })).await.0, 200);
    assert_eq!(of(&rows(&daemon).await, "a2a_retry_stale"), 1);
    for _ in 0..2 {
        assert_eq!(post(&operator, "compact", json!({})).await.0, 200);
    }
    assert_eq!(of(&rows(&daemon).await, "a2a_compact"), 1, "the second had nothing to do");
    // Peers that are who they say leave no rows.
    assert_eq!(post(&daemon.as_key("planner"), "send", task(2)).await.0, 200);
    assert_eq!(of(&rows(&daemon).await, "operate"), 4);
}

/// A pass over four billion leases was one request away, for any key.
#[tokio::test]
async fn one_pass_of_the_gate_has_an_end() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let (status, refused) =
        post(&daemon.as_key("operator"), "retry-stale", json!({ "scan_limit": 4_294_967_295_u32 })).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("scan_limit"), "{refused}");
}

/// Keys changed in what they may do in the queue and in nothing else: the log said that nothing had changed.
#[tokio::test]
async fn a_change_of_grants_is_a_change() {
    let with = |more: &str| {
        let file = entry("root", "acme", "roles = [\"admin\"]") + &entry("agent", "acme", more);
        Auth::Keys(Keys::from_toml(&file).unwrap())
    };
    let (send, repair) = ("capabilities = [\"a2a.send.*\"]", "capabilities = [\"a2a.repair.requeue@peer:indexer\"]");
    let daemon = Setup { auth: with(send), ..Setup::default() }.start().await;
    let policies = hapax_engine::Policies::default();
    daemon.server.reload(with(repair), None, policies, "signal HUP").unwrap();
    let all = rows(&daemon).await;
    let change = all.iter().rfind(|row| row["action"] == "keys_change").unwrap();
    assert_eq!(
        (&change["detail"]["added_count"], &change["detail"]["removed_count"]),
        (&json!(1), &json!(1)),
        "{change}"
    );
    assert!(change.to_string().contains("a2a.repair.requeue@peer:indexer"), "{change}");
    let (_, listed) = ask(&daemon.root(), "GET", "/v1/keys", Value::Null).await;
    assert!(listed.to_string().contains("a2a.repair.requeue@peer:indexer"), "{listed}");
}
