//! The daemon's own changes, said twice: they happen once, and the second caller is told what the first was.

use crate::support::{Running, Setup, ask, begin, key_text, keys};
use hapax_client::Client;
use serde_json::{Value, json};

/// Status, whether it was a replay, and the answer.
async fn say(client: &Client, method: &str, path: &str, body: &[u8], key: &str) -> (u16, bool, Value) {
    let told = client.response(method.parse().unwrap(), path, body, Some(key)).await.unwrap();
    let replayed = told.headers().get("idempotent-replayed").is_some();
    let status = told.status().as_u16();
    (status, replayed, serde_json::from_slice(told.body()).unwrap_or(Value::Null))
}

/// An operation of this client's tenant that nobody knows the end of.
async fn doubt(client: &Client, key: &str) -> (String, u64) {
    let (status, ticket) = begin(client, json!({ "key": key, "effect": "irreversible", "lease_ms": 1 })).await;
    assert_eq!(status, 200, "{ticket}");
    let id = ticket["operation"].as_str().unwrap().to_owned();
    loop {
        let (_, known) = ask(client, "GET", &format!("/v1/operations/{id}"), Value::Null).await;
        if known["state"] == "in_doubt" {
            return (id, known["version"].as_u64().unwrap());
        }
        tokio::task::yield_now().await;
    }
}

async fn rows(daemon: &Running, action: &str) -> usize {
    let (_, told) = ask(&daemon.root(), "GET", "/v1/audit?limit=256", Value::Null).await;
    told["rows"].as_array().unwrap().iter().filter(|row| row["action"] == action).count()
}

fn decision(version: u64, reason: &str) -> Vec<u8> {
    json!({ "version": version, "resolution": "committed", "reason": reason }).to_string().into_bytes()
}

/// The answer to a decision is lost and the operator's tool asks again: without a key it would hear that the version has
/// moved, as if somebody else had decided.
#[tokio::test]
async fn a_repeated_decision_is_one_decision() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let operator = daemon.as_key("acme-operator");
    let (id, version) = doubt(&operator, "plain").await;
    let path = format!("/v1/operations/{id}:resolve");
    let body = decision(version, "the bank says so");
    assert_eq!(operator.raw("POST".parse().unwrap(), &path, &body).await.unwrap().0, 200);
    assert_eq!(operator.raw("POST".parse().unwrap(), &path, &body).await.unwrap().0, 409, "the premise of this test");
    let before = rows(&daemon, "resolve").await;

    let (id, version) = doubt(&operator, "keyed").await;
    let path = format!("/v1/operations/{id}:resolve");
    let body = decision(version, "the bank says so");
    let together: Vec<_> = (0..8)
        .map(|_| {
            let (operator, path, body) = (operator.clone(), path.clone(), body.clone());
            tokio::spawn(async move { say(&operator, "POST", &path, &body, "decision-1").await })
        })
        .collect();
    let mut first = 0;
    let mut answers = Vec::new();
    for told in together {
        let (status, replayed, answer) = told.await.unwrap();
        assert_eq!(status, 200, "{answer}");
        first += usize::from(!replayed);
        answers.push(answer);
    }
    assert_eq!(first, 1, "one of them decided, the others were told");
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!(rows(&daemon, "resolve").await, before + 1);

    let (status, _, told) = say(&operator, "POST", &path, &decision(version, "another reason"), "decision-1").await;
    assert_eq!((status, &told["code"]), (422, &json!("HX0005")), "{told}");
}

/// A retry of a policy change arrives after somebody else's: it must not undo what came later.
#[tokio::test]
async fn a_late_repeat_of_a_policy_change_does_not_undo_a_newer_one() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let root = daemon.root();
    let lease =
        || async { ask(&root, "GET", "/v1/policies", Value::Null).await.1["standard"]["knobs"]["lease"].clone() };
    let (old, new) = (b"[default]\nlease = \"41s\"\n", b"[default]\nlease = \"42s\"\n");
    assert_eq!(say(&root, "PUT", "/v1/policies", old, "change-1").await.0, 200);
    assert_eq!(say(&root, "PUT", "/v1/policies", new, "change-2").await.0, 200);
    let (status, replayed, _) = say(&root, "PUT", "/v1/policies", old, "change-1").await;
    assert_eq!((status, replayed), (200, true));
    assert_eq!(lease().await, json!("42s"), "the newer one stays in force");
    assert_eq!(rows(&daemon, "policy_change").await, 2);
}

struct Temporary(std::path::PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A key is added, revoked, and then the lost "add" arrives again: the revoked key must stay revoked.
#[tokio::test]
async fn a_key_that_was_revoked_does_not_come_back_with_a_late_repeat() {
    let path = std::env::temp_dir().join(format!("hapax-once-keys-{}.toml", std::process::id()));
    let _gone_at_the_end = Temporary(path.clone());
    std::fs::write(&path, key_text()).unwrap();
    let daemon = Setup { auth: keys(), key_file: Some(path.clone()), ..Setup::default() }.start().await;
    let root = daemon.root();
    let hash = hapax_server::hash_key("secret-of-new");
    let entry = json!({ "name": "new", "hash": hash, "tenant": "acme", "roles": ["client"] }).to_string();
    let add = || say(&root, "POST", "/v1/keys", entry.as_bytes(), "add-1");
    let (status, replayed, told) = add().await;
    assert_eq!((status, replayed), (200, false), "{told}");
    assert_eq!(begin(&daemon.as_key("new"), json!({})).await.0, 200, "it is in force at once");
    let (status, replayed, again) = add().await;
    assert_eq!((status, replayed, &again), (200, true, &told));
    assert!(!told.to_string().contains(&hash), "what is recorded cannot be used");
    assert_eq!(rows(&daemon, "keys_change").await, 1);

    let revoke = json!({ "name": "new" }).to_string();
    assert_eq!(say(&root, "POST", "/v1/keys:revoke", revoke.as_bytes(), "revoke-1").await.0, 200);
    assert_eq!(begin(&daemon.as_key("new"), json!({})).await.0, 401);
    assert_eq!(add().await.0, 200, "the first answer again");
    assert_eq!(begin(&daemon.as_key("new"), json!({})).await.0, 401, "and nothing more");
    assert!(!std::fs::read_to_string(&path).unwrap().contains(&hash));
    let (_, listed) = ask(&root, "GET", "/v1/keys", Value::Null).await;
    assert!(!listed.to_string().contains("sha256") && listed.to_string().contains("acme-reader"), "{listed}");

    // Whose credential is revoked gets no recorded answer either, and learns nothing of it.
    std::fs::write(&path, key_text().replace("\"root\"", "\"other-root\"")).unwrap();
    let fewer =
        key_text().split("[[key]]").filter(|entry| !entry.contains("\"root\"")).collect::<Vec<_>>().join("[[key]]");
    daemon.server.set_auth(hapax_server::Auth::Keys(hapax_server::Keys::from_toml(&fewer).unwrap()));
    assert_eq!(add().await.0, 401);
}

/// Two tenants choose the same key for their decisions: neither sees, or stands in the way of, the other's.
#[tokio::test]
async fn two_tenants_with_one_key_decide_each_their_own() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    for name in ["acme-operator", "globex-client"] {
        let client = daemon.as_key(name);
        let (id, version) = doubt(&client, "same").await;
        let path = format!("/v1/operations/{id}:resolve");
        let (status, replayed, told) = say(&client, "POST", &path, &decision(version, name), "same-key").await;
        assert_eq!((status, replayed), (200, false), "{told}");
    }
}

/// Without a file there is nowhere to write a key, and that is said; nothing is recorded that would outlive the mending.
#[tokio::test]
async fn a_key_without_a_file_to_stand_in_is_refused_with_the_next_step() {
    let daemon = Setup { auth: keys(), ..Setup::default() }.start().await;
    let hash = hapax_server::hash_key("x");
    let entry = json!({ "name": "new", "hash": hash, "tenant": "acme", "roles": ["client"] });
    let (status, told) = ask(&daemon.root(), "POST", "/v1/keys", entry.clone()).await;
    assert_eq!((status, &told["code"]), (409, &json!("HX0140")), "{told}");
    let (status, told) =
        ask(&daemon.root(), "POST", "/v1/keys", json!({ "name": "n", "hash": "h", "tenant": "t" })).await;
    assert_eq!((status, &told["code"]), (400, &json!("HX0081")), "{told}");
    let (status, _) = ask(&daemon.as_key("acme-operator"), "POST", "/v1/keys", entry).await;
    assert_eq!(status, 404, "at the tenants' door it is not there");
}
