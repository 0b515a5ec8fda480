//! Calls to providers through the gateway: one key over all attempts, the provider's own window, activities of runs.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support::{Conn, Dir, Gateway, Reply, Start, Upstream, post};

/// A provider that takes the first call and hangs up without a word; then it answers, with the key that it was sent.
fn forgetful() -> Upstream {
    Upstream::new(|asked, number, _| match number {
        0 => Reply::Last(Vec::new()),
        _ => {
            let key = asked.headers.iter().find(|(name, _)| name == "idempotency-key" || name == "x-key");
            Reply::json(201, &format!("{{\"key\":\"{}\"}}", key.map_or("", |(_, value)| value)))
        }
    })
}

fn start(dir: &Dir, name: &str, outside: &Upstream, more: &str) -> Gateway {
    let file = format!(
        "[gateway]\nupstream = \"http://127.0.0.1:9\"\n[egress.{name}]\nurl = \"http://{}\"\n{more}",
        outside.address
    );
    Start::at(dir).file(&file).go()
}

/// Stripe took the charge and the answer was lost. Inside its window the same key is the same charge: it is sent again.
#[test]
fn a_lost_answer_of_a_provider_that_honours_keys_is_asked_for_again_with_the_same_key() {
    let (outside, dir) = (forgetful(), Dir::new());
    let gateway = start(&dir, "stripe", &outside, "");
    assert_eq!(post(gateway.address, "/egress/stripe/v1/charges", "k1", "{}").status, 502);
    let answer = post(gateway.address, "/egress/stripe/v1/charges", "k1", "{}");
    assert_eq!((answer.status, answer.is_replay()), (201, false), "{}", answer.text());
    assert!(post(gateway.address, "/egress/stripe/v1/charges", "k1", "{}").is_replay());
    let asked = outside.asked();
    assert_eq!(asked.len(), 2);
    let keys: Vec<_> = asked.iter().map(|asked| asked.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys[0], keys[1], "the provider sees one key over all attempts");
    assert_ne!(keys[0], "k1", "and it is not the client's own, which another tenant may use too");
}

/// Where nobody has published that keys are honoured, a lost answer stays a doubt, whatever was sent along.
#[test]
fn a_lost_answer_of_any_other_provider_is_a_doubt() {
    for name in ["openai", "unheard-of"] {
        let (outside, dir) = (forgetful(), Dir::new());
        let gateway = start(&dir, name, &outside, "");
        let path = format!("/egress/{name}/v1/runs");
        assert_eq!(post(gateway.address, &path, "k1", "{}").status, 502);
        let answer = post(gateway.address, &path, "k1", "{}");
        assert_eq!(answer.status, 409, "{}", answer.text());
        assert!(answer.says("in_doubt"), "{}", answer.text());
        assert_eq!(outside.count(), 1, "{name}");
    }
}

/// A provider of one's own, with a header and a window of its own; and what it means as *try again* is no answer.
#[test]
fn a_provider_in_the_file_has_its_own_header_and_window() {
    let outside = Upstream::new(|asked, number, _| match number {
        0 => Reply::json(423, "{}"),
        _ => Reply::json(201, &format!("{{\"key\":\"{}\"}}", asked.header("x-key").unwrap_or_default())),
    });
    let dir = Dir::new();
    let mine =
        "[provider.mine]\nheader = \"X-Key\"\nmost = 24\nretention = \"48h\"\nhonours = true\nretryable = [423]\n";
    let gateway = start(&dir, "mine", &outside, mine);
    assert_eq!(post(gateway.address, "/egress/mine/pay", "k1", "{}").status, 423);
    assert_eq!(post(gateway.address, "/egress/mine/pay", "k1", "{}").status, 201);
    assert_eq!(outside.asked()[1].header("x-key").unwrap().len(), 24);
    let wrong = start_refused("[provider.mine]\nhonours = true\n");
    assert!(wrong.contains("HX0092") && wrong.contains("retention"), "{wrong}");
}

fn start_refused(more: &str) -> String {
    let dir = Dir::new();
    let file = format!("[gateway]\nupstream = \"http://127.0.0.1:9\"\n{more}");
    std::fs::write(dir.path().join("hapax.toml"), file).unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_hapax"))
        .args(["gateway", "--config", "hapax.toml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(!run.status.success());
    String::from_utf8_lossy(&run.stderr).into_owned()
}

/// A provider turns a call of a run away for good. To its run that is an answer like any other: given again, and not asked for
/// again. To a client that only brings a key, a 401 is a mistake to mend under the same key.
#[test]
fn a_final_refusal_of_a_provider_is_the_answer_of_its_activity() {
    for status in [400, 401, 403, 404] {
        let outside = Upstream::new(move |_, number, _| match number {
            0 => Reply::json(status, "{\"error\":\"no\"}"),
            _ => Reply::json(201, "{}"),
        });
        let dir = Dir::new();
        let gateway = start(&dir, "mail", &outside, "");
        let text = "POST /egress/mail/send HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\nhapax-run: run-1\r\n\
                    hapax-node: n1\r\ncontent-length: 2\r\n\r\n{}";
        let call = || {
            let mut conn = Conn::to(gateway.address);
            conn.send(text.as_bytes());
            conn.answer()
        };
        let (first, again) = (call(), call());
        assert_eq!((first.status, first.is_replay()), (status, false), "{}", first.text());
        assert_eq!((again.status, again.is_replay()), (status, true), "{}", again.text());
        assert_eq!((again.text(), outside.count()), (first.text(), 1));
    }
    let outside = Upstream::new(|_, number, _| Reply::json(if number == 0 { 401 } else { 201 }, "{}"));
    let dir = Dir::new();
    let gateway = start(&dir, "mail", &outside, "");
    assert_eq!(post(gateway.address, "/egress/mail/send", "k1", "{}").status, 401);
    assert_eq!(post(gateway.address, "/egress/mail/send", "k1", "{}").status, 201);
}

/// What is kept of an activity's answer, and for how long, is said by the policy of activities, not by that of the gateway's
/// own requests.
#[test]
fn an_activity_is_kept_by_the_policy_of_activities() {
    let outside = Upstream::new(|_, _, _| Reply::json(201, &"x".repeat(4_000)));
    for (max_body, whole) in [("1KiB", false), ("8KiB", true)] {
        let dir = Dir::new();
        let more = format!(
            "[surface.http]\ncapture.max_body = \"2KiB\"\n[surface.activity]\npreset = \"activity\"\n\
             capture.max_body = \"{max_body}\"\n"
        );
        let gateway = start(&dir, "mail", &outside, &more);
        let text = "POST /egress/mail/send HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\nhapax-run: run-1\r\n\
                    hapax-node: n1\r\ncontent-length: 2\r\n\r\n{}";
        let call = || {
            let mut conn = Conn::to(gateway.address);
            conn.send(text.as_bytes());
            conn.answer()
        };
        assert_eq!(call().status, 201);
        let again = call();
        if whole {
            assert_eq!((again.status, again.is_replay()), (201, true), "{}", again.text());
        } else {
            assert!(again.says("already_completed"), "{}", again.text());
        }
    }
}

/// An executor is restarted and comes to the same node again: the call is known by its place, without a key of its own.
#[test]
fn a_call_that_names_its_run_and_node_is_made_once() {
    let (outside, dir) = (Upstream::counting(), Dir::new());
    let gateway = start(&dir, "mail", &outside, "");
    let call = |headers: &str| {
        let text = format!(
            "POST /egress/mail/send HTTP/1.1\r\nhost: x\r\nauthorization: Bearer t\r\ncontent-length: 2\r\n{headers}\r\n{{}}"
        );
        let mut conn = Conn::to(gateway.address);
        conn.send(text.as_bytes());
        conn.answer()
    };
    let place = "hapax-run: run-1\r\nhapax-node: n1\r\n";
    assert_eq!((call(place).status, call(place).is_replay()), (201, true));
    assert_eq!(outside.count(), 1);
    let asked = &outside.asked()[0];
    assert!(asked.headers.iter().all(|(name, _)| !name.starts_with("hapax-")), "{asked:?}");
    assert!(!call(&format!("{place}hapax-ordinal: 1\r\n")).is_replay(), "the next effect of the node is another");
    // By what it does for the business, whichever run comes to it.
    let business = "hapax-node: n1\r\nhapax-action: welcome\r\nhapax-business-key: customer-7\r\n";
    assert!(!call(&format!("hapax-run: run-1\r\n{business}")).is_replay());
    assert!(call(&format!("hapax-run: run-2\r\n{business}")).is_replay());
    for wrong in ["hapax-run: run-1\r\n", "hapax-run: r\r\nhapax-node: n\r\nhapax-ordinal: x\r\n"] {
        assert_eq!(call(wrong).status, 400, "{wrong}");
    }
    assert_eq!(outside.count(), 3);
}
