//! One process that is daemon and gateway: one store, one page, one stop.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support;
use std::net::SocketAddr;

use crate::support::{Daemon, Dir, Reply, Upstream, get, post, until};

trait Place {
    fn place(&self, line: &str) -> Option<SocketAddr>;
}

impl Place for Daemon {
    fn place(&self, line: &str) -> Option<SocketAddr> {
        self.url(line)?.strip_prefix("http://")?.parse().ok()
    }
}

fn routes(upstream: SocketAddr) -> String {
    format!(
        "[gateway]\nupstream = \"http://{upstream}\"\nlisten = \"127.0.0.1:0\"\n\n[[route]]\nmatch = \"POST /pay\"\n\
         surface = \"payments\"\neffect = \"irreversible\"\n\n[surface.payments]\nsuccess = \"2h\"\n"
    )
}

/// What went through the gateway is on the daemon's lists, and outlives the process like everything else.
#[test]
fn a_request_through_the_gateway_is_in_the_daemons_store_and_survives_a_kill() {
    let upstream = Upstream::new(|_, number, _| Reply::json(201, &format!("{{\"n\":{number}}}")));
    let dir = Dir::new();
    dir.write("hapax.toml", &routes(upstream.address));
    let both = Daemon::start(&dir, &[]);
    let first = post(both.place("gateway").unwrap(), "/pay", "k1", "{\"amount\":1}");
    assert_eq!((first.status, first.is_replay()), (201, false), "{}", first.text());
    let listed = get_local(both.place("admin").unwrap(), "/v1/operations?surface=payments");
    assert!(listed.contains("\"state\":\"committed\"") && listed.contains("irreversible"), "{listed}");
    drop(both);
    let both = Daemon::start(&dir, &[]);
    let again = post(both.place("gateway").unwrap(), "/pay", "k1", "{\"amount\":1}");
    assert_eq!((again.status, again.is_replay(), again.text()), (201, true, first.text()));
    assert_eq!(upstream.count(), 1);
}

/// A dashboard that counts only what comes over the API shows an idle machine while the gateway beside it works.
#[test]
fn what_goes_through_the_gateway_is_counted_where_the_seeds_count_it() {
    let upstream = Upstream::new(|_, number, _| Reply::json(201, &format!("{{\"n\":{number}}}")));
    let dir = Dir::new();
    let chat = "[[route]]\nmatch = \"POST /chat\"\nsurface = \"chat\"\n[surface.chat]\nkey.source = [\"automatic\"]\n";
    dir.write(
        "hapax.toml",
        &routes(upstream.address).replace("[surface.payments]", &format!("{chat}\n[surface.payments]")),
    );
    let both = Daemon::start(&dir, &[]);
    let gateway = both.place("gateway").unwrap();
    assert!(!post(gateway, "/pay", "k1", "{\"amount\":1}").is_replay());
    assert!(post(gateway, "/pay", "k1", "{\"amount\":1}").is_replay());
    assert_eq!(post(gateway, "/pay", "k1", "{\"amount\":2}").status, 422);
    assert_eq!(post(gateway, "/chat", "ignored", "{\"text\":\"hello\"}").status, 201);
    let page = get_local(both.place("admin").unwrap(), "/metrics");
    for line in [
        "idempotency_check_total{status=\"processing_started\"} 2",
        "idempotency_check_total{status=\"duplicate_completed\"} 1",
        "idempotency_check_total{status=\"fingerprint_mismatch\"} 1",
        "idempotency_cache_hit_total 1",
        "idempotency_key_type_total{type=\"client_provided\"} 3",
        "idempotency_key_type_total{type=\"auto_generated\"} 1",
    ] {
        assert!(page.lines().any(|said| said == line), "no `{line}` in {page}");
    }
}

/// A HUP takes new routes, and refuses a file with a slip in it whole: keys, policies and routes.
#[test]
fn a_reload_takes_all_of_the_file_or_nothing_of_it() {
    let (one, other) = (Upstream::new(|_, _, _| Reply::json(200, "1")), Upstream::new(|_, _, _| Reply::json(200, "2")));
    let dir = Dir::new();
    dir.write("hapax.toml", &routes(one.address));
    let both = Daemon::start(&dir, &[]);
    let gateway = both.place("gateway").unwrap();
    let count = |words: &str| both.said().iter().filter(|line| line.contains(words)).count();
    dir.write("hapax.toml", &routes(other.address).replace("2h", "3h"));
    both.signal("-HUP");
    until("the new routes", || count("hapax: reloaded") == 1);
    assert_eq!(get(gateway, "/").text(), "2");
    dir.write("hapax.toml", &routes(one.address).replace("POST /pay", "POST pay").replace("2h", "4h"));
    both.signal("-HUP");
    until("the refusal", || count("not reloaded") == 1);
    assert_eq!(get(gateway, "/").text(), "2");
    let policies = get_local(both.place("admin").unwrap(), "/v1/policies");
    assert!(policies.contains("\"success\":\"3h\""), "{policies}");
    // By the administrators' door the same is said to whoever asks.
    let admin = format!("http://{}", both.place("admin").unwrap());
    let reload = || {
        let command =
            std::process::Command::new(env!("CARGO_BIN_EXE_hapax")).args(["reload", "--url", &admin]).output();
        let output = command.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, said) = reload();
    assert!(!done && said.contains("not reloaded"), "{said}");
    dir.write("hapax.toml", &routes(one.address).replace("2h", "5h"));
    let (done, said) = reload();
    assert!(done, "{said}");
    assert_eq!(get(gateway, "/").text(), "1");
    let policies = get_local(both.place("admin").unwrap(), "/v1/policies");
    assert!(policies.contains("\"success\":\"5h\""), "{policies}");
    both.signal("-TERM");
    until("its end", || count("hapax: stopped") == 1);
}

/// Flags do without a file; a store that contradicts the daemon's is refused; without any of it there is no gateway.
#[test]
fn what_is_asked_for_is_there_and_a_contradiction_is_refused() {
    let upstream = Upstream::new(|_, _, _| Reply::json(200, "1"));
    let dir = Dir::new();
    let both =
        Daemon::start(&dir, &["--upstream", &format!("http://{}", upstream.address), "--gateway", "127.0.0.1:0"]);
    assert_eq!(post(both.place("gateway").unwrap(), "/", "k", "{}").status, 200);
    drop(both);
    let both = Daemon::start(&dir, &[]);
    assert!(both.place("gateway").is_none(), "{:?}", both.said());
    drop(both);
    let contradicting = routes(upstream.address).replace("[gateway]", "[gateway]\nstore = \"memory:\"");
    dir.write("hapax.toml", &contradicting);
    let refused = Daemon::command(&dir, &[]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("one process has one store"), "{said}");
}

fn get_local(address: SocketAddr, path: &str) -> String {
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    support::Conn::to(address).send(text).answer().text()
}
