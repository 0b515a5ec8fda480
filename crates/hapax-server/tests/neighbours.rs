//! Whatever one tenant does, its neighbours see no less of their own, and nothing of it.

use crate::support;
use std::time::Duration;

use crate::support::{Setup, ask, begin, feed, step};
use hapax_client::Client;
use hapax_core::{
    Preset,
    identity::Surface,
    policy::{Admission, Capacity, OnFull},
};
use hapax_engine::Policies;
use hapax_server::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

/// An operation whose end nobody knows; its id.
async fn doubt(client: &Client, key: &str) -> String {
    let (_, ticket) = begin(client, json!({ "key": key, "effect": "irreversible" })).await;
    let (status, told) = step(client, &ticket, "fail", json!({ "outcome": { "class": "unknown" } })).await;
    assert_eq!(status, 200, "{told}");
    ticket["operation"].as_str().unwrap().to_owned()
}

/// More doubts of a neighbour's than one look takes in: the page does not say that there is nothing, and whoever looks
/// further finds their own.
#[tokio::test]
async fn a_neighbours_doubts_hide_nobodys() {
    let limits = Limits { looked_at: 40, ..Limits::default() };
    let daemon = Setup { auth: support::keys(), limits, ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    for number in 0..150 {
        doubt(&acme, &format!("theirs-{number}")).await;
    }
    let mine = doubt(&globex, "mine").await;
    let mut place = "/".to_owned();
    for looks in 0.. {
        assert!(looks < 20, "it is never found");
        let (_, page) = ask(&globex, "GET", &place, Value::Null).await;
        // The part about doubts: what happened lately has links too.
        let page = page.as_str().unwrap().split_once("<h2>Running").unwrap().0.to_owned();
        assert!(!page.contains("the end of everything is known"), "{page}");
        if page.contains(&format!("id={mine}")) {
            assert!(looks > 0, "the neighbour's were not in the way, so this test shows nothing");
            break;
        }
        let (_, after) = page.split_once("href=\"/?after=").expect("a way to go on");
        place = format!("/?after={}", after.split('"').next().unwrap());
    }
    // The list carries the same place from page to page, and it says nothing about others.
    let (_, first) = ask(&globex, "GET", "/v1/doubt?limit=1", Value::Null).await;
    let cursor = first["next"].as_str().unwrap();
    let readable = data_encoding::BASE64URL_NOPAD.decode(cursor.as_bytes()).unwrap();
    let (_, all) = ask(&daemon.root(), "GET", "/v1/doubt?limit=200", Value::Null).await;
    for item in all["items"].as_array().unwrap() {
        let id = data_encoding::HEXLOWER.decode(item["operation"].as_str().unwrap().as_bytes()).unwrap();
        assert!(!readable.windows(8).any(|part| part == &id[..8]), "a cursor names a stranger's operation");
    }
    let (status, _) = ask(&acme, "GET", &format!("/v1/doubt?cursor={cursor}"), Value::Null).await;
    assert_eq!(status, 400, "a place is of use to whom it was given only");
}

/// A neighbour's events neither push out ours nor show in our numbers.
#[tokio::test]
async fn a_neighbours_events_push_out_nobodys_and_do_not_count() {
    let settings = hapax_engine::Settings { events: 64, ..hapax_engine::Settings::default() };
    let daemon = Setup { auth: support::keys(), settings, ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    begin(&globex, json!({ "key": "first" })).await;
    begin(&globex, json!({ "key": "second" })).await;
    for number in 0..200 {
        begin(&acme, json!({ "key": format!("theirs-{number}") })).await;
    }
    let key = "authorization: Bearer secret-of-globex-client\r\n";
    let mut reader = feed(&daemon.address, key).await;
    reader.until(2, "event: operation").await;
    assert!(!reader.text.contains("event: gap") && !reader.text.contains("\"number\""), "{}", reader.text);
    let ids: Vec<String> =
        reader.text.lines().filter_map(|line| line.strip_prefix("id: ").map(str::to_owned)).collect();
    assert!(ids.iter().all(|id| id.len() > 40), "a number can be read: {ids:?}");
    // Resumed after the first, the second comes and nothing else.
    let mut reader = feed(&daemon.address, &format!("{key}last-event-id: {}\r\n", ids[0])).await;
    reader.until(1, "event: operation").await;
    begin(&globex, json!({ "key": "third" })).await;
    reader.until(2, "event: operation").await;
    assert!(!reader.text.contains("event: gap"), "{}", reader.text);
    // An id is of use to its own tenant only.
    let key = "authorization: Bearer secret-of-acme-client\r\n";
    let mut reader = feed(&daemon.address, &format!("{key}last-event-id: {}\r\n", ids[0])).await;
    reader.until(1, "event: gap").await;
}

/// Large bodies that never end take up their tenant's share, and no more: others' and small ones go through.
#[tokio::test]
async fn a_neighbours_bodies_left_hanging_turn_nobody_else_away() {
    let limits = Limits { bodies: 64 * 1024, ..Limits::default() };
    let daemon = Setup { auth: support::keys(), limits, ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    let large = || json!({ "request": "x".repeat(40_000) });
    assert_eq!(begin(&acme, large()).await.0, 200);
    let mut hanging = support::connect(&daemon.address).await;
    let head = "POST /v1/operations:begin HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                authorization: Bearer secret-of-acme-client\r\ncontent-length: 100000\r\n\r\n";
    hanging.write_all(head.as_bytes()).await.unwrap();
    hanging.write_all(&[b' '; 40_000]).await.unwrap();
    let told = until_status(429, || begin(&acme, large())).await;
    assert_eq!((told["code"].as_str(), told["next_action"].as_str()), (Some("HX0075"), Some("retry_later")), "{told}");
    assert_eq!(begin(&acme, json!({ "key": "small" })).await.0, 200);
    assert_eq!(begin(&globex, large()).await.0, 200);
    drop(hanging);
    until_status(409, || begin(&acme, large())).await;
}

async fn until_status<F: Future<Output = (u16, Value)>>(wanted: u16, mut again: impl FnMut() -> F) -> Value {
    let found = async {
        loop {
            let (status, told) = again().await;
            if status == wanted {
                return told;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("it never comes to that")
}

/// Attempts are held so that a policy can count them. A flood of one tenant's does not switch that off for another.
#[tokio::test]
async fn a_neighbours_flood_does_not_switch_admission_off() {
    let mut policies = Policies::default();
    let mut strict = Preset::Standard.policy();
    strict.admission = Some(Admission { max_in_flight: 1_000, per_tenant: 1 });
    policies.set(Surface::new("strict").unwrap(), strict).unwrap();
    let limits = Limits { tickets: 64, ..Limits::default() };
    let daemon = Setup { auth: support::keys(), limits, policies, ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    for number in 0..300 {
        assert_eq!(begin(&acme, json!({ "key": format!("flood-{number}") })).await.0, 200);
    }
    let (status, ticket) = begin(&globex, json!({ "surface": "strict", "key": "a" })).await;
    assert_eq!(status, 200);
    let (status, told) = begin(&globex, json!({ "surface": "strict", "key": "b" })).await;
    assert_eq!((status, told["code"].as_str()), (429, Some("HX0007")), "{told}");
    // Ended, it makes room, as often as wanted: what is counted is not lost.
    step(&globex, &ticket, "complete", json!({ "outcome": {} })).await;
    assert_eq!(begin(&globex, json!({ "surface": "strict", "key": "b" })).await.0, 200);
}

/// One tenant's answers fill all the bytes that it may keep, some of them out of line. It is told so; what it completed is given
/// again, what it had begun is completed, and its neighbour does not notice.
#[tokio::test]
async fn a_tenant_that_has_used_up_its_bytes_is_told_so_and_nobody_else_is() {
    let mut policies = Policies::default();
    let mut small = Preset::Standard.policy();
    small.capacity.bytes_per_tenant = Some(100_000);
    policies.set(Surface::new("small").unwrap(), small).unwrap();
    let daemon = Setup { auth: support::keys(), policies, ..Setup::default() }.start().await;
    let (acme, globex) = (daemon.as_key("acme-client"), daemon.as_key("globex-client"));
    let asked = |key: &str| json!({ "surface": "small", "key": key });
    let (_, under_way) = begin(&acme, asked("under-way")).await;
    for (number, length) in [40_000, 10_000, 50_000].into_iter().enumerate() {
        let (status, ticket) = begin(&acme, asked(&format!("k{number}"))).await;
        assert_eq!(status, 200, "{ticket}");
        let outcome = json!({ "outcome": { "body": "x".repeat(length) } });
        assert_eq!(step(&acme, &ticket, "complete", outcome).await.0, 200);
    }
    let (status, told) = begin(&acme, asked("one-more")).await;
    assert_eq!((status, told["code"].as_str()), (429, Some("HX0007")), "{told}");
    assert!(told["detail"].as_str().unwrap().contains("bytes"), "{told}");
    assert_eq!(begin(&acme, asked("k0")).await.1["verdict"], "replay");
    let late = json!({ "outcome": { "body": "x".repeat(1_000) } });
    assert_eq!(step(&acme, &under_way, "complete", late).await.0, 200, "what was begun is never refused its end");
    assert_eq!(begin(&globex, asked("one-more")).await.0, 200);
    assert_eq!(begin(&acme, json!({ "key": "elsewhere" })).await.0, 200, "another surface has bytes of its own");
}

/// A key that is bound to a surface knows nothing of the others, whatever it asks.
#[tokio::test]
async fn a_key_bound_to_a_surface_sees_no_other() {
    let entry = |name: &str, more: &str| {
        let hash = hapax_server::hash_key(&format!("secret-of-{name}"));
        format!("[[key]]\nname = \"{name}\"\nhash = \"{hash}\"\ntenant = \"acme\"\nroles = [\"operator\"]\n{more}")
    };
    let file = entry("free", "") + &entry("bound", "surfaces = [\"payments\"]\n");
    let auth = hapax_server::Auth::Keys(hapax_server::Keys::from_toml(&file).unwrap());
    let mut policies = Policies::default();
    let capped = hapax_core::Policy { capacity: Capacity::of(100, OnFull::RejectNew), ..Preset::Standard.policy() };
    policies.set(Surface::new("refunds").unwrap(), capped).unwrap();
    let daemon = Setup { auth, policies, ..Setup::default() }.start().await;
    let (free, bound) = (daemon.as_key("free"), daemon.as_key("bound"));
    let (_, mine) = begin(&bound, json!({})).await;
    let (_, other) = begin(&free, json!({ "surface": "refunds", "effect": "irreversible" })).await;
    let id = other["operation"].as_str().unwrap();
    for (verb, more) in
        [("renew", json!({})), ("complete", json!({ "outcome": { "body": "stolen" } })), ("release", json!({}))]
    {
        let absent = json!({ "operation": "ab".repeat(32), "token": other["token"] });
        let (status, _) = step(&bound, &other, verb, more.clone()).await;
        assert_eq!(status, step(&bound, &absent, verb, more).await.0, "{verb}");
    }
    let (_, still) = ask(&free, "GET", &format!("/v1/operations/{id}"), Value::Null).await;
    assert_eq!(still["state"], "pending", "{still}");
    step(&free, &other, "fail", json!({ "outcome": { "class": "unknown" } })).await;
    let decision = json!({ "version": 9, "resolution": "open", "posture": "operator_accepted", "reason": "x" });
    assert_eq!(ask(&bound, "POST", &format!("/v1/operations/{id}:resolve"), decision).await.0, 404);
    assert_eq!(ask(&bound, "GET", &format!("/v1/operations/{id}"), Value::Null).await.0, 404);
    let page = format!("/page/operation?id={id}");
    for path in ["/v1/operations", "/v1/operations?surface=refunds", "/v1/doubt", "/v1/policies", "/", &page] {
        let (_, told) = ask(&bound, "GET", path, Value::Null).await;
        assert!(!told.to_string().contains("refunds") && !told.to_string().contains(&id[..12]), "{path}: {told}");
    }
    let mut reader = feed(&daemon.address, "authorization: Bearer secret-of-bound\r\n").await;
    reader.until(1, "event: operation").await;
    step(&bound, &mine, "complete", json!({ "outcome": {} })).await;
    reader.until(1, "\"complete\"").await;
    assert!(!reader.text.contains("refunds"), "{}", reader.text);
}
