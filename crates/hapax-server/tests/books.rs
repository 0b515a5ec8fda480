//! What administrators do is written down: who, what, and to whom.

use crate::support;
use crate::support::{Running, Setup, ask, begin, step};
use hapax_client::Client;
use hapax_core::{
    Policy, Preset,
    policy::{Capacity, OnFull},
};
use hapax_engine::Policies;
use hapax_server::{
    Auth, Keys,
    audit::{Action, Row},
    hash_key,
};
use serde_json::{Value, json};

fn newest(daemon: &Running, action: Action) -> Row {
    let rows = daemon.server.audit().tail(256);
    let found = rows.iter().rev().find(|row| row.action == action);
    found.unwrap_or_else(|| panic!("no row {action:?} among {rows:?}")).clone()
}

/// An administrator begins and ends operations for a tenant: each step stands there, with the one who took it.
#[tokio::test]
async fn an_administrator_who_acts_for_a_tenant_leaves_rows() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let client = daemon.root().tenant("acme");
    let (_, ticket) = begin(&client, json!({})).await;
    let row = newest(&daemon, Action::Operate);
    assert_eq!(
        (row.actor.as_str(), &row.subject),
        ("root (ops/root)", &ticket["operation"].as_str().unwrap().to_owned())
    );
    assert_eq!(row.detail, json!({ "step": "begin", "as_tenant": "acme", "surface": "payments" }));
    step(&daemon.root(), &ticket, "complete", json!({ "outcome": {} })).await;
    assert_eq!(newest(&daemon, Action::Operate).detail, json!({ "step": "complete", "as_tenant": null }));
    // What tenants do themselves is no operator's action.
    let rows = daemon.server.audit().rows();
    begin(&daemon.as_key("acme-client"), json!({ "key": "own" })).await;
    assert_eq!(daemon.server.audit().rows(), rows);
    // At the tenants' door another tenant cannot be named, and that is said instead of ignored.
    let (status, told) = begin(&daemon.as_key("root").tenant("acme"), json!({})).await;
    assert_eq!((status, told["code"].as_str()), (403, Some("HX0071")), "{told}");
    assert_eq!(begin(&daemon.as_key("acme-client").tenant("acme"), json!({ "key": "own2" })).await.0, 200);
}

/// The same where the step is one of an agent's: a job that an administrator reports, an answer, a stream's end, a message, a
/// turn, an inverse. None of them goes by unseen because it has an endpoint of its own.
#[tokio::test]
async fn an_administrator_who_acts_as_an_agent_of_a_tenant_leaves_rows() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let (root, tenant) = (daemon.root().tenant("acme"), daemon.as_key("acme-client"));
    let fine = async |client: &Client, path: &str, body: Value| {
        let (status, told) = ask(client, "POST", path, body).await;
        assert_eq!(status, 200, "{path}: {told}");
        told
    };
    let claim =
        |node: &str, stream: bool| json!({ "run": "r1", "node": node, "provider": "mail:send", "stream": stream });
    let job = json!({ "key": "worker-7.dc1:4000:1:00000000000000aa", "job": {}, "wait_ms": 0 });
    let consumer = json!({ "name": "mailer", "ack_wait_ms": 30_000, "max_deliveries": 5 });
    let message =
        json!({ "consumer": consumer, "stream": "orders", "sequence": 1, "payload_base64": "", "delivery": 1 });
    let activity = fine(&tenant, "/v1/activities:claim", claim("n1", false)).await;
    let stream = fine(&tenant, "/v1/activities:claim", claim("n2", true)).await;
    let job = fine(&tenant, "/v1/jobs:submit", job).await;
    let delivery = fine(&tenant, "/v1/bus:deliver", message).await;
    let turn = fine(&tenant, "/v1/groups", json!({ "name": "talk" })).await;
    let group = turn["group"].as_str().unwrap().to_owned();
    let beat = fine(&tenant, "/v1/beats:gather", json!({ "session": "s1", "messages": ["m1"] })).await["beat"].clone();
    let with = |ticket: &Value, mut said: Value| {
        said["token"] = ticket["token"].clone();
        said
    };
    let id = |ticket: &Value| ticket["operation"].as_str().unwrap().to_owned();
    let settled = json!({ "consumer": consumer, "handled": "done", "delivery": 1 });
    let answered = json!({ "provider": "mail:send", "answer": { "status": 200, "headers": [], "body": "" } });
    let reported = json!({ "ended": "committed", "outcome": {} });
    let inverses = json!({ "inverses": {}, "nonce": "1".repeat(32) });
    let steps = [
        ("answer", "activities", id(&activity), with(&activity, answered)),
        ("end", "activities", id(&stream), with(&stream, json!({ "broken": "the line went dead" }))),
        ("report", "jobs", id(&job), with(&job, reported)),
        ("settle", "bus", id(&delivery), with(&delivery, settled)),
        ("absorb", "groups", group.clone(), json!({ "epoch": turn["epoch"] })),
        ("supersede", "groups", group.clone(), json!({})),
        ("fork", "groups", group.clone(), json!({ "name": "talk-2" })),
        ("commit", "groups", group.clone(), json!({})),
        ("close", "groups", group.clone(), json!({})),
        ("next", "compensations", group.clone(), inverses),
    ];
    // What tenants do themselves is no operator's action.
    assert!(daemon.server.audit().tail(256).iter().all(|row| row.action != Action::Operate));
    for (step, family, subject, body) in steps {
        let rows = daemon.server.audit().rows();
        let (status, told) = ask(&root, "POST", &format!("/v1/{family}/{subject}:{step}"), body).await;
        // There is no plan to go on with; that it was tried stands there all the same.
        assert_eq!(status, if step == "next" { 409 } else { 200 }, "{step}: {told}");
        let row = newest(&daemon, Action::Operate);
        assert_eq!((row.actor.as_str(), &row.subject), ("root (ops/root)", &subject), "{step}");
        let step = if step == "next" { "next_inverse" } else { step };
        assert_eq!(row.detail, json!({ "step": step, "as_tenant": "acme" }));
        assert_eq!(daemon.server.audit().rows(), rows + 1, "{step}: one row");
    }
    let made = fine(&root, "/v1/groups", json!({ "name": "other" })).await["group"].clone();
    assert_eq!(json!(newest(&daemon, Action::Operate).subject), made);
    fine(&root, "/v1/beats:seal", json!({ "session": "s1", "beat": beat })).await;
    assert_eq!(newest(&daemon, Action::Operate).detail, json!({ "step": "seal", "as_tenant": "acme" }));
    // Whoever only looks leaves nothing.
    let rows = daemon.server.audit().rows();
    assert_eq!(ask(&root, "GET", &format!("/v1/groups/{group}"), Value::Null).await.0, 200);
    assert_eq!(daemon.server.audit().rows(), rows);
}

/// At the socket there is no key, but the kernel knows whose process it is.
#[tokio::test]
async fn whoever_comes_by_the_socket_is_named_by_their_user() {
    let daemon = Setup::default().start().await;
    let path = std::env::temp_dir().join(format!("hapax-books-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).unwrap());
    let server = daemon.server.clone();
    tokio::spawn(async move { server.serve_socket(listener).await });
    let client = Client::new(&format!("unix:{}", path.display())).unwrap();
    begin(&client, json!({})).await;
    let _ = std::fs::remove_file(&path);
    assert_eq!(newest(&daemon, Action::Operate).actor, format!("local (uid {uid})"));
}

/// Keys come and go: the row says which, and never the keys themselves.
#[tokio::test]
async fn a_change_of_keys_says_which() {
    let entry = |name: &str, role: &str| {
        let hash = hash_key(&format!("secret-of-{name}"));
        format!("[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\ntenant = \"acme\"\nroles = [\"{role}\"]\n")
    };
    let keys = |entries: &[String]| Auth::Keys(Keys::from_toml(&entries.concat()).unwrap());
    let auth = keys(&[entry("stays", "client"), entry("goes", "reader"), entry("rises", "client")]);
    let daemon = Setup { auth, ..Setup::default() }.start().await;
    let next = keys(&[entry("stays", "client"), entry("rises", "operator"), entry("comes", "admin")]);
    daemon.server.reload(next, None, Policies::default(), "signal HUP").unwrap();
    let row = newest(&daemon, Action::KeysChange);
    let lines = |name: &str| -> Vec<String> {
        row.detail[name].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    let hash = |name: &str| hash_key(&format!("secret-of-{name}"))[..15].to_owned();
    let added = [
        format!("acme/comes: operate read resolve metrics admin, {}…", hash("comes")),
        format!("acme/rises: operate read resolve, {}…", hash("rises")),
    ];
    assert_eq!(lines("added"), added);
    let removed =
        [format!("acme/goes: read, {}…", hash("goes")), format!("acme/rises: operate read, {}…", hash("rises"))];
    assert_eq!(lines("removed"), removed);
    assert_eq!((&row.detail["added_count"], &row.detail["removed_count"]), (&json!(2), &json!(2)));
}

/// What was given up in the last minute before the end is written down too.
#[tokio::test]
async fn evictions_before_the_end_are_not_forgotten() {
    let mut policies = Policies::default();
    let tight = Policy { capacity: Capacity::of(3, OnFull::EvictOldestFinal), ..Preset::Standard.policy() };
    policies.set_standard(tight).unwrap();
    let daemon = Setup { policies, ..Setup::default() }.start().await;
    let books = tokio::spawn({
        let server = daemon.server.clone();
        async move { server.keep_books().await }
    });
    // So that it has looked at the counters before anything was evicted.
    tokio::task::yield_now().await;
    for number in 0..8 {
        let (status, ticket) = begin(&daemon.client(), json!({ "key": format!("k{number}") })).await;
        assert_eq!(status, 200, "{ticket}");
        step(&daemon.client(), &ticket, "complete", json!({ "outcome": {} })).await;
    }
    let evicted = daemon.engine.stats().evicted;
    assert!(evicted > 0);
    daemon.server.stop();
    books.await.unwrap();
    assert_eq!(newest(&daemon, Action::Eviction).detail, json!({ "records": evicted }));
}

/// A key was replaced by another of the same name: what the old one was shown does not pass for the new one's. And
/// decisions name the tenant of whoever took them.
#[tokio::test]
async fn keys_of_one_name_are_not_taken_for_each_other() {
    let keys = |secret: &str| {
        let hash = hash_key(secret);
        let entry = format!("[[key]]\nname = \"ops\"\nhash = \"{hash}\"\ntenant = \"acme\"\nroles = [\"operator\"]\n");
        Auth::Keys(Keys::from_toml(&entry).unwrap())
    };
    let daemon = Setup { auth: keys("first"), ..Setup::default() }.start().await;
    let client = daemon.client().api_key("first");
    let (_, ticket) = begin(&client, json!({ "effect": "irreversible" })).await;
    step(&client, &ticket, "fail", json!({ "outcome": { "class": "unknown" } })).await;
    let id = ticket["operation"].as_str().unwrap();
    let mut forms = Vec::new();
    for secret in ["first", "second"] {
        daemon.server.set_auth(keys(secret));
        let client = daemon.client().api_key(secret);
        let (_, page) = ask(&client, "GET", &format!("/page/operation?id={id}"), Value::Null).await;
        let (_, form) = page.as_str().unwrap().split_once("name=\"csrf\" value=\"").unwrap();
        forms.push(form[..64].to_owned());
    }
    assert_ne!(forms[0], forms[1]);
    let client = daemon.client().api_key("second");
    let (_, told) = ask(&client, "GET", &format!("/v1/operations/{id}"), Value::Null).await;
    let decision = json!({ "version": told["version"], "resolution": "rejected", "reason": "no" });
    assert_eq!(ask(&client, "POST", &format!("/v1/operations/{id}:resolve"), decision).await.0, 200);
    assert_eq!(newest(&daemon, Action::Resolve).actor, "ops (acme/ops)");
}
