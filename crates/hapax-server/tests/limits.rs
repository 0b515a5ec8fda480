//! Everything is bounded, and says so.

use std::time::Duration;

use crate::support::{self, Setup, ask, begin, step};
use hapax_server::Limits;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn connect(address: &str) -> TcpStream {
    TcpStream::connect(address.strip_prefix("http://").unwrap()).await.unwrap()
}

/// Whatever is sent, the answer is a refusal that says why, never a fault of the server's.
#[tokio::test]
async fn no_input_makes_the_server_fail() {
    let daemon = Setup { limits: Limits { body: 4096, ..Limits::default() }, ..Setup::default() }.start().await;
    let client = daemon.client();
    let deep = format!("{{\"surface\":\"a\",\"key\":\"k\",\"request\":{}{}}}", "[".repeat(100), "]".repeat(100));
    for (body, status, code) in [
        ("", 415, "HX0073"),
        ("{", 400, "HX0073"),
        ("[]", 400, "HX0073"),
        ("{\"surface\":\"a\"}", 400, "HX0073"),
        ("{\"surface\":\"a\",\"key\":\"k\",\"kee\":1}", 400, "HX0073"),
        ("{\"surface\":\"a b\",\"key\":\"k\"}", 400, "HX0001"),
        ("{\"surface\":\"a\",\"key\":\"\"}", 400, "HX0001"),
        ("{\"surface\":\"a\",\"key\":\"k\",\"nonce\":\"xyz\"}", 400, "HX0073"),
        ("{\"surface\":\"a\",\"key\":\"k\",\"effect\":\"maybe\"}", 400, "HX0073"),
        ("{\"surface\":\"a\",\"key\":\"k\",\"lease_ms\":0}", 400, "HX0073"),
        ("{\"surface\":\"a\",\"key\":\"k\",\"lease_ms\":-1}", 400, "HX0073"),
        ("{\"surface\":\"a\",\"key\":\"k\",\"wait_ms\":99999999}", 400, "HX0073"),
        (&deep, 400, "HX0073"),
        (&format!("{{\"surface\":\"a\",\"key\":\"{}\"}}", "k".repeat(300)), 400, "HX0001"),
        (&format!("\"{}\"", "x".repeat(5000)), 413, "HX0074"),
    ] {
        let (got, bytes) = client.raw("POST".parse().unwrap(), "/v1/operations:begin", body.as_bytes()).await.unwrap();
        let told: Value = serde_json::from_slice(&bytes).unwrap();
        let short: String = body.chars().take(60).collect();
        assert_eq!((got, told["code"].as_str()), (status, Some(code)), "{short}: {told}");
        assert!(!told["next_action"].as_str().unwrap().is_empty());
    }
    for (method, path, status) in [
        ("GET", "/v1/operations?limit=0", 400),
        ("GET", "/v1/operations?limit=9999", 400),
        ("GET", "/v1/operations?state=gone", 400),
        ("GET", "/v1/operations?what=1", 400),
        ("GET", "/v1/operations?cursor=%00", 400),
        ("GET", "/v1/operations?cursor=AAAA", 400),
        ("GET", "/v1/operations?state=pending&cursor=AAAA", 400),
        ("GET", "/v1/operations?surface=a&cursor=AAAA", 400),
        ("GET", "/v1/doubt?cursor=AAAA", 400),
        ("GET", "/v1/operations?%", 400),
        ("GET", "/v1/operations/xyz", 404),
        ("GET", "/nowhere", 404),
        ("DELETE", "/v1/operations", 405),
        ("TRACE", "/", 405),
    ] {
        let (got, told) = ask(&client, method, path, Value::Null).await;
        assert_eq!(got, status, "{method} {path}: {told}");
    }
}

/// A client that sends its head or its body a byte at a time, or never reads, frees its place.
#[tokio::test]
async fn slow_clients_are_cut_off() {
    let limits = Limits {
        head_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        write_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let daemon = Setup { limits, ..Setup::default() }.start().await;
    let mut answer = Vec::new();
    let mut slow_head = connect(&daemon.address).await;
    slow_head.write_all(b"GET /healthz HT").await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), slow_head.read_to_end(&mut answer)).await.unwrap().unwrap();
    let mut slow_body = connect(&daemon.address).await;
    let head = "POST /v1/operations:begin HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{";
    slow_body.write_all(head.as_bytes()).await.unwrap();
    answer.clear();
    tokio::time::timeout(Duration::from_secs(20), slow_body.read_to_end(&mut answer)).await.unwrap().unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    // Never reads: requests are sent until the answers fill every buffer, and then the connection is cut.
    let stuck = connect(&daemon.address).await;
    let (_unread, mut write) = stuck.into_split();
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(50);
    let cut = async { while write.write_all(&request).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(30), cut).await.expect("a reader that never reads is cut off");
}

/// More connections than there are places: the next one is told so.
#[tokio::test]
async fn one_connection_too_many_is_turned_away_with_words() {
    let daemon = Setup { limits: Limits { connections: 3, ..Limits::default() }, ..Setup::default() }.start().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&daemon.address).await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut some = [0; 16];
        stream.read_exact(&mut some).await.unwrap();
        held.push(stream);
    }
    let mut answer = String::new();
    connect(&daemon.address).await.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("HX0075"), "{answer}");
    // Whoever leaves makes room.
    drop(held.pop());
    let let_in = async {
        loop {
            let mut stream = connect(&daemon.address).await;
            let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            if answer.starts_with("HTTP/1.1 200") {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), let_in).await.expect("whoever leaves makes room");
}

async fn reader(address: &str, extra: &str) -> (TcpStream, String) {
    let mut stream = connect(address).await;
    let request = format!("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n{extra}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut buffer = vec![0; 4096];
    let read = stream.read(&mut buffer).await.unwrap();
    (stream, String::from_utf8_lossy(&buffer[..read]).into_owned())
}

async fn read_until(stream: &mut TcpStream, text: &mut String, wanted: &str) {
    let found = async {
        let mut buffer = vec![0; 65_536];
        while !text.contains(wanted) {
            let read = stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "closed after {text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.unwrap_or_else(|_| panic!("no `{wanted}`"));
}

/// Readers of events are bounded, in all and per tenant; each refusal is an answer, and who leaves makes room.
#[tokio::test]
async fn idle_readers_are_bounded_with_clear_refusals() {
    let limits = Limits { readers: 40, readers_per_tenant: 30, ..Limits::default() };
    let daemon = Setup { limits, ..Setup::default() }.start().await;
    let mut readers = Vec::new();
    let mut refused = 0;
    for _ in 0..100 {
        let (stream, head) = reader(&daemon.address, "").await;
        if head.starts_with("HTTP/1.1 200") {
            readers.push(stream);
        } else {
            assert!(head.starts_with("HTTP/1.1 429") && head.contains("HX0075"), "{head}");
            refused += 1;
        }
    }
    assert_eq!((readers.len(), refused), (30, 70));
    readers.clear();
    // Their places come free as soon as their leaving is noticed.
    let again = async { while !reader(&daemon.address, "").await.1.starts_with("HTTP/1.1 200") {} };
    tokio::time::timeout(Duration::from_secs(30), again).await.unwrap();
}

/// One tenant takes its share and no more, and a change of keys gives it no second one; then the next tenant takes what is left
/// of the whole, and no more either.
#[tokio::test]
async fn readers_are_counted_in_all_and_over_a_change_of_keys() {
    let limits = Limits { readers: 5, readers_per_tenant: 3, ..Limits::default() };
    let daemon = Setup { auth: support::keys(), limits, ..Setup::default() }.start().await;
    let mut readers = Vec::new();
    let mut ask = async |name: &str| {
        let key = format!("authorization: Bearer secret-of-{name}\r\n");
        let (stream, head) = reader(&daemon.address, &key).await;
        let let_in = head.starts_with("HTTP/1.1 200");
        assert!(let_in || head.starts_with("HTTP/1.1 429") && head.contains("HX0075"), "{head}");
        readers.push(stream);
        let_in
    };
    for expected in [true, true, true, false] {
        assert_eq!(ask("acme-client").await, expected);
    }
    daemon.server.set_auth(support::keys());
    assert!(!ask("acme-client").await, "a change of keys makes no room");
    for expected in [true, true, false] {
        assert_eq!(ask("globex-client").await, expected);
    }
}

/// Keys come and go by the API too, while tenants are served. A tenant that has all its places taken, or has asked as often as
/// it may, would get as much again with every key that anybody adds.
#[tokio::test]
async fn a_key_added_or_revoked_by_the_api_gives_nobody_a_second_share() {
    let path = std::env::temp_dir().join(format!("hapax-limits-keys-{}.toml", std::process::id()));
    std::fs::write(&path, support::key_text()).unwrap();
    let limits = Limits { readers: 50, readers_per_tenant: 2, ..Limits::default() };
    let setup = Setup { auth: support::keys(), limits, key_file: Some(path.clone()), ..Setup::default() };
    let daemon = setup.start().await;
    let key = "authorization: Bearer secret-of-acme-client\r\n";
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (stream, head) = reader(&daemon.address, key).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        readers.push(stream);
    }
    let root = daemon.root();
    let entry = json!({
        "name": "new", "hash": hapax_server::hash_key("secret-of-new"), "tenant": "acme", "roles": ["client"],
    });
    for (path, body) in [("/v1/keys", entry), ("/v1/keys:revoke", json!({ "name": "new" }))] {
        let (status, told) = ask(&root, "POST", path, body).await;
        assert_eq!(status, 200, "{told}");
        let (_, head) = reader(&daemon.address, key).await;
        assert!(head.starts_with("HTTP/1.1 429"), "after {path}: {head}");
    }
    let _ = std::fs::remove_file(&path);
}

/// A reader that comes back gets what it missed; from another life of the process, or too late, it is told of a gap.
#[tokio::test]
async fn a_reader_resumes_where_it_was_or_is_told_of_a_gap() {
    let settings = hapax_engine::Settings { events: 8, ..hapax_engine::Settings::default() };
    let daemon = Setup { settings, ..Setup::default() }.start().await;
    let client = daemon.client();
    let (mut stream, mut text) = reader(&daemon.address, "").await;
    begin(&client, json!({ "key": "a" })).await;
    read_until(&mut stream, &mut text, "\"cause\":\"begin\"").await;
    let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    drop(stream);
    begin(&client, json!({ "key": "b" })).await;
    let (mut stream, mut text) = reader(&daemon.address, &format!("last-event-id: {id}\r\n")).await;
    read_until(&mut stream, &mut text, "\"cause\":\"begin\"").await;
    assert!(!text.contains("event: gap"), "{text}");
    assert_eq!(text.matches("event: operation").count(), 1, "only what was missed: {text}");
    for number in 0..20 {
        begin(&client, json!({ "key": format!("c{number}") })).await;
    }
    let (mut stream, mut text) = reader(&daemon.address, &format!("last-event-id: {id}\r\n")).await;
    read_until(&mut stream, &mut text, "event: operation").await;
    assert!(text.contains("event: gap"), "{text}");
    let (mut stream, mut text) = reader(&daemon.address, "last-event-id: 0000000000000000-3\r\n").await;
    read_until(&mut stream, &mut text, "event: operation").await;
    assert!(text.contains("event: gap"), "an id from before a restart names other events: {text}");
    let (mut stream, mut text) = reader(&daemon.address, "last-event-id: \u{fc}\r\n").await;
    read_until(&mut stream, &mut text, "event: operation").await;
    assert!(text.contains("event: gap"), "what cannot be read is no first visit: {text}");
}

/// Many callers wait for one attempt. Those beyond the limit are told at once that it is in flight; the others get the
/// answer when it comes.
#[tokio::test]
async fn waiting_callers_are_bounded_and_the_rest_is_told() {
    let limits = Limits { begins_per_tenant: 20, ..Limits::default() };
    let daemon = Setup { limits, ..Setup::default() }.start().await;
    let client = daemon.client();
    let (_, ticket) = begin(&client, json!({})).await;
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let client = client.clone();
        waiting.spawn(async move { begin(&client, json!({ "wait_ms": 60_000 })).await });
    }
    let mut told = 0;
    while told < 40 {
        let (status, answer) = waiting.join_next().await.unwrap().unwrap();
        assert_eq!((status, answer["code"].as_str()), (409, Some("HX0004")), "{answer}");
        told += 1;
    }
    step(&client, &ticket, "complete", json!({ "outcome": { "body": "done" } })).await;
    while let Some(answer) = waiting.join_next().await {
        let (status, answer) = answer.unwrap();
        assert_eq!((status, &answer["joined"]), (200, &json!(true)), "{answer}");
    }
}
