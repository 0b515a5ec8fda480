//! Whose key it is, in every way that a file can say it, and what our own refusals leave behind.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Answer, Conn, Dir, Gateway, Start, Upstream, post, request, until};
use data_encoding::BASE64URL_NOPAD;
use ring::{
    rand::SystemRandom,
    rsa,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256},
};
use serde_json::{Value, json};

fn ask(gateway: &Gateway, headers: &[(&str, &str)]) -> Answer {
    let headers = [&[("Idempotency-Key", "k1")], headers].concat();
    Conn::to(gateway.address).send(request("POST", "/pay", &headers, "{}")).answer()
}

/// Who issues tokens: one key of each kind that is common.
struct Issuer {
    rsa: rsa::KeyPair,
    ec: EcdsaKeyPair,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Self {
            rsa: rsa::KeyPair::from_der(include_bytes!("fixtures/token-rsa-key.der")).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap(),
        }
    }

    fn keys(&self) -> Value {
        let text = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let parts = rsa::PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let point = self.ec.public_key().as_ref();
        json!({"keys": [
            {"kty": "RSA", "kid": "rsa", "use": "sig", "n": text(&parts.n), "e": text(&parts.e)},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "x": text(&point[1..33]), "y": text(&point[33..])},
        ]})
    }

    fn token(&self, algorithm: &str, claims: &Value) -> String {
        let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let kid = if algorithm == "ES256" { "ec" } else { "rsa" };
        let signed = format!("{}.{}", part(&json!({"alg": algorithm, "kid": kid})), part(claims));
        let random = SystemRandom::new();
        let mut signature = vec![0; self.rsa.public().modulus_len()];
        match algorithm {
            "ES256" => signature = self.ec.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            "PS256" => self.rsa.sign(&RSA_PSS_SHA256, &random, signed.as_bytes(), &mut signature).unwrap(),
            _ => self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap(),
        }
        format!("Bearer {signed}.{}", BASE64URL_NOPAD.encode(&signature))
    }
}

/// A claim names the tenant, under a signature that holds; a token that is renewed between two tries is the same tenant's.
#[test]
fn a_claim_is_believed_under_a_signature_of_either_kind() {
    let (issuer, upstream, dir) = (Issuer::new(), Upstream::counting(), Dir::new());
    dir.write("keys.json", &issuer.keys().to_string());
    let file = "[gateway]\ntenant = \"jwt:org\"\njwks = \"keys.json\"\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = |org: &str, end: u64| json!({"org": org, "exp": end});
    for (at, org) in ["acme", "other"].into_iter().enumerate() {
        for (again, algorithm) in ["RS256", "PS256", "ES256"].into_iter().enumerate() {
            let token = issuer.token(algorithm, &claims(org, now + 600 + again as u64));
            let answer = ask(&gateway, &[("Authorization", &token)]);
            assert_eq!(
                (answer.status, answer.is_replay()),
                (201, again > 0),
                "{org} by {algorithm}: {}",
                answer.text()
            );
        }
        assert_eq!(upstream.count(), at + 1);
    }
    let good = issuer.token("RS256", &claims("acme", now + 600));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let mut forged = signature.to_owned();
    forged.replace_range(10..11, if &forged[10..11] == "A" { "B" } else { "A" });
    for (name, token) in [
        ("forged", format!("{signed}.{forged}")),
        ("of another key", Issuer::new().token("ES256", &claims("acme", now + 600))),
        ("ended", issuer.token("ES256", &claims("acme", now - 600))),
        ("of nobody", issuer.token("ES256", &json!({"exp": now + 600}))),
    ] {
        let answer = ask(&gateway, &[("Authorization", &token)]);
        assert_eq!(answer.status, 401, "{name}");
        assert!(
            answer.says("\"code\":\"no_credential\"") && answer.says("\"safe_new_key\":false"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(ask(&gateway, &[]).status, 401);
    assert_eq!(upstream.count(), 2);
}

#[test]
fn one_tenant_for_all_is_one_tenant() {
    let (upstream, dir) = (Upstream::counting(), Dir::new());
    let gateway = Start::at(&dir).upstream(upstream.address).arg("--tenant", "fixed:acme").go();
    assert!(!ask(&gateway, &[("Authorization", "Bearer one")]).is_replay());
    assert!(ask(&gateway, &[("Authorization", "Bearer two")]).is_replay());
    assert!(ask(&gateway, &[]).is_replay());
    assert_eq!(upstream.count(), 1);
}

#[test]
fn cookies_that_are_named_count_and_others_do_not() {
    let (upstream, dir) = (Upstream::counting(), Dir::new());
    let file = "[gateway]\ncookies = [\"session\"]\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    for (cookie, replayed) in [
        ("session=a; theme=dark", false),
        ("theme=light; session=a", true),
        ("session=b; theme=dark", false),
        ("theme=dark", false),
        ("theme=light", true),
    ] {
        assert_eq!(ask(&gateway, &[("Cookie", cookie)]).is_replay(), replayed, "{cookie}");
    }
    assert_eq!(upstream.count(), 3);
}

/// There is no room upstream, or none for one more at once: that is our refusal and no answer of the upstream's, so the key
/// is as free as before, also for another request.
#[test]
fn our_own_refusals_for_want_of_room_leave_the_key_free() {
    for (status, code, file) in [
        (503, "unavailable", "connections = 1\n"),
        (429, "not_admitted", "[default]\nadmission = { max_in_flight = 1 }\n"),
    ] {
        let ((upstream, go), dir) = (Upstream::held(), Dir::new());
        let file = format!("[upstream.default]\nurl = \"http://{}\"\n{file}", upstream.address);
        let gateway = Start::at(&dir).file(&file).go();
        let address = gateway.address;
        let first = std::thread::spawn(move || post(address, "/slow", "k1", "{}"));
        until("the first to be under way", || upstream.count() == 1);
        let refused = post(address, "/pay", "k2", "{}");
        assert_eq!(refused.status, status, "{}", refused.text());
        assert!(refused.says(&format!("\"code\":\"{code}\"")) && refused.header("retry-after").is_some());
        assert!(refused.says("\"next_action\":\"retry_same_key\""), "{}", refused.text());
        go.send(()).unwrap();
        assert_eq!(first.join().unwrap().status, 201);
        let again = post(address, "/pay", "k2", "{\"another\":\"request\"}");
        assert_eq!((again.status, again.is_replay()), (201, false), "{}", again.text());
        assert_eq!(upstream.count(), 2);
    }
}

/// The key stays here where the policy says so, and goes on where it does not.
#[test]
fn a_key_is_passed_on_or_not_as_the_policy_says() {
    for (file, sent) in [("", Some("k1")), ("[default]\nforward_key = false\n", None)] {
        let (upstream, dir) = (Upstream::counting(), Dir::new());
        let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
        assert!(!ask(&gateway, &[]).is_replay() && ask(&gateway, &[]).is_replay());
        assert_eq!(upstream.asked()[0].header("idempotency-key"), sent);
    }
}

/// A key in the query or the body cannot be taken out without changing what is asked: a file that wants both is refused,
/// and no key goes on behind its author's back.
#[test]
fn a_key_that_is_to_stay_here_is_not_read_from_where_it_would_go_on() {
    for (source, said) in [("query:key", "the query"), ("body:/key", "the body")] {
        let dir = Dir::new();
        let file = format!(
            "[gateway]\nupstream = \"http://127.0.0.1:9\"\n[default]\nforward_key = false\nkey.source = [\"{source}\"]\n"
        );
        std::fs::write(dir.path().join("hapax.toml"), file).unwrap();
        let run = std::process::Command::new(env!("CARGO_BIN_EXE_hapax"))
            .args(["gateway", "--config", "hapax.toml"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && told.contains("forward_key") && told.contains(said), "{source}: {told}");
    }
}
