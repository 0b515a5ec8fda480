//! Several processes on one store, as their users run them: real processes, real servers.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    path::Path,
    process::{Command, Output},
    thread,
    time::Duration,
};

use crate::support::{
    Answer, Daemon, Dir, Gateway, Reply, Start, Upstream, get, post,
    stores::{ROWS, Row},
    until,
};
use hapax_testkit::{Nats, Postgres, Redis};

fn slow_charges() -> Upstream {
    Upstream::new(|_, number, _| {
        thread::sleep(Duration::from_millis(300));
        let headers = [("Content-Type", "application/json"), ("Location", "/charges/1")];
        Reply::with(201, &headers, &format!("{{\"n\":{number}}}"))
    })
}

fn gateway(dir: &Dir, upstream: &Upstream, store: &str) -> Gateway {
    Start::at(dir).upstream(upstream.address).env("HAPAX_STORE", store).go()
}

/// With what the row needs to carry a charge.
fn gateway_of(row: &Row, dir: &Dir, upstream: &Upstream, store: &str) -> Gateway {
    Start::at(dir).upstream(upstream.address).env("HAPAX_STORE", store).file(row.policy).go()
}

/// Every process has the secret of the first.
fn share_secret(from: &Dir, to: &Dir) {
    let (from, to) = (from.path().join("hapax-data"), to.path().join("hapax-data"));
    std::fs::create_dir_all(&to).unwrap();
    std::fs::copy(from.join("secret"), to.join("secret")).unwrap();
}

fn hapax(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command.current_dir(dir).args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Ten clicks on *pay*, spread by a balancer over two machines: one charge, ten receipts that are the same.
fn ten_over_two(row: &Row) {
    let server = (row.sound)();
    let upstream = slow_charges();
    let (first_dir, second_dir) = (Dir::new(), Dir::new());
    let first = gateway_of(row, &first_dir, &upstream, &server.url());
    share_secret(&first_dir, &second_dir);
    let second = gateway_of(row, &second_dir, &upstream, &server.url());
    assert!(first.said().iter().any(|line| line.contains(row.promises)), "{}: {:?}", row.name, first.said());
    let addresses = [first.address, second.address];
    for round in 0..3 {
        let clients: Vec<_> = (0..10)
            .map(|client| {
                let (address, key) = (addresses[client % 2], format!("key-{round}"));
                thread::spawn(move || post(address, "/charges", &key, "{\"amount\":1}"))
            })
            .collect();
        let answers: Vec<Answer> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert_eq!(upstream.count(), round + 1, "{}", row.name);
        for answer in &answers {
            let expected = (201, format!("{{\"n\":{round}}}"));
            assert_eq!((answer.status, answer.text()), expected, "{}", row.name);
            assert_eq!(answer.header("location"), Some("/charges/1"));
            assert_eq!(answer.header("content-type"), Some("application/json"));
        }
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1, "{}", row.name);
    }
    // The one that ran it is gone; the other knows all the same.
    first.kill();
    for round in 0..3 {
        let again = post(second.address, "/charges", &format!("key-{round}"), "{\"amount\":1}");
        assert!(again.is_replay() && again.text() == format!("{{\"n\":{round}}}"), "{}", row.name);
        assert_eq!(post(second.address, "/charges", &format!("key-{round}"), "{\"amount\":2}").status, 422);
    }
    assert_eq!(upstream.count(), 3, "{}", row.name);
}

#[test]
fn ten_at_once_over_two_gateways_on_one_redis_cause_one_call() {
    ten_over_two(&ROWS[0]);
}

#[test]
fn ten_at_once_over_two_gateways_on_one_postgres_cause_one_call() {
    ten_over_two(&ROWS[1]);
}

#[test]
fn ten_at_once_over_two_gateways_on_one_nats_cause_one_call() {
    ten_over_two(&ROWS[2]);
}

/// Two gateways with secrets of their own make two tenants of one customer: the same key would charge twice. The second
/// does not start.
#[test]
fn a_gateway_with_another_secret_does_not_start() {
    for row in &ROWS {
        let server = (row.sound)();
        let upstream = Upstream::counting();
        let (first, second) = (Dir::new(), Dir::new());
        let running = gateway_of(row, &first, &upstream, &server.url());
        let (code, said) = Start::at(&second).upstream(upstream.address).arg("--store", server.url()).fails();
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("HX0133") && said.contains("another secret"), "{}: {said}", row.name);
        drop(running);
        share_secret(&first, &second);
        drop(gateway_of(row, &second, &upstream, &server.url()));
    }
}

/// A gateway beside the daemon, both on one Redis and both started where their owner happened to be: two processes would
/// write into one audit log, which then proves nothing, and the later would take away the socket of the earlier. The second
/// is refused and told what it needs; with a directory of its own it starts.
#[test]
fn a_gateway_in_the_directory_of_a_daemon_breaks_no_audit_chain() {
    let (server, upstream, dir) = ((ROWS[0].sound)(), Upstream::counting(), Dir::new());
    let url = server.url();
    let daemon = Daemon::start(&dir, &["--store", &url]);
    let (code, told) = Start::at(&dir).upstream(upstream.address).arg("--store", &url).fails();
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("HX0135") && told.contains("--data") && told.contains("`secret`"), "{told}");
    let reached = hapax(dir.path(), &["doubt", "list", "--store", &url]);
    assert!(reached.status.success() && said(&reached).contains("the process that runs there"), "{}", said(&reached));

    std::fs::create_dir(dir.path().join("beside")).unwrap();
    std::fs::copy(dir.path().join("hapax-data/secret"), dir.path().join("beside/secret")).unwrap();
    let start = Start::at(&dir).upstream(upstream.address).arg("--store", &url).arg("--data", "beside");
    let gateway = start.go();
    assert_eq!(post(gateway.address, "/charges", "k1", "{}").status, 201);
    // The other way round the daemon is the one that is refused.
    let output = Daemon::command(&dir, &["--store", &url, "--data", "beside"]).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("HX0135"), "{}", said(&output));
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    drop(daemon);
    for log in ["hapax-data", "beside"] {
        let whole = hapax(dir.path(), &["audit", "verify", log]);
        assert!(whole.status.success() && said(&whole).contains("whole"), "{log}: {}", said(&whole));
    }
}

/// A store that evicts, or acknowledges before it syncs, forgets charges. What it lacks is said at the start, nothing
/// that does harm twice runs there, and whoever demands more does not start.
#[test]
fn what_may_be_forgotten_is_said_at_the_start_and_refused() {
    for row in &ROWS {
        let (server, word) = (row.forgetful)();
        let (upstream, dir) = (Upstream::counting(), Dir::new());
        let strict = Start::at(&dir).upstream(upstream.address).arg("--store", server.url());
        let (code, said) = strict.arg("--durability", "durable").fails();
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("HX0009") && said.contains(word), "{}: {said}", row.name);

        let lax = gateway(&dir, &upstream, &server.url());
        let said = lax.said().join("\n");
        assert!(said.contains("best effort") && said.contains(word), "{}: {said}", row.name);
        lax.wait_for("HX0134");
        let refused = post(lax.address, "/charges", "k1", "{}");
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert!(refused.says("HX0134") && upstream.count() == 0, "{}", refused.text());
        drop(lax);

        let start = Start::at(&dir).upstream(upstream.address).env("HAPAX_STORE", &server.url());
        let allowed = start.file("[default]\nbest_effort = [\"unsafe\"]\n").go();
        assert!(!allowed.said().join("\n").contains("HX0134"), "{:?}", allowed.said());
        assert_eq!(post(allowed.address, "/charges", "k1", "{}").status, 201);
        assert!(post(allowed.address, "/charges", "k1", "{}").is_replay());
        assert_eq!(upstream.count(), 1, "{}", row.name);
    }
}

/// A Redis that was durable at the start is set up anew while we run, or gets a replica back that a fail-over would go to.
/// What it acknowledges may be forgotten from then on: readiness says so, and nothing that does harm twice runs there.
#[test]
fn a_promise_that_is_broken_while_we_run_is_noticed() {
    let (redis, dir, upstream) = (Redis::start(), Dir::new(), Upstream::counting());
    dir.write(
        "hapax.toml",
        &format!("[gateway]\nupstream = \"http://{}\"\nlisten = \"127.0.0.1:0\"\n", upstream.address),
    );
    let url = redis.url();
    let daemon = Daemon::start(&dir, &["--store", &url, "--durability", "durable"]);
    let place = |line: &str| daemon.url(line).unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    let (public, gateway): (std::net::SocketAddr, std::net::SocketAddr) = (place("hapax serve on"), place("gateway"));
    let ready = || get(public, "/readyz");
    assert_eq!((ready().status, post(gateway, "/charges", "k1", "{}").status), (200, 201));

    for (setting, broken, kept) in [
        ("appendfsync", "everysec", "always"),
        ("no-appendfsync-on-rewrite", "yes", "no"),
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
    ] {
        assert!(redis.say(&format!("CONFIG SET {setting} {broken}")).starts_with("+OK"));
        until("the broken promise to be seen", || ready().status == 503);
        assert!(ready().text().contains("HX0009"), "{setting}: {}", ready().text());
        let refused = post(gateway, "/charges", setting, "{}");
        assert!(refused.status == 503 && refused.says("HX0134"), "{setting}: {}", refused.text());
        assert!(post(gateway, "/charges", "k1", "{}").is_replay(), "what is known is still told");
        assert!(redis.say(&format!("CONFIG SET {setting} {kept}")).starts_with("+OK"));
        until("the promise to be kept again", || ready().status == 200);
        assert_eq!(post(gateway, "/charges", setting, "{}").status, 201, "{setting}");
    }
    assert_eq!(upstream.count(), 4);
}

/// The file names one store for the gateway and the variable another for the daemon: which is which is said without the password
/// that stands in one of them.
#[test]
fn two_stores_in_one_process_are_refused_without_showing_a_password() {
    let (redis, dir) = (Redis::with(&["--requirepass", "hush", "--save", ""]), Dir::new());
    let other = "redis://:whisper@127.0.0.1:1/";
    dir.write("hapax.toml", &format!("[gateway]\nupstream = \"http://127.0.0.1:1\"\nstore = \"{other}\"\n"));
    let url = format!("redis://:hush@127.0.0.1:{}/", redis.port());
    let refused = Daemon::command(&dir, &[]).env("HAPAX_STORE", &url).output().unwrap();
    let told = said(&refused);
    assert!(!refused.status.success() && told.contains("one process has one store"), "{told}");
    assert!(!told.contains("hush") && !told.contains("whisper"), "{told}");
}

/// Nobody asks at `/readyz`: the sweeper does, and a begin after the server was away.
#[test]
fn a_server_that_comes_back_with_another_file_is_asked_again() {
    let (mut redis, dir, upstream) = (Redis::start(), Dir::new(), Upstream::counting());
    let gateway = gateway(&dir, &upstream, &redis.url());
    assert_eq!(post(gateway.address, "/charges", "k1", "{}").status, 201);
    redis.kill();
    assert_eq!(post(gateway.address, "/charges", "k2", "{}").status, 503, "it is away");
    redis.restart();
    assert!(redis.say("CONFIG SET appendfsync no").starts_with("+OK"));
    until("it to be asked", || post(gateway.address, "/charges", "k3", "{}").says("HX0134"));
    assert_eq!(upstream.count(), 1, "nothing ran on a server that forgets");
}

/// The password of a store in a log is a password that everybody has.
#[test]
fn no_way_to_fail_shows_the_password() {
    let redis = Redis::with(&["--requirepass", "right", "--save", ""]);
    let postgres = Postgres::forgetful();
    let nats = Nats::with("authorization { user: app, password: right }");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let urls = [
        (format!("redis://:hush@127.0.0.1:{}/", redis.port()), "HX0131"),
        (format!("redis://:hush@{nobody}/"), "HX0131"),
        (format!("redis://:hush@127.0.0.1:{}/not-a-number", redis.port()), "HX0130"),
        ("redis://:hush@/".to_owned(), "HX0130"),
        (format!("postgres://postgres:hush@127.0.0.1:{}/nowhere", postgres.port()), "HX0131"),
        (format!("postgres://postgres:hush@{nobody}/postgres"), "HX0131"),
        (format!("postgres://postgres:hush@127.0.0.1:{}/postgres?nonsense=hush", postgres.port()), "HX0130"),
        (format!("postgres://postgres:first@hush@127.0.0.1:{}/postgres", postgres.port()), "HX0130"),
        (format!("nats://app:hush@127.0.0.1:{}", nats.port()), "HX0131"),
        (format!("nats://hush@{nobody}"), "HX0131"),
        (format!("nats://app:hush@127.0.0.1:{}/not a bucket", nats.port()), "HX0100"),
        (format!("nats://app:hush@127.0.0.1:{}/hapax?replicas=hush", nats.port()), "HX0100"),
        ("mysql://root:hush@127.0.0.1/".to_owned(), "HX0130"),
        ("hush".to_owned(), "HX0130"),
    ];
    let dir = Dir::new();
    crate::support::command::ledger(dir.path(), "old");
    assert!(hapax(dir.path(), &["export", "good.hapax", "--store", "file:old"]).status.success());
    for (url, code) in &urls {
        for words in [
            vec!["gateway", "--upstream", "http://127.0.0.1:1", "--store", url],
            vec!["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--store", url],
            vec!["doubt", "list", "--store", url],
            vec!["verify", "--store", url],
            vec!["bench", "--store", url, "--seconds", "1"],
            vec!["export", "all.hapax", "--store", url],
            vec!["import", "good.hapax", "--store", url],
        ] {
            let output = hapax(dir.path(), &words);
            let text = said(&output);
            assert!(!output.status.success() && text.contains(code), "{words:?}: {text}");
            // Part of a message is the server's name, which is where the URL says it is.
            assert!(!text.contains("hush") && !text.contains("right"), "{words:?}: {text}");
        }
        let shown = said(&hapax(dir.path(), &["config", "show", "--store", url]));
        assert!(!shown.contains("hush"), "{shown}");
    }
    let upstream = Upstream::counting();
    let right = format!("nats://app:right@127.0.0.1:{}", nats.port());
    let running = gateway(&Dir::new(), &upstream, &right);
    assert!(!running.said().join("\n").contains("right"), "{:?}", running.said());
    let right = format!("redis://:right@127.0.0.1:{}/", redis.port());
    let running = gateway(&dir, &upstream, &right);
    assert!(!running.said().join("\n").contains("right"), "{:?}", running.said());
    let measured = said(&hapax(dir.path(), &["bench", "--store", &right, "--seconds", "1"]));
    assert!(measured.contains("pairs@64") && !measured.contains("right"), "{measured}");
    for words in [
        &["gateway"][..],
        &["serve"],
        &["bench"],
        &["export"],
        &["import"],
        &["verify"],
        &["op", "list"],
        &["a2a", "status"],
        &["config", "show"],
    ] {
        let mut help = Command::new(env!("CARGO_BIN_EXE_hapax"));
        help.args(words).arg("--help").env("HAPAX_STORE", &right).env("HAPAX_UPSTREAM", "http://app:right@127.0.0.1:1");
        let help =
            help.env("HAPAX_URL", "http://app:right@127.0.0.1:1").env("HAPAX_API_KEY", "right").output().unwrap();
        assert!(help.status.success() && !said(&help).contains(":right@"), "{words:?}: {}", said(&help));
    }
}

/// What one process began, a command on another machine finds, explains and ends.
#[test]
fn commands_reach_a_shared_store_without_its_daemon() {
    for row in &ROWS {
        let server = (row.sound)();
        let (here, there) = (Dir::new(), Dir::new());
        let url = server.url();
        for dir in [&here, &there] {
            dir.write("hapax.toml", row.policy);
        }
        let begun = hapax(here.path(), &["op", "begin", "jobs", "k1", "--tenant", "acme", "--store", &url, "--json"]);
        assert!(begun.status.success(), "{}: {}", row.name, said(&begun));
        let begun: serde_json::Value = serde_json::from_slice(&begun.stdout).unwrap();
        let text = |name: &str| begun[name].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
        share_secret(&here, &there);
        let (operation, token) = (text("operation"), text("token"));
        let explained = hapax(there.path(), &["explain", &operation, "--tenant", "acme", "--store", &url]);
        assert!(said(&explained).contains("pending"), "{}: {}", row.name, said(&explained));
        let words = ["op", "complete", &operation, &token, "--tenant", "acme", "--body", "done", "--store", &url];
        let completed = hapax(there.path(), &words);
        assert!(completed.status.success(), "{}: {}", row.name, said(&completed));
        let explained = hapax(here.path(), &["explain", &operation, "--tenant", "acme", "--store", &url]);
        assert!(said(&explained).contains("committed"), "{}: {}", row.name, said(&explained));
    }
}

/// A server that is to be trusted with payments is tried first. It passes, is told apart from one that forgets, and is
/// left as it was.
#[test]
fn verify_says_what_a_server_may_promise_and_leaves_nothing_behind() {
    let (redis, postgres, nats) = (Redis::forgetful(), Postgres::forgetful(), Nats::start());
    let dir = Dir::new();
    let before = redis.say("DBSIZE");
    // Much of it is waiting, so all at once.
    let servers = [
        (redis.url(), "appendonly", ("full", 1)),
        (postgres.url(), "fsync", ("full", 1)),
        // Without groups and queues, of which it says so.
        (nats.url(), "sync_interval", ("basic", 4)),
    ];
    let running = servers.map(|(url, word, level)| {
        let path = dir.path().to_owned();
        let run = move || hapax(&path, &["verify", "--store", &url, "--histories", "5", "--json"]);
        (thread::spawn(run), word, level)
    });
    for (run, word, (level, most_left_out)) in running {
        let output = run.join().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&told["passed"], &told["erased"]), (&true.into(), &true.into()), "{told}");
        assert_eq!((&told["durability"], &told["level"]), (&"best_effort".into(), &level.into()), "{told}");
        assert!(told["promises"].to_string().contains("may be lost"), "{told}");
        assert!(told["reason"].as_str().unwrap().contains(word), "{told}");
        let left_out = told["checks"].as_array().unwrap().iter().filter(|check| check["verdict"] == "skipped");
        assert!(left_out.count() <= most_left_out, "{told}");
        let faults = told["checks"].as_array().unwrap().iter().filter(|check| check["verdict"] == "passed").count();
        assert!(faults > 50, "the contract and the faults were tried: {told}");
        assert_eq!(told["promises"].to_string().contains("level full"), level == "basic", "{told}");
        assert_eq!(told["live"]["woken"], "by_store", "{told}");
        assert!(told["promises"].to_string().contains("woken by the store, also from another process"), "{told}");
    }
    assert_eq!(redis.say("DBSIZE"), before);
    let schemas = postgres.say("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'hapax%'");
    assert_eq!(schemas.trim(), "0");
    let left: Vec<String> = nats.streams();
    assert!(left.is_empty(), "{left:?}");
    let strict = hapax(dir.path(), &["verify", "--store", &redis.url(), "--durability", "durable"]);
    assert_eq!(strict.status.code(), Some(1), "{}", said(&strict));
    assert!(said(&strict).contains("HX0009") && said(&strict).contains("appendonly"), "{}", said(&strict));
}

/// The address to listen at is out of reach, as behind a pooler: no wake-up comes through, and those who wait read again and
/// again. A store wakes those of its own process all the same, and so would pass for one that wakes everybody. The server is one
/// to use, only not one to be promised so much of; and a store of one process is not praised for what it does to others.
#[test]
fn verify_does_not_promise_wake_ups_that_come_from_the_clock() {
    let (postgres, dir) = (Postgres::forgetful(), Dir::new());
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let verify = |url: &str| {
        let output = hapax(dir.path(), &["verify", "--store", url, "--histories", "1", "--json"]);
        assert!(output.status.success(), "{}", said(&output));
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (told["live"]["woken"].clone(), told["promises"].to_string())
    };
    let deaf = format!("postgres://postgres@127.0.0.1:{}/postgres?listen={nobody}", postgres.port());
    let ((woken, promises), (woken_alone, promises_alone)) = thread::scope(|scope| {
        let alone = scope.spawn(|| verify("memory:"));
        (verify(&deaf), alone.join().unwrap())
    });
    assert_eq!(woken, "now_and_then", "{promises}");
    assert!(!promises.contains("woken by the store"), "{promises}");
    assert!(promises.contains("reading every so often") && promises.contains("?listen="), "{promises}");
    assert_eq!(woken_alone, "in_process", "{promises_alone}");
    assert!(promises_alone.contains("one process") && !promises_alone.contains("another process"), "{promises_alone}");
}

/// Two services share one server, each with names of its own that its URL says; what cannot be such a name is refused, and
/// the password with it stays where it is.
#[test]
fn a_store_url_carries_prefix_and_schema_and_where_to_listen() {
    let (redis, postgres) = (Redis::forgetful(), Postgres::forgetful());
    let dir = Dir::new();
    dir.write("hapax.toml", "[default]\nbest_effort = [\"unsafe\"]\n");
    let begin =
        |url: &str| hapax(dir.path(), &["op", "begin", "jobs", "k1", "--tenant", "acme", "--store", url, "--json"]);
    let place = format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port());
    // The same key is free under each name.
    for url in [
        format!("{}?prefix=shop:", redis.url()),
        format!("{}?prefix=bank/", redis.url()),
        redis.url(),
        format!("{place}?schema=shop"),
        format!("{place}?schema=bank-2&listen=127.0.0.1:{}", postgres.port()),
        place.clone(),
    ] {
        let first = begin(&url);
        assert!(first.status.success(), "{url}: {}", said(&first));
    }
    for prefix in ["shop:", "bank/", "hapax:"] {
        let count = redis.say(&format!("EVAL \"return #redis.call('KEYS', '{prefix}*')\" 0"));
        assert!(count.starts_with(':') && !count.starts_with(":0"), "{prefix}: {count}");
    }
    let schemas = postgres
        .say("SELECT string_agg(schemaname, ' ' ORDER BY schemaname) FROM pg_tables WHERE tablename = 'records'");
    assert_eq!(schemas.trim(), "bank-2 hapax shop");
    for url in [
        format!("redis://:hush@127.0.0.1:{}/?prefix=a{{hush}}", redis.port()),
        format!("redis://:hush@127.0.0.1:{}/?suffix=hush", redis.port()),
        format!("redis://:hush@127.0.0.1:{}/?sentinel=", redis.port()),
        format!("postgres://postgres:hush@127.0.0.1:{}/postgres?schema=pg_mine", postgres.port()),
        format!("postgres://postgres:hush@127.0.0.1:{}/postgres?listen=x@hush", postgres.port()),
    ] {
        let refused = begin(&url);
        let text = said(&refused);
        assert!(!refused.status.success() && text.contains("HX0130") && !text.contains("hush"), "{url}: {text}");
    }
}

/// A store across a network that others can read and change. Its certificate has to be vouched for, by the machine's roots or
/// by a file, and has to name the server; otherwise nothing is sent, least of all a password.
#[test]
fn a_store_by_tls_is_believed_only_with_a_certificate_that_is_vouched_for() {
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (_redis, port) = Redis::with_tls(&certificates);
    let postgres = Postgres::with_tls(&certificates);
    let dir = Dir::new();
    let ask = |url: &str, roots: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.current_dir(dir.path()).args(["doubt", "list", "--store", url]);
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
        command.envs(roots.map(|roots| ("SSL_CERT_FILE", roots)));
        command.output().unwrap()
    };
    let postgres_at =
        |host: &str, mode: &str| format!("postgres://postgres@{host}:{}/postgres?sslmode={mode}", postgres.port());
    let ours = certificates.join("ca.pem");
    for url in [
        format!("rediss://localhost:{port}/"),
        format!("rediss://127.0.0.1:{port}/"),
        postgres_at("localhost", "require"),
        postgres_at("127.0.0.1", "verify-full"),
    ] {
        let believed = ask(&url, Some(&ours));
        assert!(believed.status.success(), "{url}: {}", said(&believed));
        let stranger = ask(&url, None);
        assert!(!stranger.status.success() && said(&stranger).contains("HX01"), "{url}: {}", said(&stranger));
    }
    // Another name for the same machine, which the certificate does not know.
    for url in [format!("rediss://127.0.0.2:{port}/"), postgres_at("127.0.0.2", "require")] {
        let refused = ask(&url, Some(&ours));
        let text = said(&refused);
        assert!(!refused.status.success() && text.contains("HX0131") && text.contains("certificate"), "{url}: {text}");
    }
    // Who asks for TLS never gets a plain connection instead.
    let plain = Postgres::forgetful();
    let refused = ask(&format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=require", plain.port()), Some(&ours));
    assert!(!refused.status.success() && said(&refused).contains("HX0131"), "{}", said(&refused));
}
