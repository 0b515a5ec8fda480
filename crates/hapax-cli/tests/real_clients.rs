//! Clients that none of us wrote, unchanged: they give up waiting, retry by themselves, and the service behind the gateway
//! is asked once.

#![allow(clippy::disallowed_methods, reason = "the service is really slow")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::support::{Dir, Reply, Start, Upstream};

/// The first charge takes longer than the clients wait for an answer, which is long enough for all others on a slow
/// machine.
fn slow_at_first() -> Upstream {
    Upstream::new(|asked, number, _| {
        if number == 0 {
            std::thread::sleep(Duration::from_millis(6_000));
        }
        let form = String::from_utf8_lossy(&asked.body).into_owned();
        let amount = form.split('&').find_map(|field| field.strip_prefix("amount=")).unwrap_or("0").to_owned();
        Reply::json(200, &format!(r#"{{"id":"ch_{number}","object":"charge","amount":{amount}}}"#))
    })
}

const AS_STRIPE: &str = r#"
[[route]]
match = "POST /v1/charges"
surface = "payments"
dialect = "stripe"
effect = "irreversible"

[surface.payments]
preset = "stripe"
"#;

#[test]
fn the_official_stripe_client_retries_and_is_charged_once() {
    let (dir, upstream) = (Dir::new(), slow_at_first());
    let gateway = Start::at(&dir).upstream(upstream.address).file(AS_STRIPE).go();
    let output = Command::new(python())
        .arg(workspace().join("tests/python/stripe_client.py"))
        .arg(format!("http://{}", gateway.address))
        .output()
        .unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{wrong}");
    let told = r#"{"charge": "ch_0", "amount": 1200, "again": ["ch_1", "ch_1"], "refused": "IdempotencyError"}"#;
    assert_eq!(said.trim(), told);
    assert_eq!(upstream.count(), 2, "one request for each intent, however often it was sent");
}

#[test]
fn curl_retries_and_is_charged_once() {
    let (dir, upstream) = (Dir::new(), slow_at_first());
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--max-time", "4"])
        .args(["--retry", "8", "--retry-delay", "1", "--retry-all-errors"])
        .args(["-H", "Idempotency-Key: order-1", "-H", "Authorization: Bearer one", "-d", "amount=1200"])
        .arg(format!("http://{}/v1/charges", gateway.address))
        .output()
        .expect("curl is installed");
    let said = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("idempotent-replayed: true"), "{said}");
    assert!(said.contains(r#""id":"ch_0""#), "{said}");
    assert_eq!(upstream.count(), 1);
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn python() -> PathBuf {
    let python = workspace().join("target/python/bin/python");
    assert!(python.exists(), "the clients are not installed: cargo xtask test --only python");
    python
}
