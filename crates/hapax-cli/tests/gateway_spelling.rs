//! What a request is taken for, however it is spelt.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{thread, time::Duration};

use crate::support::{Conn, Dir, Reply, Start, Upstream, request, until};

/// A route guards a path in all the spellings that services take for it, and what is sent on is what came.
#[test]
fn a_route_is_not_gone_around_by_spelling_its_path_otherwise() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let file = "[[route]]\nmatch = \"POST /v1/pay/{id}\"\nkey = \"required\"\neffect = \"irreversible\"\n\
                [[route]]\nmatch = \"* /{rest...}\"\nprotect = false\n";
    let gateway = Start::at(&dir).file(file).upstream(upstream.address).go();
    let ask = |path: &str, headers: &[(&str, &str)]| {
        Conn::to(gateway.address).send(request("POST", path, headers, "{}")).answer()
    };
    for path in ["/v1/pay/7", "/v1/%70ay/7", "//v1/pay/7", "/v1//pay/7", "/v1/pay/7/", "/v1/pay/%37"] {
        assert_eq!(ask(path, &[]).status, 400, "{path} has no key");
        assert_eq!(upstream.count(), 0, "{path}");
    }
    let keyed = [("Idempotency-Key", "k"), ("Authorization", "Bearer one")];
    let first = ask("/v1/%70ay/7", &keyed);
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!(upstream.asked()[0].path, "/v1/%70ay/7");
    assert!(ask("/v1/pay/7", &keyed).is_replay(), "it is the same path");
    assert_eq!(ask("/v1/pay/8", &keyed).status, 422, "and this is another");
    assert_eq!(ask("/v1/payment", &[]).status, 201);
}

/// Who sends an empty credential is nobody in particular, and the operator is told that such requests come.
#[test]
fn an_empty_credential_is_none() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for headers in [vec![("Authorization", "")], vec![("X-Api-Key", "  ")], vec![("X-Auth-Token", "")], vec![]] {
        let headers = [&[("Idempotency-Key", "k")], &headers[..]].concat();
        assert_eq!(Conn::to(gateway.address).send(request("POST", "/pay", &headers, "{}")).answer().status, 201);
    }
    assert_eq!(upstream.count(), 1, "they are one tenant");
    gateway.wait_for("anonymous");
}

/// An answer carries a credential in a header of the service's own: it reaches its caller, and is never given again.
#[test]
fn a_header_that_is_said_to_be_secret_is_never_stored() {
    let upstream = Upstream::new(|_, _, _| Reply::with(201, &[("X-Session", "hush"), ("Location", "/orders/1")], "{}"));
    let dir = Dir::new();
    let file = format!(
        "[gateway]\nupstream = \"http://{}\"\nsecret_headers = [\"x-session\"]\n[surface.http]\npreset = \"openwop\"\n",
        upstream.address
    );
    let gateway = Start::at(&dir).file(&file).go();
    let ask = || {
        let headers = [("Idempotency-Key", "key-0123456789-abcdefghij"), ("Authorization", "Bearer one")];
        Conn::to(gateway.address).send(request("POST", "/orders", &headers, "{}")).answer()
    };
    let first = ask();
    assert_eq!((first.header("x-session"), first.header("location")), (Some("hush"), Some("/orders/1")));
    let again = ask();
    assert!(again.header("location").is_some(), "{again:?}");
    assert_eq!((upstream.count(), again.header("x-session")), (1, None));
    let bad = file.replace("x-session", "x session");
    dir.write("hapax.toml", &bad);
    gateway.signal("HUP");
    gateway.wait_for("not reloaded");
}

/// Those who waited for a request that the upstream refused are not told that it is being processed.
#[test]
fn who_waited_for_what_left_nothing_is_told_that_it_has_ended() {
    let upstream = Upstream::new(|_, number, _| {
        thread::sleep(Duration::from_millis(500));
        Reply::json(if number == 0 { 400 } else { 201 }, "{}")
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let address = gateway.address;
    let ask = move || crate::support::post(address, "/pay", "k", "{}");
    let first = thread::spawn(ask);
    until("the upstream to be asked", || upstream.count() == 1);
    let waiting = ask();
    assert_eq!(first.join().unwrap().status, 400);
    assert!(waiting.status == 409 && waiting.says("has ended") && waiting.says("retry_same_key"), "{}", waiting.text());
    assert_eq!(ask().status, 201);
}
