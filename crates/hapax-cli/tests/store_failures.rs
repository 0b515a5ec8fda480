//! A store that fails while requests come: their callers are told to come again, and whoever runs the store is told why.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use hapax_testkit::Redis;

use crate::support::{Conn, Daemon, Dir, Reply, Start, Upstream, post, request, until};

const CALLERS: usize = 30;

/// Durable, and behind a password that must not be seen.
fn guarded() -> (Redis, String) {
    let redis = Redis::durable_with(&["--requirepass", "hush"]);
    let url = format!("redis://:hush@127.0.0.1:{}/", redis.port());
    (redis, url)
}

/// Each is refused, and not told why.
fn all_refused(gateway: SocketAddr, redis: &Redis) {
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            scope.spawn(move || {
                let refused = post(gateway, "/charges", &format!("order-{caller}"), "{}");
                assert_eq!(refused.status, 503, "{}", refused.text());
                assert!(!refused.text().contains(&redis.port().to_string()), "{}", refused.text());
            });
        }
    });
}

fn of_the_store(said: Vec<String>) -> Vec<String> {
    said.into_iter().filter(|line| line.contains("store_failed")).collect()
}

/// Server, call and next step, and nothing that others must not know.
fn says_what_an_operator_needs(line: &str, redis: &Redis) {
    let server = format!("redis://127.0.0.1:{}/", redis.port());
    for word in [server.as_str(), "check that it runs", "HX0008"] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert!(["`get`", "`swap`", "`usage`", "`changes`", "`scan`"].iter().any(|call| line.contains(call)), "{line}");
    assert!(!line.contains("hush") && !line.contains("order-"), "{line}");
}

/// Redis is gone, every charge is answered with 503, and the terminal of the gateway shows its greeting: its operator would look for
/// the mistake everywhere else. The log says which server did not do what, once a second however many ask, and how many it has
/// left out.
#[test]
fn a_gateway_whose_store_is_gone_says_so_in_its_log() {
    let ((mut redis, url), upstream, dir) = (guarded(), Upstream::counting(), Dir::new());
    let gateway = Start::at(&dir).upstream(upstream.address).env("HAPAX_STORE", &url).go();
    assert_eq!(post(gateway.address, "/charges", "order-before", "{}").status, 201);
    assert!(of_the_store(gateway.said()).is_empty(), "{:?}", gateway.said());

    redis.kill();
    let begun = Instant::now();
    all_refused(gateway.address, &redis);
    let counted = || {
        let left_out = |line: &String| line.rsplit_once("left_out=").unwrap().1.parse::<usize>().unwrap();
        of_the_store(gateway.said()).iter().map(|line| 1 + left_out(line)).sum::<usize>()
    };
    until("every failure to be counted", || counted() >= CALLERS);
    let (lines, most) = (of_the_store(gateway.said()), begun.elapsed().as_secs() + 1);
    assert_eq!(counted(), CALLERS, "{lines:?}");
    assert!(lines.len() as u64 <= most, "{} lines within {most} s: {lines:?}", lines.len());
    for line in &lines {
        says_what_an_operator_needs(line, &redis);
    }
    assert!(!gateway.said().join("\n").contains("hush"), "{:?}", gateway.said());
    assert_eq!(upstream.count(), 1);
}

/// The charge was made, and then there was nowhere to write that it was: of all failures the one that an operator has to hear of.
#[test]
fn an_answer_that_could_not_be_recorded_is_in_the_log() {
    let ((mut redis, url), dir) = (guarded(), Dir::new());
    let upstream = Upstream::new(|_, _, _| {
        thread::sleep(Duration::from_secs(1));
        Reply::json(201, "{}")
    });
    let gateway = Start::at(&dir).upstream(upstream.address).env("HAPAX_STORE", &url).go();
    let address = gateway.address;
    let charge = thread::spawn(move || post(address, "/charges", "order-1", "{}"));
    until("the charge to be under way", || upstream.count() == 1);
    redis.kill();
    let answer = charge.join().unwrap();
    assert!(answer.status == 503 && answer.says("the request was run"), "{}", answer.text());
    gateway.wait_for("store_failed");
    says_what_an_operator_needs(&of_the_store(gateway.said())[0], &redis);
}

/// The charge was made, the store was gone, and now the gateway is told to stop: it knows what nobody else knows, and waits until it has
/// been able to say it.
#[test]
fn a_gateway_that_stops_brings_home_what_the_store_could_not_take() {
    let ((mut redis, url), dir) = (guarded(), Dir::new());
    let upstream = Upstream::new(|_, number, _| {
        thread::sleep(Duration::from_millis(500));
        Reply::json(201, &format!("{{\"charge\":{number}}}"))
    });
    let start = || Start::at(&dir).upstream(upstream.address).env("HAPAX_STORE", &url).go();
    let gateway = start();
    let address = gateway.address;
    let charge = thread::spawn(move || post(address, "/charges", "order-1", "{}"));
    until("the charge to be under way", || upstream.count() == 1);
    redis.kill();
    assert_eq!(charge.join().unwrap().status, 503);
    gateway.signal("TERM");
    gateway.wait_for("stopping");
    thread::sleep(Duration::from_millis(500));
    redis.restart();
    assert_eq!(gateway.wait().code(), Some(0));
    let again = post(start().address, "/charges", "order-1", "{}");
    assert_eq!((again.status, again.is_replay(), again.text().as_str()), (201, true, "{\"charge\":0}"));
    assert_eq!(upstream.count(), 1);
}

/// The same beside the daemon, in the form in which the rest of its log is.
#[test]
fn gateway_routes_of_a_daemon_say_it_in_the_daemons_log() {
    let ((mut redis, url), upstream, dir) = (guarded(), Upstream::counting(), Dir::new());
    let gateway = format!("[gateway]\nupstream = \"http://{}\"\nlisten = \"127.0.0.1:0\"\n", upstream.address);
    dir.write("hapax.toml", &format!("{gateway}[server]\nlog_format = \"json\"\n"));
    let daemon = Daemon::start_with(&dir, &[], &[("HAPAX_STORE", &url)]);
    let gateway = daemon.url("gateway").unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    assert_eq!(post(gateway, "/charges", "order-before", "{}").status, 201);

    redis.kill();
    all_refused(gateway, &redis);
    until("the log to say so", || !of_the_store(daemon.said()).is_empty());
    let line: serde_json::Value = serde_json::from_str(&of_the_store(daemon.said())[0]).unwrap();
    assert_eq!((&line["event"], &line["level"]), (&"store_failed".into(), &"warn".into()), "{line}");
    says_what_an_operator_needs(&line["error"].to_string(), &redis);
    assert!(!daemon.said().join("\n").contains("hush"), "{:?}", daemon.said());
}

/// Whatever is asked of the daemon: a begin, a list, one operation, the page, a change that our own layer guards.
#[test]
fn a_daemon_whose_store_is_gone_says_so_whatever_was_asked() {
    let operation = "00".repeat(32);
    let guarded_change = [("Idempotency-Key", "order-1"), ("Content-Type", "application/json")];
    let requests = [
        request(
            "POST",
            "/v1/operations:begin",
            &[("Content-Type", "application/json")],
            r#"{"surface":"pay","key":"order-1"}"#,
        ),
        request("GET", "/v1/operations", &[], ""),
        request("GET", &format!("/v1/operations/{operation}"), &[], ""),
        request("GET", "/", &[], ""),
        request(
            "POST",
            &format!("/v1/operations/{operation}:resolve"),
            &guarded_change,
            r#"{"version":1,"resolution":"committed","reason":"seen"}"#,
        ),
    ];
    let ((mut redis, url), dir) = (guarded(), Dir::new());
    let daemon = Daemon::start_with(&dir, &[], &[("HAPAX_STORE", &url)]);
    let address = daemon.url("hapax serve on").unwrap().strip_prefix("http://").unwrap().parse().unwrap();
    redis.kill();
    for asked in requests {
        let before = of_the_store(daemon.said()).len();
        let answer = Conn::to(address).send(asked.replace("shop.example", "127.0.0.1")).answer();
        assert_eq!(answer.status, 503, "{asked}\n{}", answer.text());
        assert!(!answer.text().contains(&redis.port().to_string()), "{}", answer.text());
        until("the log to say so", || of_the_store(daemon.said()).len() > before);
        says_what_an_operator_needs(of_the_store(daemon.said()).last().unwrap(), &redis);
        // A second later there may be another line.
        thread::sleep(Duration::from_millis(1_100));
    }
    assert!(!daemon.said().join("\n").contains("hush"), "{:?}", daemon.said());
}
