//! The queue over HTTP: who may do what, who sees what, and what stands in the audit log.

use crate::support::{Running, Setup, ask};
use hapax_client::Client;
use hapax_server::{Auth, Keys, hash_key};
use serde_json::{Value, json};

fn entry(name: &str, tenant: &str, more: &str) -> String {
    let hash = hash_key(&format!("secret-of-{name}"));
    format!("[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\ntenant = \"{tenant}\"\n{more}\n")
}

fn keys() -> Auth {
    keys_and("")
}

fn keys_and(more: &str) -> Auth {
    let file = [
        entry("planner", "acme", "roles = [\"client\"]"),
        entry("indexer", "acme", "roles = [\"client\"]"),
        entry("stranger", "acme", "roles = [\"client\"]"),
        entry("narrow", "acme", "capabilities = [\"a2a.send.indexer\", \"a2a.recv.planner\", \"a2a.respond.planner\"]"),
        entry("mender", "acme", "capabilities = [\"a2a.repair.requeue@peer:indexer\"]"),
        entry("operator", "acme", "roles = [\"operator\"]"),
        entry("globex", "globex", "roles = [\"operator\"]"),
        entry("root", "acme", "roles = [\"admin\"]"),
    ];
    Auth::Keys(Keys::from_toml(&(file.concat() + more)).unwrap())
}

async fn daemon() -> Running {
    Setup { auth: keys(), ..Setup::default() }.start().await
}

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn task(id: &str, to: &str) -> Value {
    json!({ "id": id, "recipient": { "key": to }, "kind": "index", "payload": { "page": 7 } })
}

async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    ask(client, "POST", &format!("/v1/a2a/{path}"), body).await
}

async fn lease(client: &Client) -> Value {
    let (status, list) = post(client, "lease", json!({})).await;
    assert_eq!(status, 200, "{list}");
    list["items"][0].clone()
}

#[tokio::test]
async fn a_task_goes_round_and_its_metadata_is_told() {
    let daemon = daemon().await;
    let (planner, indexer) = (daemon.as_key("planner"), daemon.as_key("indexer"));
    let mut wanted = task(ID, "indexer");
    wanted["idempotency"] = json!({ "class": "idempotent", "key": "page-7" });
    let (_, sent) = post(&planner, "send", wanted.clone()).await;
    assert_eq!((&sent["status"], &sent["again"]), (&json!("queued"), &json!(false)), "{sent}");
    assert_eq!(post(&planner, "send", wanted.clone()).await.1["again"], true);
    let handed = lease(&indexer).await;
    let (_, page) = ask(&daemon.as_key("operator"), "GET", "/", Value::Null).await;
    assert!(page.to_string().contains("Tasks between agents"), "the page shows the queue");
    assert_eq!(handed["task"]["payload"], json!({ "page": 7 }));
    assert_eq!(handed["task"]["sender"]["key"], "planner", "who sends is who the key says");
    assert_eq!((&handed["attempt"], &handed["forward_key"]), (&json!(1), &json!("page-7")));
    let held = json!({ "task": ID, "token": handed["token"], "lease_ms": 60_000 });
    assert_eq!(post(&indexer, "renew", held).await.0, 200);
    let result = json!({ "task": ID, "token": handed["token"], "status": "completed", "json": { "ok": 1 } });
    assert_eq!(post(&indexer, "post", result.clone()).await.1["already"], false);
    assert_eq!(post(&indexer, "post", result).await.1["already"], true);
    let (_, results) = post(&planner, "results", json!({})).await;
    assert_eq!(results["items"][0]["result"], json!({ "status": "completed", "json": { "ok": 1 } }));
    assert_eq!(post(&indexer, "ack", json!({ "task": ID })).await.0, 404, "not the sender");
    assert_eq!(post(&planner, "ack", json!({ "task": ID })).await.0, 200);
    let again = ID.replace("01", "02");
    wanted["id"] = json!(again);
    let (_, replayed) = post(&planner, "send", wanted.clone()).await;
    assert_eq!((&replayed["status"], &replayed["result"]["json"]), (&json!("replayed"), &json!({ "ok": 1 })));
    wanted["payload"] = json!("other");
    wanted["id"] = json!(ID.replace("01", "03"));
    let (status, mismatch) = post(&planner, "send", wanted).await;
    assert_eq!((status, &mismatch["code"]), (422, &json!("HX0112")));
}

#[tokio::test]
async fn peers_see_only_their_own_and_unknown_ids_are_refused_before_capabilities_are_looked_at() {
    let daemon = daemon().await;
    let (planner, indexer) = (daemon.as_key("planner"), daemon.as_key("indexer"));
    assert_eq!(post(&planner, "send", task(ID, "indexer")).await.0, 200);
    let handed = lease(&indexer).await;
    let repair = |task: &str, lease: &Value| json!({ "task": task, "lease_id": lease, "repair": "requeue", "posture": "operator_accepted", "reason": "why" });
    let unknown = "00000000-0000-4000-8000-0000000000ff";
    for name in ["stranger", "globex", "narrow"] {
        let client = daemon.as_key(name);
        let held = |id: &str| json!({ "task": id, "token": handed["token"], "status": "completed" });
        assert_eq!(post(&client, "post", held(ID)).await, post(&client, "post", held(unknown)).await, "{name}");
        assert_eq!(post(&client, "ack", json!({ "task": ID })).await.0, 404, "{name}");
        assert_eq!(ask(&client, "GET", &format!("/v1/a2a/task?id={ID}"), Value::Null).await.0, 404, "{name}");
        let (_, list) = ask(&client, "GET", "/v1/a2a/tasks", Value::Null).await;
        assert_eq!(list["items"], json!([]), "{name}");
        let (status, refused) = post(&client, "repair", repair(ID, &handed["lease_id"])).await;
        assert_eq!((status, &refused["code"]), (404, &json!("HX0113")), "{name}");
    }
    // Who knows the task, and lacks the capability, is told which one.
    let (status, refused) = post(&planner, "repair", repair(ID, &handed["lease_id"])).await;
    assert_eq!((status, &refused["code"]), (403, &json!("HX0123")));
    assert!(refused["detail"].as_str().unwrap().contains("a2a.repair.requeue"));
    assert_eq!(post(&planner, "compact", json!({})).await.0, 403);
    let (_, mine) = ask(&planner, "GET", "/v1/a2a/tasks?state=leased", Value::Null).await;
    assert_eq!(mine["items"][0]["lease_id"], handed["lease_id"]);
    assert!(mine["items"][0].get("token").is_none() && !mine.to_string().contains(handed["token"].as_str().unwrap()));
    // Nobody acts as somebody else.
    let forged = json!({ "as": "indexer" });
    assert_eq!(post(&planner, "lease", forged).await.0, 403);
}

#[tokio::test]
async fn capabilities_reach_as_far_as_they_are_scoped_and_repairs_are_audited() {
    let daemon = daemon().await;
    let (planner, narrow, mender) = (daemon.as_key("planner"), daemon.as_key("narrow"), daemon.as_key("mender"));
    assert_eq!(post(&narrow, "send", task(ID, "indexer")).await.0, 200);
    let (status, refused) = post(&narrow, "send", task(&ID.replace("01", "02"), "other")).await;
    assert_eq!((status, &refused["code"]), (403, &json!("HX0123")));
    // Only the planner's tasks are received.
    for (from, id) in [("stranger", "03"), ("planner", "04")] {
        assert_eq!(post(&daemon.as_key(from), "send", task(&ID.replace("01", id), "narrow")).await.0, 200);
    }
    let (_, list) = post(&narrow, "lease", json!({ "limit": 5 })).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(list["items"][0]["task"]["sender"]["key"], "planner");
    // A repair within its scope, and one outside.
    assert_eq!(post(&planner, "send", task(&ID.replace("01", "05"), "indexer")).await.0, 200);
    let handed = lease(&daemon.as_key("indexer")).await;
    let repair = |item: &Value| {
        json!({ "task": item["task"]["id"], "lease_id": item["lease_id"], "repair": "requeue",
                "posture": "operator_accepted", "reason": "its machine is gone" })
    };
    assert_eq!(post(&mender, "repair", repair(&list["items"][0])).await.0, 404, "another peer's");
    let (status, mended) = post(&mender, "repair", repair(&handed)).await;
    assert_eq!((status, &mended["state"]), (200, &json!("queued")), "{mended}");
    let blank = json!({ "task": ID, "lease_id": "L1-00", "repair": "requeue", "posture": "idempotent", "reason": " " });
    assert!(post(&daemon.as_key("operator"), "repair", blank).await.0 >= 400);
    let (_, rows) = ask(&daemon.root(), "GET", "/v1/audit", Value::Null).await;
    let rows = rows.to_string();
    assert!(rows.contains("a2a_repair") && rows.contains("its machine is gone") && rows.contains("mender"), "{rows}");
}

#[tokio::test]
async fn the_retry_gate_is_a_preview_unless_enabled_and_each_requeue_is_a_row() {
    let daemon = daemon().await;
    let (planner, indexer) = (daemon.as_key("planner"), daemon.as_key("indexer"));
    let mut wanted = task(ID, "indexer");
    wanted["idempotency"] = json!({ "class": "idempotent", "key": "k" });
    assert_eq!(post(&planner, "send", wanted).await.0, 200);
    let (_, list) = post(&indexer, "lease", json!({ "lease_ms": 1 })).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let operator = daemon.as_key("operator");
    let bounds = |enable: bool| json!({ "enable": enable, "min_lease_age_ms": 1 });
    // The lease is over after a moment.
    let preview = loop {
        let (status, report) = post(&operator, "retry-stale", bounds(false)).await;
        assert_eq!((status, &report["enabled"]), (200, &json!(false)));
        if report["requeued"] != json!([]) {
            break report;
        }
    };
    assert_eq!(preview["requeued"][0]["task"], ID);
    let (_, still) = ask(&planner, "GET", &format!("/v1/a2a/task?id={ID}"), Value::Null).await;
    assert_eq!(still["state"], "stale", "a preview changes nothing");
    let (_, outside) = post(&daemon.as_key("planner"), "retry-stale", bounds(true)).await;
    assert_eq!(outside["skipped"][0]["reason"], "capability_scope_mismatch", "{outside}");
    // Whoever has nothing to do with it learns nothing of it, not even that there is something.
    for name in ["stranger", "narrow", "globex"] {
        let (status, report) = post(&daemon.as_key(name), "retry-stale", bounds(true)).await;
        let told = (&report["considered"], &report["requeued"], &report["skipped"]);
        assert_eq!((status, told), (200, (&json!(0), &json!([]), &json!([]))), "{name}: {report}");
    }
    let (_, scoped) = post(&daemon.as_key("mender"), "retry-stale", bounds(false)).await;
    assert_eq!(scoped["requeued"][0]["task"], ID, "who may mend it sees it");
    let (_, real) = post(&operator, "retry-stale", bounds(true)).await;
    assert_eq!((&real["enabled"], &real["requeued"][0]["task"]), (&json!(true), &json!(ID)));
    let (_, rows) = ask(&daemon.root(), "GET", "/v1/audit", Value::Null).await;
    assert_eq!(rows.to_string().matches("auto_requeue").count(), 1, "{rows}");
}

/// The cache of the queue is made of operations. Begun by hand, one could be given any answer, in anybody's name.
#[tokio::test]
async fn nobody_puts_a_result_into_the_cache_by_hand() {
    let daemon = daemon().await;
    let scope = json!([
        { "label": "sender", "value": "planner" },
        { "label": "recipient", "value": "indexer" },
        { "label": "kind", "value": "index" },
    ]);
    for (name, surface) in [("stranger", "a2a"), ("indexer", "a2a"), ("root", "a2a"), ("stranger", "a2a.task")] {
        let forged = json!({ "surface": surface, "scope": scope, "key": "page-7", "effect": "idempotent" });
        let (status, refused) = ask(&daemon.as_key(name), "POST", "/v1/operations:begin", forged).await;
        assert_eq!((status, &refused["code"]), (403, &json!("HX0123")), "{name}: {refused}");
        assert!(refused["detail"].as_str().unwrap().contains("/v1/a2a/send"), "{refused}");
    }
    let planner = daemon.as_key("planner");
    let mut wanted = task(ID, "indexer");
    wanted["idempotency"] = json!({ "class": "idempotent", "key": "page-7" });
    assert_eq!(post(&planner, "send", wanted).await.1["status"], "queued", "nothing was forged");
    let handed = lease(&daemon.as_key("indexer")).await;
    assert_eq!(handed["task"]["id"], ID);
    // Looking at one's own is free.
    let asked = json!({ "surface": "a2a", "scope": scope, "key": "page-7" });
    let (status, explained) = ask(&planner, "POST", "/v1/operations:explain", asked.clone()).await;
    assert_eq!(status, 200, "{explained}");
    assert_eq!(ask(&daemon.as_key("stranger"), "POST", "/v1/operations:explain", asked).await.0, 404);
}

/// A key that reaches one lease is told what became of its task, though it does not reach the task afterwards.
#[tokio::test]
async fn a_repair_by_a_key_of_one_lease_is_answered() {
    let daemon = daemon().await;
    assert_eq!(post(&daemon.as_key("planner"), "send", task(ID, "indexer")).await.0, 200);
    let handed = lease(&daemon.as_key("indexer")).await;
    let only = format!("capabilities = [\"a2a.repair.requeue@lease:{}\"]", handed["lease_id"].as_str().unwrap());
    daemon.server.set_auth(keys_and(&entry("once", "acme", &only)));
    let once = daemon.as_key("once");
    let repair = json!({ "task": ID, "lease_id": handed["lease_id"], "repair": "requeue",
                         "posture": "operator_accepted", "reason": "its machine is gone" });
    let (status, mended) = post(&once, "repair", repair).await;
    assert_eq!((status, &mended["state"]), (200, &json!("queued")), "{mended}");
    assert_eq!(ask(&once, "GET", &format!("/v1/a2a/task?id={ID}"), Value::Null).await.0, 404);
}
