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
