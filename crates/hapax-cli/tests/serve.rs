//! The daemon as its users meet it: the real binary, real signals, real kill -9.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use hapax_client::{Begun, Client, Effect, Outcome};
use serde_json::Value;

struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hapax-serve-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn hapax(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.current_dir(dir);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command
}

fn run(dir: &Path, words: &[&str]) -> Output {
    hapax(dir).args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(dir: &Path, words: &[&str]) -> Value {
    let output = run(dir, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", said(&output)))
}

struct Daemon {
    child: Child,
    url: String,
    hello: String,
    log: Option<std::thread::JoinHandle<String>>,
}

impl Daemon {
    fn start(dir: &Path, more: &[&str]) -> Self {
        let mut command = hapax(dir);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", "debug"]).args(more);
        Self::of(command, "admin     ")
    }

    /// Until it has said this, which belongs to the last line that matters.
    fn of(mut command: Command, last: &str) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut hello = String::new();
        let mut url = None;
        while !hello.contains(last) {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "it ended with: {hello}");
            url = url.or_else(|| line.strip_prefix("hapax serve on ").map(|url| url.trim().to_owned()));
            hello.push_str(&line);
        }
        let log = std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = lines.read_to_string(&mut rest);
            rest
        });
        Self { child, url: url.unwrap(), hello, log: Some(log) }
    }

    fn client(&self) -> Client {
        Client::new(&self.url).unwrap()
    }

    /// The log.
    fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.log.take().unwrap().join().unwrap()
    }
}

/// A test that fails leaves no process behind.
impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A stranger starts it with nothing at all: it works, and says where its data is, what it promises, where the page is.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_file_or_a_flag_it_works_and_says_what_it_is_doing() {
    let dir = Dir::new();
    let mut command = hapax(&dir.0);
    // Ports that nobody else has, since many tests run at once: by the environment, so without a file or a flag.
    command.arg("serve").env("HAPAX_LISTEN", "127.0.0.1:0").env("HAPAX_ADMIN", "127.0.0.1:0");
    let daemon = Daemon::of(command, "warning: no API keys");
    for expected in ["file:./hapax-data", "which promises: durable", "page      http://127.0.0.1:"] {
        assert!(daemon.hello.contains(expected), "{}", daemon.hello);
    }
    assert!(dir.0.join("hapax-data/audit.log").is_file());
    let client = daemon.client();
    let call = || client.operation("payments", "order-17");
    let Begun::Execute(ticket) = call().begin().await.unwrap() else { panic!("nobody asked before") };
    client.complete(&ticket, &Outcome::text("paid")).await.unwrap();
    assert!(matches!(call().begin().await.unwrap(), Begun::Replay(_)));
    // A key that is a digest looks like an id, and is explained as the key that it is.
    let digest = "ab".repeat(32);
    assert!(matches!(client.operation("payments", &digest).begin().await.unwrap(), Begun::Execute(_)));
    let explained = run(&dir.0, &["explain", &digest, "--surface", "payments", "--tenant", "default"]);
    assert!(said(&explained).contains("on surface payments: pending"), "{}", said(&explained));
    let ready: Value = client.get("/readyz").await.unwrap();
    assert!(ready.to_string().contains("\"durable\""), "{ready}");
}

async fn all_are_there(client: &Client, acknowledged: &[String]) {
    for key in acknowledged {
        match client.operation("payments", key).effect(Effect::Irreversible).begin().await.unwrap() {
            Begun::Replay(replay) => assert_eq!(replay.outcome.body.as_deref(), Some(&*format!("answer of {key}"))),
            other @ (Begun::Execute(_) | Begun::JoinedFailure(_)) => panic!("{key} was acknowledged and is {other:?}"),
        }
    }
}

/// Killed and restarted: acknowledged answers are there, live work is in doubt or open by its class, the chain verifies.
#[tokio::test(flavor = "multi_thread")]
async fn killed_again_and_again_it_forgets_nothing_acknowledged() {
    let dir = Dir::new();
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..6 {
        let daemon = Daemon::start(&dir.0, &[]);
        let client = daemon.client();
        all_are_there(&client, &acknowledged).await;
        // Begun and left alone: what may be run twice opens with its lease, what may not is in doubt.
        for (kind, effect) in [("unsafe", Effect::Irreversible), ("pure", Effect::Pure)] {
            let lease = std::time::Duration::from_millis(1);
            let call = client.operation(kind, format!("{kind}-{round}")).effect(effect).lease(lease);
            assert!(matches!(call.begin().await.unwrap(), Begun::Execute(_)));
        }
        // Many at once, killed in the middle.
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..200 {
            let (client, key) = (client.clone(), format!("{round}-{number}"));
            calls.spawn(async move {
                let call = client.operation("payments", &key).effect(Effect::Irreversible);
                let Ok(Begun::Execute(ticket)) = call.begin().await else { return None };
                let outcome = Outcome::text(format!("answer of {key}"));
                client.complete(&ticket, &outcome).await.ok().map(|_| key)
            });
        }
        let mut this_round = 0;
        while let Some(done) = calls.join_next().await {
            if let Some(key) = done.unwrap() {
                acknowledged.push(key);
                this_round += 1;
            }
            if this_round == 60 {
                break;
            }
        }
        daemon.kill();
        while let Some(done) = calls.join_next().await {
            acknowledged.extend(done.unwrap());
        }
        let checked = run(&dir.0, &["audit", "verify", "--json"]);
        assert!(checked.status.success(), "{}", said(&checked));
    }
    let daemon = Daemon::start(&dir.0, &[]);
    all_are_there(&daemon.client(), &acknowledged).await;
    daemon.kill();
    // Page by page, to the end: a place in the list holds from one process to the next.
    let (mut of_unsafe, mut cursor) = (0, None::<String>);
    loop {
        let mut words = vec!["doubt", "list", "--limit", "25", "--json"];
        words.extend(cursor.as_deref().map(|cursor| ["--cursor", cursor]).iter().flatten());
        let page = json(&dir.0, &words);
        of_unsafe += page["items"].as_array().unwrap().iter().filter(|item| item["surface"] == "unsafe").count();
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(of_unsafe, 6);
    let pure = json(&dir.0, &["op", "list", "--surface", "pure", "--limit", "200", "--json"]);
    let pure: Vec<&Value> = pure["items"].as_array().unwrap().iter().map(|item| &item["state"]).collect();
    assert_eq!(pure, ["open"; 6]);
    assert!(acknowledged.len() >= 360);
}

/// Every command through the running process, and again by opening the ledger: the same answers.
#[test]
fn commands_reach_the_running_process_and_work_without_one() {
    let dir = Dir::new();
    let daemon = Daemon::start(&dir.0, &[]);
    let begun = json(
        &dir.0,
        &["op", "begin", "payments", "order-17", "--effect", "irreversible", "--tenant", "acme", "--json"],
    );
    let (operation, token) = (begun["operation"].as_str().unwrap(), begun["token"].as_str().unwrap());
    let again = run(&dir.0, &["op", "begin", "payments", "order-17", "--wait-ms", "0", "--tenant", "acme"]);
    assert_eq!(again.status.code(), Some(4), "{}", said(&again));
    let failed = run(&dir.0, &["op", "fail", operation, token, "--unknown", "--tenant", "acme"]);
    assert!(failed.status.success(), "{}", said(&failed));
    let again = run(&dir.0, &["op", "begin", "payments", "order-17", "--tenant", "acme"]);
    assert_eq!(again.status.code(), Some(6), "{}", said(&again));
    let told = said(&run(&dir.0, &["explain", operation]));
    assert!(told.contains("Do not send it under a new key") && told.contains("could not say"), "{told}");
    let by_key = said(&run(&dir.0, &["explain", "order-17", "--tenant", "acme", "--surface", "payments"]));
    assert!(by_key.contains(operation), "{by_key}");
    let strangers = run(&dir.0, &["explain", "order-17", "--tenant", "globex", "--surface", "payments"]);
    assert_eq!(strangers.status.code(), Some(7), "{}", said(&strangers));
    let in_use = run(&dir.0, &["ledger", "check", "hapax-data"]);
    assert_eq!(in_use.status.code(), Some(1), "{}", said(&in_use));
    daemon.kill();

    let listed = said(&run(&dir.0, &["doubt", "list"]));
    assert!(listed.contains(operation) && listed.contains("acme"), "{listed}");
    let resolved =
        run(&dir.0, &["doubt", "resolve", operation, "committed", "--reason", "seen at the bank", "--body", "paid"]);
    assert!(resolved.status.success(), "{}", said(&resolved));
    let replay = json(&dir.0, &["op", "begin", "payments", "order-17", "--tenant", "acme", "--json"]);
    assert_eq!(replay["outcome"]["body"], "paid");
    let tail = said(&run(&dir.0, &["audit", "tail"]));
    assert!(tail.contains("resolve") && tail.contains("seen at the bank"), "{tail}");
    let whole = run(&dir.0, &["ledger", "check"]);
    assert!(whole.status.success(), "{}", said(&whole));
    // One byte of the audit log is changed: it is named, and the daemon does not go on as if nothing were.
    let log = dir.0.join("hapax-data/audit.log");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replace("seen at the bank", "seen at the bunk")).unwrap();
    let verified = run(&dir.0, &["audit", "verify"]);
    assert_eq!(verified.status.code(), Some(8), "{}", said(&verified));
    assert!(said(&verified).contains("the row does not match its hash"), "{}", said(&verified));
    let refused = run(&dir.0, &["serve", "--listen", "127.0.0.1:0", "--admin", "off"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("HX0082"), "{}", said(&refused));
}

/// A variable for a daemon elsewhere is in the environment of most shells that have one: local commands work there too,
/// a flag wins over a variable, and what cannot both be meant is refused.
#[test]
fn flags_win_over_variables_and_a_key_without_a_daemon_is_no_hindrance() {
    let dir = Dir::new();
    std::fs::create_dir(dir.0.join("hapax-data")).unwrap();
    std::fs::write(dir.0.join("hapax.toml"), "[surface.payments]\nlease = \"5s\"\n").unwrap();
    let with = |words: &[&str], variables: &[(&str, &str)]| {
        hapax(&dir.0).args(words).envs(variables.iter().copied()).output().unwrap()
    };
    let list = ["op", "list", "--json"];
    let key = ("HAPAX_API_KEY", "hx_of_a_daemon_elsewhere");
    assert!(with(&list, &[key]).status.success());
    let nowhere = ("HAPAX_URL", "http://127.0.0.1:1");
    let elsewhere = with(&list, &[key, nowhere]);
    assert_eq!(elsewhere.status.code(), Some(1), "{}", said(&elsewhere));
    assert!(said(&elsewhere).contains("http://127.0.0.1:1") && said(&elsewhere).contains("hapax serve"));
    let here = with(&["op", "list", "--data", "hapax-data"], &[key, nowhere]);
    assert!(here.status.success() && said(&here).contains("in hapax-data"), "{}", said(&here));
    let both = with(&list, &[nowhere, ("HAPAX_DATA", "hapax-data")]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
    let both = run(&dir.0, &["op", "list", "--data", "hapax-data", "--url", "http://127.0.0.1:1"]);
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
    let tls = run(&dir.0, &["op", "list", "--url", "https://127.0.0.1:1"]);
    assert!(said(&tls).contains("reached at https://127.0.0.1:1"), "{}", said(&tls));
    // Without a daemon, the policies are still those of the file; and what lapsed is read as lapsed, but nobody sweeps.
    let begun = json(&dir.0, &["op", "begin", "payments", "k", "--effect", "irreversible", "--json"]);
    assert_eq!(begun["lease_ms"], 5_000);
    let quick = ["op", "begin", "payments", "l", "--effect", "irreversible", "--lease-ms", "1", "--json"];
    let quick = json(&dir.0, &quick);
    let id = quick["operation"].as_str().unwrap();
    for _ in 0..3 {
        let known = json(&dir.0, &["explain", id, "--json"]);
        assert_eq!((&known["state"], &known["version"]), (&Value::from("in_doubt"), &quick["fence"]), "{known}");
    }
    let listed = said(&run(&dir.0, &["doubt", "list"]));
    assert!(listed.contains("ago)") && listed.contains("local (uid ") && listed.contains("doubt resolve"), "{listed}");
    // What a verb does not take is refused, and not dropped.
    let dropped = run(&dir.0, &["op", "renew", id, quick["token"].as_str().unwrap(), "--body", "x"]);
    assert_eq!(dropped.status.code(), Some(2), "{}", said(&dropped));
    // At the tenants' door another tenant cannot be named.
    let daemon = Daemon::start(&dir.0, &[]);
    let named = run(&dir.0, &["op", "list", "--url", &daemon.url, "--tenant", "acme"]);
    assert_eq!(named.status.code(), Some(10), "{}", said(&named));
    let tail = said(&run(&dir.0, &["audit", "tail"]));
    assert!(tail.contains("Z  local (uid ") && tail.contains("step: begin") && !tail.contains('{'), "{tail}");
    daemon.kill();
}

/// A daemon that must not start says so before it says anything else, and leaves no row as if it had.
#[test]
fn a_daemon_that_would_be_open_to_all_does_not_start() {
    let dir = Dir::new();
    let open = run(&dir.0, &["serve", "--listen", "0.0.0.0:0", "--admin", "off"]);
    assert!(said(&open).contains("HX0080") && !said(&open).contains("hapax serve on"), "{}", said(&open));
    assert!(!dir.0.join("hapax-data").exists(), "nothing was begun");
}

/// Whatever a caller sends, it is not found again where others can read: log, metrics, errors, page, audit log.
#[tokio::test(flavor = "multi_thread")]
async fn a_planted_secret_appears_nowhere() {
    let dir = Dir::new();
    let daemon = Daemon::start(&dir.0, &["--log-format", "json"]);
    let client = daemon.client();
    let secret = "PLANTED-7f3a9c";
    let mut seen = String::new();
    let call = client.operation("payments", format!("key-{secret}")).within("customer", secret);
    let call = call.request(&serde_json::json!({ "card": secret })).effect(Effect::Irreversible);
    let Begun::Execute(ticket) = call.clone().begin().await.unwrap() else { panic!("it is new") };
    let operation = ticket.operation.clone();
    for body in [
        format!("{{\"surface\":\"payments\",\"key\":\"{secret} with a blank\"}}"),
        format!("{{\"surface\":\"payments\",\"key\":\"{secret}\",\"effect\":\"{secret}\"}}"),
        format!("{{\"surface\":\"payments\",\"key\":\"{secret}\",\"nonce\":\"{secret}\"}}"),
        format!("{{\"surface\":\"payments\",\"key\":\"{secret}\",\"lease_ms\":\"{secret}\"}}"),
        format!("{{\"surface\":\"payments\",\"key\":\"{secret}\" {secret}"),
    ] {
        let (status, answer) =
            client.raw("POST".parse().unwrap(), "/v1/operations:begin", body.as_bytes()).await.unwrap();
        assert_eq!(status, 400);
        seen.push_str(&String::from_utf8_lossy(&answer));
    }
    let other = client.operation("payments", format!("key-{secret}")).within("customer", secret).request(&secret);
    seen.push_str(&other.begin().await.unwrap_err().to_string());
    let outcome = Outcome { headers: vec![("x-session".to_owned(), secret.to_owned())], ..Outcome::text(secret) };
    client.complete(&ticket, &outcome).await.unwrap();
    let Begun::Replay(_) = call.begin().await.unwrap() else { panic!("it was completed") };
    for path in [
        "/metrics",
        "/",
        "/page/live",
        "/v1/operations",
        "/v1/policies",
        "/readyz",
        &format!("/page/operation?id={operation}"),
        &format!("/v1/operations/{operation}"),
    ] {
        let (status, page) = client.raw("GET".parse().unwrap(), path, &[]).await.unwrap();
        assert_eq!(status, 200, "{path}");
        seen.push_str(&String::from_utf8_lossy(&page));
    }
    seen.push_str(&daemon.hello.clone());
    seen.push_str(&daemon.kill());
    seen.push_str(&std::fs::read_to_string(dir.0.join("hapax-data/audit.log")).unwrap());
    assert!(seen.contains("idempotency_check") && seen.contains("key_hash"), "the log was read");
    assert!(!seen.contains(secret), "{}", &seen[seen.find(secret).unwrap_or(0).saturating_sub(200)..]);
}

/// With keys: a request without one is refused, `HUP` takes a key away at once, and the command line has a way in.
#[test]
fn keys_are_asked_for_and_can_be_taken_away() {
    let dir = Dir::new();
    let made = run(&dir.0, &["key", "new", "billing", "--tenant", "acme", "--role", "operator"]);
    let key = said(&made).lines().find_map(|line| line.split("once: ").nth(1).map(str::to_owned)).unwrap();
    let entry = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(!entry.contains(&key), "the file holds the hash only");
    std::fs::write(dir.0.join("keys.toml"), &entry).unwrap();
    let daemon = Daemon::start(&dir.0, &["--keys", "keys.toml"]);
    let url = daemon.url.clone();
    let without = run(&dir.0, &["op", "list", "--url", &url]);
    assert_eq!(without.status.code(), Some(10), "{}", said(&without));
    let with = ["op", "begin", "payments", "k", "--url", &url, "--api-key", &key];
    assert!(run(&dir.0, &with).status.success());
    let other = run(&dir.0, &["key", "new", "other", "--tenant", "acme"]);
    std::fs::write(dir.0.join("keys.toml"), &other.stdout).unwrap();
    let pid = daemon.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let list = ["op", "list", "--url", &url, "--api-key", &key];
    let refused = (0..200).any(|_| run(&dir.0, &list).status.code() == Some(10));
    assert!(refused, "the key was taken away");
    daemon.kill();
    let open = run(&dir.0, &["serve", "--listen", "0.0.0.0:0", "--admin", "off"]);
    assert!(said(&open).contains("HX0080"), "{}", said(&open));
}

/// Settings: where each came from, and a slip is an error.
#[test]
fn settings_say_where_they_came_from() {
    let dir = Dir::new();
    std::fs::write(dir.0.join("hapax.toml"), "[server]\nlog = \"warn\"\n[surface.payments]\nlease = \"5s\"\n").unwrap();
    let shown =
        hapax(&dir.0).args(["config", "show", "--listen", "127.0.0.1:9"]).env("HAPAX_READERS", "7").output().unwrap();
    let shown = said(&shown);
    for expected in
        ["flag, --listen", "environment, HAPAX_READERS", "file, hapax.toml, [server]", "default", "payments"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let checked = run(&dir.0, &["policy", "check", "hapax.toml"]);
    assert!(checked.status.success(), "{}", said(&checked));
    std::fs::write(dir.0.join("new.toml"), "[surface.payments]\nlease = \"6s\"\n").unwrap();
    let differs = run(&dir.0, &["policy", "diff", "new.toml", "hapax.toml"]);
    assert_eq!(differs.status.code(), Some(9));
    assert!(said(&differs).contains("6s"), "{}", said(&differs));
    std::fs::write(dir.0.join("hapax.toml"), "[server]\nlgo = \"warn\"\n").unwrap();
    let slip = run(&dir.0, &["serve"]);
    assert_eq!(slip.status.code(), Some(2));
    assert!(said(&slip).contains("did you mean `log`"), "{}", said(&slip));
    assert!(run(&dir.0, &["completions", "bash"]).status.success());
}

/// The queue's scheduler by its variables: it requeues what its worker left behind, says so in the audit log, and a variable
/// that cannot be used stops the start.
#[test]
fn the_retry_scheduler_is_set_up_by_its_variables() {
    let dir = Dir::new();
    for (variable, value, words) in [
        ("HAPAX_A2A_AUTO_RETRY_INTERVAL_MS", "soon", "HAPAX_A2A_AUTO_RETRY_INTERVAL_MS"),
        ("HAPAX_A2A_AUTO_RETRY_INTERVALL_MS", "100", "a2a_auto_retry_interval_ms"),
    ] {
        let mut command = hapax(&dir.0);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.env("HAPAX_A2A_AUTO_RETRY_SCHEDULER", "1").env(variable, value);
        let output = command.output().unwrap();
        assert!(!output.status.success() && said(&output).contains(words), "{}", said(&output));
    }
    let mut command = hapax(&dir.0);
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    for (name, value) in [
        ("SCHEDULER", "1"),
        ("INTERVAL_MS", "100"),
        ("MIN_LEASE_AGE_MS", "300"),
        ("CAPABILITIES", "a2a.repair.requeue"),
    ] {
        command.env(format!("HAPAX_A2A_AUTO_RETRY_{name}"), value);
    }
    let daemon = Daemon::of(command, "admin     ");
    let sent = ["a2a", "send", "indexer", "index", "--payload", "{}", "--key", "page-7", "--as", "planner"];
    assert!(run(&dir.0, &sent).status.success());
    let lease = ["a2a", "lease", "--as", "indexer", "--lease-ms", "200", "--json"];
    let first = json(&dir.0, &lease);
    assert!(first.to_string().contains("page-7"), "{first}");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let again = json(&dir.0, &lease);
        if again.to_string().contains("page-7") {
            assert_ne!(again, first);
            break;
        }
        assert!(std::time::Instant::now() < until, "never requeued");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let rows = said(&run(&dir.0, &["audit", "tail", "--limit", "100"]));
    for row in ["a2a_auto_retry_scheduler_scan", "auto_requeue"] {
        assert!(rows.contains(row), "{rows}");
    }
    daemon.kill();
}
