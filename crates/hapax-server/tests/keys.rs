//! Keys that are added and revoked while the daemon runs, and what a key may say of itself.

use hapax_engine::Policies;
use hapax_server::{Auth, Keys, hash_key};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Setup, ask, begin, connect};

fn entry(name: &str) -> String {
    format!(
        "[[key]]\nname = \"{name}\"\nhash = \"{}\"\ntenant = \"acme\"\nroles = [\"admin\"]\n",
        hash_key(&format!("secret-of-{name}"))
    )
}

fn keys(names: &[&str]) -> (String, Auth) {
    let text: String = names.iter().map(|name| entry(name)).collect();
    let auth = Auth::Keys(Keys::from_toml(&text).unwrap());
    (text, auth)
}

/// A reload takes the keys from another file. Whoever's key stands in the old one alone is turned away, and stays so when a key
/// is added or revoked: that happens in the new file.
#[tokio::test]
async fn after_a_reload_keys_are_kept_in_the_file_that_they_come_from() {
    let folder = hapax_testkit::TempDir::new("keys");
    let (old, new) = (folder.path().join("old.toml"), folder.path().join("new.toml"));
    let (text, auth) = keys(&["root", "gone"]);
    std::fs::write(&old, text).unwrap();
    let daemon = Setup { auth, key_file: Some(old.clone()), ..Setup::default() }.start().await;
    let client = |name: &str| daemon.as_key(name);
    assert_eq!(ask(&client("gone"), "GET", "/v1/operations", Value::Null).await.0, 200);

    let (text, auth) = keys(&["root", "other"]);
    std::fs::write(&new, text).unwrap();
    daemon.server.reload(auth, Some(new.clone()), Policies::default(), "signal HUP").unwrap();
    assert_eq!(ask(&client("gone"), "GET", "/v1/operations", Value::Null).await.0, 401);

    let admin = daemon.root();
    let added = json!({ "name": "added", "hash": hash_key("secret-of-added"), "tenant": "acme", "roles": ["client"] });
    assert_eq!(ask(&admin, "POST", "/v1/keys", added).await.0, 200);
    assert_eq!(ask(&client("added"), "GET", "/v1/operations", Value::Null).await.0, 200);
    assert_eq!(ask(&client("gone"), "GET", "/v1/operations", Value::Null).await.0, 401, "it does not come back");
    let (before, after) = (std::fs::read_to_string(&old).unwrap(), std::fs::read_to_string(&new).unwrap());
    assert!(!before.contains("added") && after.contains("added"), "{before}\n{after}");
}

/// A name is shown in lists and written into rows: what cannot be is refused, and not found out later.
#[tokio::test]
async fn what_a_key_says_of_itself_is_bounded() {
    let folder = hapax_testkit::TempDir::new("keys");
    let file = folder.path().join("keys.toml");
    let (text, auth) = keys(&["root"]);
    std::fs::write(&file, text).unwrap();
    let daemon = Setup { auth, key_file: Some(file), ..Setup::default() }.start().await;
    let admin = daemon.root();
    let good = json!({ "name": "n", "hash": hash_key("x"), "tenant": "acme", "roles": ["client"] });
    for (member, value) in [
        ("name", json!("")),
        ("name", json!(" ")),
        ("name", json!("x".repeat(256))),
        ("name", json!("a\u{1b}[2Jb")),
        ("principal", json!("p".repeat(500_000))),
        ("principal", json!("two\nlines")),
        ("roles", json!(vec!["client"; 9_000])),
        ("capabilities", json!(vec!["read"; 65])),
        ("surfaces", json!(vec!["s"; 65])),
        ("surfaces", json!(["s".repeat(256)])),
    ] {
        let mut entry = good.clone();
        entry[member] = value;
        let (status, said) = ask(&admin, "POST", "/v1/keys", entry).await;
        assert_eq!((status, &said["code"]), (400, &json!("HX0081")), "{member}: {said}");
        assert!(said["detail"].as_str().unwrap().contains(&format!("`{member}`")), "{said}");
    }
    assert_eq!(ask(&admin, "POST", "/v1/keys", good).await.0, 200);
}

/// An attempt says who holds it, and that is not the daemon.
#[tokio::test]
async fn an_attempt_names_whoever_began_it() {
    let (_, auth) = keys(&["root"]);
    let daemon = Setup { auth, ..Setup::default() }.start().await;
    let client = daemon.as_key("root");
    begin(&client, json!({})).await;
    let (_, listed) = ask(&client, "GET", "/v1/operations", Value::Null).await;
    assert_eq!(listed["items"][0]["owner"], "root (acme/root)", "{listed}");
}

/// Without keys any page that somebody on this machine looks at could have their browser ask for a reload.
#[tokio::test]
async fn a_reload_is_not_taken_from_another_site() {
    let daemon = Setup::default().start().await;
    let headers = "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\nContent-Type: text/plain\r\nConnection: close";
    let mut stream = connect(&daemon.admin).await;
    let request = format!("POST /v1/reload HTTP/1.1\r\n{headers}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("another site"), "{answer}");
}

/// Actions, subjects and details of the rows about keys.
async fn rows(admin: &hapax_client::Client) -> Vec<(String, String, Value)> {
    let (_, audit) = ask(admin, "GET", "/v1/audit", Value::Null).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = audit["rows"].as_array().unwrap().iter();
    rows.map(|row| (text(&row["action"]), text(&row["subject"]), row["detail"].clone())).collect()
}

/// Somebody reads the log to find out who let whom in. A row about a key that never came into force, or that was gone before,
/// sends them after the wrong one.
#[tokio::test]
async fn a_change_of_keys_that_does_not_happen_is_not_in_the_log_as_one() {
    let folder = hapax_testkit::TempDir::new("keys");
    let file = folder.path().join("keys.toml");
    let (text, auth) = keys(&["root"]);
    std::fs::write(&file, text).unwrap();
    let daemon = Setup { auth, key_file: Some(file.clone()), ..Setup::default() }.start().await;
    let admin = daemon.root();
    let hash = hash_key("secret-of-dup");
    let dup = json!({ "name": "dup", "hash": hash, "tenant": "acme", "roles": ["client"] });
    assert_eq!(ask(&admin, "POST", "/v1/keys", dup.clone()).await.0, 200);
    let mut other = dup.clone();
    other["tenant"] = json!("t2");
    let (status, said) = ask(&admin, "POST", "/v1/keys", other).await;
    assert_eq!((status, &said["code"]), (409, &json!("HX0081")), "{said}");
    assert_eq!(ask(&admin, "POST", "/v1/keys", dup).await.0, 200, "it is there, letter for letter");
    let revoke = |name: &str| json!({ "name": name });
    assert_eq!(ask(&admin, "POST", "/v1/keys:revoke", revoke("nope")).await.0, 404);
    assert_eq!(ask(&admin, "POST", "/v1/keys:revoke", revoke("dup")).await.0, 200);
    assert_eq!(ask(&admin, "POST", "/v1/keys:revoke", revoke("dup")).await.0, 404);
    assert_eq!(ask(&admin, "POST", "/v1/keys:revoke", revoke("root")).await.0, 409, "the last one");
    let rows = rows(&admin).await;
    let short = format!("{}…", &hash[..15]);
    let told: Vec<(&str, &str, &str, &str)> = rows
        .iter()
        .map(|(action, subject, detail)| {
            let text = |name: &str| detail[name].as_str().unwrap_or_default();
            (action.as_str(), subject.as_str(), text("tenant"), text("hash"))
        })
        .collect();
    assert_eq!(
        told,
        [("keys_change", "add dup", "acme", short.as_str()), ("keys_change", "revoke dup", "acme", short.as_str())]
    );
}

/// The file is gone, or may not be written: that is not the store's fault, and nobody should look for it there.
#[tokio::test]
async fn a_key_file_that_is_gone_is_named_and_no_change_is_noted() {
    let folder = hapax_testkit::TempDir::new("keys");
    let file = folder.path().join("keys.toml");
    let (text, auth) = keys(&["root", "other"]);
    std::fs::write(&file, &text).unwrap();
    let daemon = Setup { auth, key_file: Some(file.clone()), ..Setup::default() }.start().await;
    let admin = daemon.root();
    let entry = json!({ "name": "n", "hash": hash_key("x"), "tenant": "acme", "roles": ["client"] });
    std::fs::remove_file(&file).unwrap();
    for (path, body) in [("/v1/keys", entry.clone()), ("/v1/keys:revoke", json!({ "name": "other" }))] {
        let (status, said) = ask(&admin, "POST", path, body).await;
        assert_eq!((status, &said["code"]), (409, &json!("HX0081")), "{said}");
        assert!(said["detail"].as_str().unwrap().contains("keys.toml"), "{said}");
    }
    assert!(rows(&admin).await.is_empty());
    // It can be read, and not be written: the change was about to happen, and did not.
    std::fs::write(&file, &text).unwrap();
    let in_the_way = folder.path().join("keys.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let (status, said) = ask(&admin, "POST", "/v1/keys", entry).await;
    assert_eq!((status, &said["code"]), (409, &json!("HX0081")), "{said}");
    let actions: Vec<String> = rows(&admin).await.into_iter().map(|(action, ..)| action).collect();
    assert_eq!(actions, ["keys_change", "keys_change_failed"]);
}
