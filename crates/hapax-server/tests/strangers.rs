//! Tenants are strangers, and who is not known learns nothing.

use crate::support;
use crate::support::{Setup, ask, begin, feed, step};
use serde_json::{Value, json};

/// Two tenants, one key, every endpoint.
#[tokio::test]
async fn two_tenants_with_one_key_never_meet() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-operator"), daemon.as_key("globex-client"));
    let (_, mine) = begin(&acme, json!({})).await;
    assert_eq!(mine["verdict"], "execute");
    let (_, theirs) = begin(&globex, json!({ "request": "other" })).await;
    assert_eq!(theirs["verdict"], "execute", "the same key of another tenant is another operation");
    assert_ne!(mine["operation"], theirs["operation"]);
    let id = mine["operation"].as_str().unwrap();

    // With the right token, but of a stranger: as if there were nothing, and nothing is touched.
    let absent = json!({ "operation": "ab".repeat(32), "token": mine["token"] });
    for (verb, more) in [
        ("start", json!({})),
        ("renew", json!({})),
        ("complete", json!({ "outcome": { "body": "stolen" } })),
        ("reject", json!({})),
        ("fail", json!({})),
        ("release", json!({ "why": "no_effect" })),
    ] {
        let foreign = step(&globex, &mine, verb, more.clone()).await;
        let mut unknown = step(&globex, &absent, verb, more).await;
        if let Some(named) = unknown.1.get_mut("operation") {
            *named = json!(id);
        }
        assert_eq!(foreign, unknown, "{verb}");
    }
    let decision = json!({ "version": 1, "resolution": "open", "posture": "operator_accepted", "reason": "mine now" });
    let foreign = ask(&globex, "POST", &format!("/v1/operations/{id}:resolve"), decision.clone()).await;
    let unknown = ask(&globex, "POST", &format!("/v1/operations/{}:resolve", "ab".repeat(32)), decision).await;
    assert_eq!(foreign, unknown);
    let foreign = ask(&globex, "GET", &format!("/v1/operations/{id}"), Value::Null).await;
    let unknown = ask(&globex, "GET", &format!("/v1/operations/{}", "ab".repeat(32)), Value::Null).await;
    assert_eq!((foreign.0, &foreign), (404, &unknown));
    let named = json!({ "surface": "payments", "key": "order-17", "tenant": "acme" });
    assert_eq!(ask(&globex, "POST", "/v1/operations:explain", named).await, unknown);
    for path in ["/v1/operations", "/v1/operations?surface=payments", "/v1/operations?state=pending", "/v1/doubt"] {
        let (_, list) = ask(&globex, "GET", path, Value::Null).await;
        assert!(!list.to_string().contains(id), "{path}: {list}");
    }
    for path in ["/", "/page/live", &format!("/page/operation?id={id}")] {
        let (_, page) = ask(&globex, "GET", path, Value::Null).await;
        let shown = page.to_string();
        assert!(!shown.contains("acme") && !shown.contains(&id[..12]), "{path}: {shown}");
    }
    let (_, policies) = ask(&globex, "GET", "/v1/policies", Value::Null).await;
    assert!(!policies.to_string().contains("acme") && policies["standard"]["name"] == "standard", "{policies}");
    // Counters are of the whole process; whose they are is for the administrators' door.
    assert_eq!(ask(&globex, "GET", "/metrics", Value::Null).await.0, 403);
    let (_, metrics) = ask(&daemon.as_key("root"), "GET", "/metrics", Value::Null).await;
    let metrics = metrics.to_string();
    assert!(metrics.contains("hapax_executed_total 2"), "{metrics}");
    assert!(!metrics.contains("acme") && !metrics.contains("globex"), "{metrics}");
    let (_, metrics) = ask(&daemon.root(), "GET", "/metrics", Value::Null).await;
    assert!(metrics.to_string().contains("acme"), "administrators see them side by side");
    // It is still the owner's.
    assert_eq!(step(&acme, &mine, "complete", json!({ "outcome": { "body": "paid" } })).await.0, 200);
    assert_eq!(begin(&acme, json!({})).await.1["outcome"]["body"], "paid");
    // Of all these events the stranger reads its own, from the first that is still known.
    let mut reader = feed(&daemon.address, "authorization: Bearer secret-of-globex-client\r\n").await;
    assert_eq!(begin(&globex, json!({ "key": "last" })).await.0, 200);
    reader.until(2, "\"begin\"").await;
    assert!(!reader.text.contains(id) && !reader.text.contains("acme"), "{}", reader.text);
    // The administrator sees both, at the other door only.
    let (_, all) = ask(&daemon.root(), "GET", "/v1/operations", Value::Null).await;
    assert_eq!(all["items"].as_array().unwrap().len(), 3, "{all}");
    let (_, at_public) = ask(&daemon.as_key("root"), "GET", "/v1/operations", Value::Null).await;
    assert_eq!(at_public["items"].as_array().unwrap().len(), 0, "{at_public}");
}

/// Records of other kinds have ids as well, and those of groups can be reckoned. At the addresses of operations nobody learns that
/// they are there, whose they are, or that anything were damaged; and nothing is written over them.
#[tokio::test]
async fn what_is_no_operation_is_not_there_as_one() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-operator"), daemon.as_key("globex-client"));
    let group = ask(&acme, "POST", "/v1/groups", json!({ "name": "turn-1" })).await.1;
    let (id, unknown) = (group["group"].as_str().unwrap(), "ab".repeat(32));
    let token = begin(&acme, json!({})).await.1["token"].clone();
    for client in [&acme, &globex] {
        for (verb, more) in [
            ("start", json!({})),
            ("renew", json!({})),
            ("complete", json!({ "outcome": { "body": "x" } })),
            ("reject", json!({})),
            ("fail", json!({})),
            ("release", json!({ "why": "no_effect" })),
        ] {
            let of = |id: &str| json!({ "operation": id, "token": token });
            let told = step(client, &of(id), verb, more.clone()).await;
            let mut wanted = step(client, &of(&unknown), verb, more).await;
            if let Some(named) = wanted.1.get_mut("operation") {
                *named = json!(id);
            }
            assert_eq!(told, wanted, "{verb}");
        }
        let resolve = json!({ "version": 1, "resolution": "open", "posture": "operator_accepted", "reason": "a slip" });
        for (method, before, after, body) in [
            ("GET", "/v1/operations/", "", Value::Null),
            ("POST", "/v1/operations/", ":resolve", resolve),
            ("GET", "/page/operation?id=", "", Value::Null),
        ] {
            let told = ask(client, method, &format!("{before}{id}{after}"), body.clone()).await;
            let wanted = ask(client, method, &format!("{before}{unknown}{after}"), body).await;
            let named = told.1.to_string().replace(&id[..12], &unknown[..12]);
            assert_eq!(told.0, wanted.0, "{before}{after}: {named}");
            assert!(!named.contains("damaged"), "{named}");
        }
    }
    let found = ask(&acme, "POST", "/v1/groups", json!({ "name": "turn-1" })).await;
    assert_eq!(found, (200, group), "it is as it was");
}

/// No key, a wrong key, a malformed one, a key that may not come in by this door: one answer, at every address.
#[tokio::test]
async fn who_is_not_known_learns_nothing() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let nobody = daemon.client();
    let (status, expected) = ask(&nobody, "GET", "/v1/operations", Value::Null).await;
    assert_eq!((status, expected["code"].as_str()), (401, Some("HX0070")));
    let wrong = daemon.client().api_key("secret-of-nobody");
    let not_admin = hapax_client::Client::new(&daemon.admin).unwrap().api_key("secret-of-acme-operator");
    for client in [&nobody, &wrong, &not_admin] {
        for (method, path) in [
            ("GET", "/v1/operations"),
            ("GET", "/v1/nowhere"),
            ("DELETE", "/v1/operations"),
            ("POST", "/v1/operations:begin"),
            ("GET", "/metrics"),
            ("GET", "/"),
            ("PUT", "/v1/policies"),
            ("POST", "/v1/reload"),
            ("GET", "/v1/audit"),
        ] {
            assert_eq!(ask(client, method, path, Value::Null).await, (401, expected.clone()), "{method} {path}");
        }
    }
    // What everybody may know.
    for path in ["/healthz", "/readyz", "/openapi.json", "/.well-known/openwop"] {
        assert_eq!(ask(&nobody, "GET", path, Value::Null).await.0, 200, "{path}");
    }
}

/// A key that was taken away cannot fetch what it once recorded.
#[tokio::test]
async fn a_revoked_key_cannot_fetch_a_replay() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let client = daemon.as_key("acme-client");
    let (_, ticket) = begin(&client, json!({})).await;
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "paid" } })).await;
    assert_eq!(begin(&client, json!({})).await.0, 200);
    let only = format!(
        "[[key]]\nname = \"other\"\nhash = \"{}\"\ntenant = \"acme\"\nroles = [\"client\"]\n",
        hapax_server::hash_key("another")
    );
    daemon.server.set_auth(hapax_server::Auth::Keys(hapax_server::Keys::from_toml(&only).unwrap()));
    assert_eq!(begin(&client, json!({})).await.0, 401);
    assert_eq!(begin(&daemon.client().api_key("another"), json!({})).await.1["outcome"]["body"], "paid");
}

/// A key that was taken away reads no further event, although its reader was there before; one that stays reads on.
#[tokio::test]
async fn a_revoked_key_reads_no_more_events() {
    let daemon = Setup { auth: support::keys(), ..Setup::default() }.start().await;
    let mut readers = Vec::new();
    for name in ["acme-reader", "acme-operator"] {
        let mut reader = feed(&daemon.address, &format!("authorization: Bearer secret-of-{name}\r\n")).await;
        reader.until(1, ": hapax").await;
        readers.push(reader);
    }
    let stays = format!(
        "[[key]]\nname = \"acme-operator\"\nhash = \"{}\"\ntenant = \"acme\"\nroles = [\"operator\"]\n",
        hapax_server::hash_key("secret-of-acme-operator")
    );
    daemon.server.set_auth(hapax_server::Auth::Keys(hapax_server::Keys::from_toml(&stays).unwrap()));
    begin(&daemon.as_key("acme-operator"), json!({})).await;
    readers[1].until(1, "event: operation").await;
    // The end of the stream, as HTTP says it; the connection may be used for something else.
    while !readers[0].text.ends_with("\r\n0\r\n\r\n") {
        assert!(readers[0].more().await, "{}", readers[0].text);
    }
    assert!(!readers[0].text.contains("event: operation"), "{}", readers[0].text);
}

/// Without keys a server does not open to the world, and not to a name that was made to point at loopback.
#[tokio::test]
async fn without_keys_only_loopback_is_served() {
    let daemon = Setup::default().start().await;
    let open = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let error = daemon.server.serve(open).await.unwrap_err().to_string();
    assert!(error.contains("HX0080"), "{error}");
    let request = "GET /v1/operations HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let answer = support_raw(&daemon.address, request).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

async fn support_raw(address: &str, request: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// One key, one surface: others are not for it.
#[tokio::test]
async fn a_key_bound_to_a_surface_stays_there() {
    let file = format!(
        "[[key]]\nname = \"a\"\nhash = \"{}\"\ntenant = \"acme\"\nroles = [\"client\"]\nsurfaces = [\"payments\"]\nrate = 5\n",
        hapax_server::hash_key("k")
    );
    let auth = hapax_server::Auth::Keys(hapax_server::Keys::from_toml(&file).unwrap());
    let daemon = Setup { auth, ..Setup::default() }.start().await;
    let client = daemon.client().api_key("k");
    assert_eq!(begin(&client, json!({})).await.0, 200);
    assert_eq!(begin(&client, json!({ "surface": "refunds" })).await.0, 403);
    // And its tenant has a rate: a burst is cut off with the time to wait. However slow the machine, some of so many
    // at once come within the second.
    let mut burst = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        burst.spawn(async move { ask(&client, "GET", "/v1/policies", Value::Null).await });
    }
    let mut refused = 0;
    while let Some(answer) = burst.join_next().await {
        let (status, told) = answer.unwrap();
        if status == 429 {
            assert_eq!(told["code"], "HX0075");
            refused += 1;
        }
    }
    assert!(refused > 0);
}
