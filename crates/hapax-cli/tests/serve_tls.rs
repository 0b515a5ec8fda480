//! The daemon over TLS: its own client, its own command line, curl; and whoever does not speak it.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    io::{Read as _, Write as _},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use crate::support::{Daemon, Dir};
use hapax_client::{Begun, Client, Outcome};

fn fixture(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect();
    path.display().to_string()
}

fn start(dir: &Dir) -> Daemon {
    Daemon::start(dir, &["--tls-certificate", &fixture("server.pem"), "--tls-key", &fixture("server-key.pem")])
}

/// The certificate is for this name.
fn by_name(daemon: &Daemon, line: &str) -> String {
    daemon.url(line).unwrap().replace("127.0.0.1", "localhost")
}

/// Both listeners speak TLS; who trusts the certificate gets in, who does not stays out, and nobody falls back to plain text.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_trust_the_certificate_get_in_and_others_stay_out() {
    let dir = Dir::new();
    let daemon = start(&dir);
    let (public, admin) = (by_name(&daemon, "hapax serve on"), by_name(&daemon, "admin"));
    assert!(public.starts_with("https://") && admin.starts_with("https://"), "{public} {admin}");
    let ca = PathBuf::from(fixture("ca.pem"));
    let client = Client::trusting(&public, Some(&ca)).unwrap();
    let Begun::Execute(ticket) = client.operation("payments", "order-1").begin().await.unwrap() else {
        panic!("it is new")
    };
    client.complete(&ticket, &Outcome::text("paid")).await.unwrap();
    assert!(matches!(client.operation("payments", "order-1").begin().await.unwrap(), Begun::Replay(_)));

    let listed = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .args(["op", "list", "--url", &admin, "--ca", &fixture("ca.pem"), "--json"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains(&ticket.operation), "{text}{}", String::from_utf8_lossy(&listed.stderr));

    let curl = |more: &[&str]| Command::new("curl").args(["-sS", "--max-time", "20"]).args(more).output().unwrap();
    let trusted = curl(&["--cacert", &fixture("ca.pem"), &format!("{public}/readyz")]);
    assert!(String::from_utf8_lossy(&trusted.stdout).contains("\"ready\":true"));
    assert!(!curl(&[&format!("{public}/readyz")]).status.success(), "an unknown root is not believed");
    assert!(!curl(&[&format!("{}/readyz", public.replace("https", "http"))]).status.success());
    assert!(Client::new(&public).unwrap().get::<serde_json::Value>("/readyz").await.is_err());
}

/// Somebody connects and says nothing, or something else: others are served meanwhile.
#[test]
fn whoever_does_not_greet_holds_nobody_up() {
    let dir = Dir::new();
    let daemon = start(&dir);
    let address = daemon.url("hapax serve on").unwrap().trim_start_matches("https://").to_owned();
    let silent: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let mut plain = std::net::TcpStream::connect(&address).unwrap();
    plain.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    let _closed = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1 200"));
    let url = format!("{}/readyz", by_name(&daemon, "hapax serve on"));
    let served =
        Command::new("curl").args(["-sS", "--max-time", "20", "--cacert", &fixture("ca.pem"), &url]).output().unwrap();
    assert!(String::from_utf8_lossy(&served.stdout).contains("\"ready\":true"));
    drop(silent);
}

/// Half of what TLS needs, or a file that holds something else, is a mistake and not plain text.
#[test]
fn half_a_certificate_is_refused() {
    let dir = Dir::new();
    dir.write("hapax.toml", &format!("[server]\ntls_certificate = \"{}\"\n", fixture("server.pem")));
    let refused = Daemon::command(&dir, &[]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("certificate and key come together"), "{said}");
    let both = format!("[server]\ntls_certificate = \"{0}\"\ntls_key = \"{0}\"\n", fixture("server.pem"));
    dir.write("hapax.toml", &both);
    let refused = Daemon::command(&dir, &[]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("HX0051"), "{said}");
}
