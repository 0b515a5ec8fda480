//! The payload guard: what may differ between a request and its retry, and what may not.

#![allow(clippy::expect_used)] // A test stops where its premise is wrong.

use hapax_core::identity::{
    Dependencies, Fingerprint, Intent, IntentError, Key, Part, Pointer, Printer, RequestPrint, Role, Scheme, Secret,
    Selection, TurnInput,
};
use proptest::prelude::*;
use serde_json::json;

fn schemes(print: &Fingerprint) -> Vec<Scheme> {
    print.digests().map(|(scheme, _)| scheme).collect()
}

fn post(content_type: &'static str, body: &[u8]) -> Fingerprint {
    RequestPrint::new("POST", "/v1/orders").content_type(content_type).body(body).print(&Printer::plain())
}

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).expect("a pointer")
}

/// A client that serialises anew for its retry may order members otherwise; that is no other request.
#[test]
fn a_reserialised_retry_is_the_same_request() {
    let first = post("application/json", br#"{"a":1,"b":[1.0,"x"]}"#);
    assert_eq!(schemes(&first), [Scheme::RAW_V1, Scheme::CANONICAL_V1]);
    assert!(first.matches(&post("application/json", b"{ \"b\": [1, \"\\u0078\"],\n\"a\": 1 }")));
    assert!(first.matches(&post("Application/JSON; charset=UTF-8", br#"{"b":[1,"x"],"a":1}"#)));
    assert!(!first.matches(&post("application/json", br#"{"a":1,"b":["x",1]}"#)));
    assert!(!first.matches(&post("application/json; version=2", br#"{"a":1,"b":[1,"x"]}"#)));
    assert!(!first.matches(&post("application/vnd.acme+json", br#"{"a":1,"b":[1,"x"]}"#)));
}

#[test]
fn an_automatic_key_forgives_spelling_only() {
    let key = |body: &[u8]| Key::automatic(&post("application/json", body));
    assert_eq!(key(br#"{"a":1,"b":2}"#), key(br#"{"b":2, "a":1.0}"#));
    assert_ne!(key(br#"{"a":1}"#), key(br#"{"a":2}"#));
}

/// Two orders whose ids differ beyond 2^53 were one payload to a guard that read doubles.
#[test]
fn big_ids_stay_apart() {
    let first = post("application/json", br#"{"order":9007199254740993}"#);
    assert!(!first.matches(&post("application/json", br#"{"order":9007199254740992}"#)));
    assert!(first.matches(&post("application/json", br#"{ "order":9007199254740993}"#)));
}

#[test]
fn bodies_without_one_reading_are_compared_by_their_bytes() {
    let first = post("application/json", br#"{"a":1,"a":2}"#);
    assert_eq!(schemes(&first), [Scheme::RAW_V1]);
    assert!(first.matches(&post("application/json", br#"{"a":1,"a":2}"#)));
    assert!(!first.matches(&post("application/json", br#"{"a":1, "a":2}"#)));
    assert!(!first.matches(&post("application/json", br#"{"a":2}"#)));
    assert_eq!(schemes(&post("text/plain", b"{}")), [Scheme::RAW_V1]);
    assert_eq!(schemes(&post("nonsense", b"{}")), [Scheme::RAW_V1]);
}

#[test]
fn every_part_of_a_request_counts() {
    let base = RequestPrint::new("POST", "/v1/{a}/{b}").path_parameter("a", "1").path_parameter("b", "2").query("x=1");
    let others = [
        RequestPrint::new("PUT", "/v1/{a}/{b}").path_parameter("a", "1").path_parameter("b", "2").query("x=1"),
        RequestPrint::new("POST", "/v2/{a}/{b}").path_parameter("a", "1").path_parameter("b", "2").query("x=1"),
        RequestPrint::new("POST", "/v1/{a}/{b}").path_parameter("a", "2").path_parameter("b", "1").query("x=1"),
        RequestPrint::new("POST", "/v1/{a}/{b}").path_parameter("a", "1").query("x=1"),
        base.clone().query("x=2"),
        base.clone().body(b" "),
        base.clone().content_type("text/plain"),
        base.clone().content_type(""),
    ];
    let printer = Printer::plain();
    for other in others {
        assert!(!base.print(&printer).matches(&other.print(&printer)), "{other:?}");
    }
    let swapped =
        RequestPrint::new("POST", "/v1/{a}/{b}").path_parameter("b", "2").path_parameter("a", "1").query("x=1");
    assert!(base.print(&printer).matches(&swapped.print(&printer)));
    let keyed = base.clone().query_without("idempotency_key=k&x=1", &["idempotency_key", "idempotency-key"]);
    assert!(base.print(&printer).matches(&keyed.print(&printer)));
}

/// With `ignore`, the raw bytes would still hold the ignored part and could match by accident only; they are left out.
#[test]
fn a_selection_compares_only_what_it_selects() {
    let ignore = Selection::all().ignore([pointer("/idempotency_key")]).expect("not the whole");
    let print = |body: &'static [u8]| {
        RequestPrint::new("POST", "/chat")
            .content_type("application/json")
            .body(body)
            .selection(&ignore)
            .print(&Printer::plain())
    };
    let first = print(br#"{"message":"hi","idempotency_key":"k1"}"#);
    assert_eq!(schemes(&first), [Scheme::CANONICAL_V1]);
    assert!(first.matches(&print(br#"{"message":"hi"}"#)));
    assert!(!first.matches(&print(br#"{"message":"ho"}"#)));
    assert_eq!(schemes(&print(b"not json")), [Scheme::RAW_V1]);
    let all = Selection::all();
    let whole = RequestPrint::new("POST", "/chat").content_type("application/json").body(b"{}").selection(&all);
    assert_eq!(schemes(&whole.print(&Printer::plain())), [Scheme::CANONICAL_V1]);
}

fn order<'a>(content_type: &'a str, body: &'a [u8]) -> RequestPrint<'a> {
    RequestPrint::new("POST", "/v1/orders").content_type(content_type).body(body)
}

/// JSON without spaces, its members in order, is in canonical form already. To digest the same bytes twice is most of what a fingerprint costs.
#[test]
fn a_body_in_canonical_form_has_one_digest() {
    let (compact, spaced) = (&br#"{"a":1,"b":[1,"x"]}"#[..], &b"{ \"b\": [1, \"x\"],\n\"a\": 1 }"[..]);
    let (first, retry) = (post("application/json", compact), post("application/json", spaced));
    assert_eq!(schemes(&first), [Scheme::CANONICAL_V1]);
    assert_eq!(schemes(&retry), [Scheme::RAW_V1, Scheme::CANONICAL_V1]);
    assert!(first.matches(&retry) && retry.matches(&first) && first.matches(&first));
    assert!(!first.matches(&post("application/json", br#"{"a":1,"b":[1,"y"]}"#)));
    assert!(!first.matches(&post("text/plain", compact)));
}

/// A program from before that took both digests of every body: its records and ours are of the same requests.
#[test]
fn a_print_with_both_digests_of_a_canonical_body_still_matches() {
    let body = br#"{"a":1}"#;
    let printer = Printer::plain();
    let raw = order("application/json", body).as_sent(&[Scheme::RAW_V1], &printer).expect("a digest of the bytes");
    let ours = order("application/json", body).print(&printer);
    let both = ours.digests().try_fold(raw.clone(), |both, (scheme, digest)| both.and(scheme, *digest));
    let both = both.expect("room for both");
    assert_eq!(schemes(&both), [Scheme::RAW_V1, Scheme::CANONICAL_V1]);
    assert!(both.matches(&ours) && both.matches(&raw) && !ours.matches(&raw));
    let as_sent = order("application/json", body).as_sent(&schemes(&both), &printer).expect("a digest");
    assert_eq!(schemes(&as_sent), [Scheme::RAW_V1]);
    assert!(as_sent.matches(&both));
}

/// A retry that came as it was before is recognised by one digest, whichever the record has; anything else has to be looked at closely.
#[test]
fn a_retry_as_it_was_sent_is_recognised_by_one_digest() {
    let keyed = Printer::keyed(Secret::new(b"0123456789abcdef").expect("a secret"));
    let bodies =
        [&br#"{"a":1}"#[..], b"{ \"a\": 1 }", b"{\"b\":1,\"a\":2}", b"[]", b"no json", b"", b"{\"a\":1,\"a\":2}"];
    for printer in [Printer::plain(), keyed] {
        for content_type in ["application/json", "text/plain", "nonsense"] {
            for (at, body) in bodies.iter().enumerate() {
                let first = order(content_type, body).print(&printer);
                for (other_at, other) in bodies.iter().enumerate() {
                    let retry = order(content_type, other);
                    let as_sent = retry.as_sent(&schemes(&first), &printer).expect("nothing is left out");
                    assert_eq!(schemes(&as_sent).len(), 1);
                    assert_eq!(as_sent.matches(&first), at == other_at, "{content_type} {at} {other_at}");
                    assert_eq!(
                        retry.whole(Some(as_sent), &printer),
                        retry.print(&printer),
                        "{content_type} {at} {other_at}"
                    );
                }
            }
        }
    }
    // Of what is selected, the bytes say nothing.
    let ignore = Selection::all().ignore([pointer("/a")]).expect("not the whole");
    let selected = order("application/json", b"{}").selection(&ignore);
    assert!(selected.as_sent(&[Scheme::CANONICAL_V1], &Printer::plain()).is_none());
}

fn form(boundary: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (name, content) in parts {
        body += &format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n");
    }
    (body + &format!("--{boundary}--\r\n")).into_bytes()
}

fn upload(boundary: &str, body: &[u8]) -> Fingerprint {
    let content_type = format!("multipart/form-data; boundary=\"{boundary}\"");
    RequestPrint::new("POST", "/files").content_type(&content_type).body(body).print(&Printer::plain())
}

/// Clients draw a new boundary per attempt.
#[test]
fn a_new_boundary_is_not_a_new_request() {
    let parts = [("title", "one"), ("file", "a\r\nb"), ("empty", "")];
    let first = upload("aaa", &form("aaa", &parts));
    assert_eq!(schemes(&first), [Scheme::RAW_V1, Scheme::PARTS_V1]);
    assert!(first.matches(&upload("b-b", &form("b-b", &parts))));
    for other in [
        &[("title", "two"), ("file", "a\r\nb"), ("empty", "")][..],
        &[("file", "a\r\nb"), ("title", "one"), ("empty", "")],
        &[("title", "one"), ("file", "a\r\nb")],
        &[("name", "one"), ("file", "a\r\nb"), ("empty", "")],
    ] {
        assert!(!first.matches(&upload("aaa", &form("aaa", other))));
    }
}

#[test]
fn multipart_that_could_be_split_in_two_ways_is_compared_by_its_bytes() {
    for body in [
        &b"preamble\r\n--aaa\r\n\r\nx\r\n--aaa--"[..],
        b"--aaa\r\n\r\nx\r\n--aaa--\r\nepilogue",
        b"--aaa\r\n\r\nx\r\n--aaab\r\n\r\ny\r\n--aaa--",
        b"--aaa\r\n\r\nx",
        b"--aaa\r\nno colon\r\n\r\nx\r\n--aaa--",
        b"",
        b"--aaa",
    ] {
        assert_eq!(schemes(&upload("aaa", body)), [Scheme::RAW_V1]);
    }
    assert_eq!(schemes(&upload("aaa", b"--aaa--")), [Scheme::RAW_V1, Scheme::PARTS_V1]);
    assert_eq!(schemes(&upload("", b"----")), [Scheme::RAW_V1]);
}

#[test]
fn a_secret_makes_prints_of_its_own() {
    let keyed = Printer::keyed(Secret::new(b"0123456789abcdef").expect("a secret"));
    let other = Printer::keyed(Secret::new(b"fedcba9876543210").expect("a secret"));
    let request = RequestPrint::new("POST", "/").content_type("application/json").body(b"{}");
    let print = request.print(&keyed);
    assert!(print.digests().all(|(scheme, _)| scheme.is_keyed()));
    assert!(print.matches(&request.print(&keyed)));
    assert!(!print.matches(&request.print(&other)));
    assert!(!print.matches(&request.print(&Printer::plain())));
}

#[test]
fn values_bytes_and_structs_of_one_document_match() {
    #[derive(serde::Serialize)]
    struct Order {
        b: u8,
        a: &'static str,
    }
    let bytes = Fingerprint::of_json_bytes(br#"{"b": 1, "a": "x"}"#);
    assert!(bytes.matches(&Fingerprint::of_json(&json!({"a": "x", "b": 1}))));
    assert!(bytes.matches(&Fingerprint::of_serialize(&Order { b: 1, a: "x" }).expect("JSON")));
    assert!(bytes.matches(&Fingerprint::of_bytes(br#"{"b": 1, "a": "x"}"#)));
    assert!(!bytes.matches(&Fingerprint::of_json(&json!({"a": "x", "b": 2}))));
}

#[test]
fn tuples_ignore_the_order_of_labels_and_nothing_else() {
    let print = |parts: &[(&str, Part<'_>)]| Fingerprint::tuple(parts).expect("no label twice");
    let first = print(&[("a", Part::Text("1")), ("b", Part::Number(2))]);
    assert!(first.matches(&print(&[("b", Part::Number(2)), ("a", Part::Text("1"))])));
    for other in [
        &[("a", Part::Number(1)), ("b", Part::Number(2))][..],
        &[("a", Part::Bytes(b"1")), ("b", Part::Number(2))],
        &[("a", Part::List(&["1"])), ("b", Part::Number(2))],
        &[("a", Part::Text("1")), ("c", Part::Number(2))],
        &[("a", Part::Text("1"))],
    ] {
        assert!(!first.matches(&print(other)));
    }
    assert!(Fingerprint::tuple(&[("a", Part::Number(1)), ("b", Part::Number(1)), ("a", Part::Number(1))]).is_err());
}

#[test]
fn input_and_dependency_prints_are_tuples() {
    let input = TurnInput { tenant: "t", agent: "a", session: "s", channel: "c", messages: &["1", "2"] };
    let tuple = Fingerprint::tuple(&[
        ("tenant", Part::Text("t")),
        ("agent", Part::Text("a")),
        ("session", Part::Text("s")),
        ("channel", Part::Text("c")),
        ("messages", Part::List(&["1", "2"])),
    ]);
    assert_eq!(Ok(Fingerprint::input_fp(&input)), tuple);
    assert_ne!(Fingerprint::input_fp(&input), Fingerprint::input_fp(&TurnInput { messages: &["2", "1"], ..input }));
    let deps =
        Dependencies { scenario_set: "1", rules: "2", knowledge_base: "3", agent_config: "4", tool_registry: "5" };
    let tuple = Fingerprint::tuple(&[
        ("scenario_set", Part::Text("1")),
        ("rules", Part::Text("2")),
        ("knowledge_base", Part::Text("3")),
        ("agent_config", Part::Text("4")),
        ("tool_registry", Part::Text("5")),
    ]);
    assert_eq!(Ok(Fingerprint::dep_fp(&deps)), tuple);
}

/// Prints are stored: what was hashed before an update has to hash the same after it.
#[test]
fn prints_keep_their_digests_for_ever() {
    let hex = |print: &Fingerprint| -> Vec<String> {
        print.digests().map(|(_, digest)| digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()).collect()
    };
    let request = RequestPrint::new("POST", "/v1/{id}")
        .path_parameter("id", "7")
        .query("x=1")
        .content_type("application/json")
        .body(br#"{"b":1,"a":2.50}"#);
    assert_eq!(hex(&request.print(&Printer::plain())), ["a8e00f6108a609c5", "bf7a346b6aae3986"]);
    let canonical = request.clone().body(br#"{"a":2.5,"b":1}"#);
    assert_eq!(hex(&canonical.print(&Printer::plain())), ["bf7a346b6aae3986"]);
    let secret = || Secret::new(b"0123456789abcdef").expect("a secret");
    assert_eq!(hex(&request.print(&Printer::keyed(secret()))), ["f037cc22ddcafbd5", "efe868ab0bf5b829"]);
    let parts = [("a", "1")];
    assert_eq!(hex(&upload("aaa", &form("aaa", &parts))), ["26c355b8374552e5", "4c8d239526c505ce"]);
    let tuple = Fingerprint::tuple(&[("a", Part::Text("1")), ("l", Part::List(&["x"])), ("n", Part::Number(3))]);
    assert_eq!(hex(&tuple.expect("no label twice")), ["86f0929f96986421"]);
}

/// Tenants of a gateway are named by such a digest: under another one a retry would be a stranger's, and run again.
#[test]
fn digests_under_a_secret_stay_what_they_are() {
    let secret = Secret::new(b"0123456789abcdef").expect("a secret");
    let of_credential = secret.digest_of("hapax.credential.v1", &[(b"header", b"Bearer one")]);
    assert_eq!(of_credential, "0e138b3d37301f7ea90a63e89e874eda76d0980e76496cf817d535567e67b77a");
    let long = [b'x'; 300];
    let of_much = secret.digest_of("hapax.credential.v1", &[(b"a", b"1"), (b"b", &long)]);
    assert_eq!(of_much, "ff713f10e112df13dad0aa2c7c57f317dc51f5987066b7f3404a183b3c2ed3ef");
}

fn refund() -> Intent {
    Intent::new(
        "refund",
        [
            (pointer("/order_id"), Role::Identity),
            (pointer("/amount"), Role::Effect),
            (pointer("/note"), Role::Narrative),
        ],
    )
    .expect("a declaration")
}

/// A model that words its note anew on a retry must not refund twice, and must not be refused either.
#[test]
fn a_reworded_retry_is_the_same_call() {
    let printer = Printer::plain();
    let call = |args: serde_json::Value| refund().call_value(&args, &printer).expect("a call");
    let first = call(json!({"order_id": "o1", "amount": 5, "note": "sorry"}));
    let reworded = call(json!({"note": "our apologies", "amount": 5.0, "order_id": "o1"}));
    assert_eq!(first.key, reworded.key);
    assert!(first.fingerprint.matches(&reworded.fingerprint));
    let more = call(json!({"order_id": "o1", "amount": 6}));
    assert_eq!(first.key, more.key);
    assert!(!first.fingerprint.matches(&more.fingerprint));
    let unknown = call(json!({"order_id": "o1", "amount": 5, "currency": "EUR"}));
    assert!(!first.fingerprint.matches(&unknown.fingerprint), "what is not declared is an effect");
    assert_ne!(first.key, call(json!({"order_id": "o2", "amount": 5})).key);
    assert_ne!(call(json!({"order_id": 1})).key, call(json!({"order_id": "1"})).key);
}

#[test]
fn a_call_without_its_identity_is_refused() {
    let printer = Printer::plain();
    for args in [json!({}), json!({"order_id": null}), json!({"order_id": ""}), json!([]), json!(1)] {
        let refused = refund().call_value(&args, &printer);
        assert!(matches!(refused, Err(IntentError::MissingIdentity { .. })), "{args}");
    }
    let twice = refund().call(br#"{"order_id":"a","order_id":"b"}"#, &printer);
    assert!(matches!(twice, Err(IntentError::Unreadable { .. })));
    let big = |id: &str| refund().call(format!("{{\"order_id\":{id}}}").as_bytes(), &printer).expect("a call").key;
    assert_ne!(big("123456789012345678901"), big("123456789012345678902"));
}

#[test]
fn a_declaration_has_one_role_per_argument() {
    let declare = |roles: &[(&str, Role)]| Intent::new("t", roles.iter().map(|(text, role)| (pointer(text), *role)));
    assert!(matches!(declare(&[("/a", Role::Effect)]), Err(IntentError::NoIdentity { .. })));
    let overlap = declare(&[("/a", Role::Identity), ("/b/c", Role::Effect), ("/b", Role::Narrative)]);
    assert!(matches!(overlap, Err(IntentError::Overlap { .. })));
    assert!(matches!(declare(&[("/a", Role::Identity), ("/a", Role::Effect)]), Err(IntentError::Overlap { .. })));
    assert!(matches!(declare(&[("", Role::Identity)]), Err(IntentError::Pointer(_))));
}

proptest! {
    #[test]
    fn any_request_never_panics(content_type: String, body in prop::collection::vec(any::<u8>(), 0..100), query: String) {
        let request = RequestPrint::new("POST", "/").content_type(&content_type).query_without(&query, &["a"]).body(&body);
        let print = request.print(&Printer::plain());
        prop_assert!(print.matches(&request.print(&Printer::plain())));
    }

    /// Whatever digests a print has: both say the same of two requests as the two digests of before did.
    #[test]
    fn one_digest_tells_requests_apart_as_two_did(
        bodies in prop::collection::vec("[{\\[]?(\"[ab]\"[:,] ?[12]?,?){0,2}[}\\]]?", 2),
    ) {
        let printer = Printer::plain();
        let [one, other] = [0, 1].map(|at| order("application/json", bodies[at].as_bytes()));
        let both = |request: &RequestPrint<'_>| {
            let raw = request.as_sent(&[Scheme::RAW_V1], &printer).expect("a digest of the bytes");
            let print = request.print(&printer);
            let mut rest = print.digests().filter(|(scheme, _)| *scheme != Scheme::RAW_V1);
            rest.try_fold(raw, |both, (scheme, digest)| both.and(scheme, *digest)).expect("room for both")
        };
        let same = both(&one).matches(&both(&other));
        prop_assert_eq!(one.print(&printer).matches(&other.print(&printer)), same);
        prop_assert_eq!(both(&one).matches(&other.print(&printer)), same);
        let as_sent = one.as_sent(&schemes(&one.print(&printer)), &printer).expect("a digest");
        prop_assert!(as_sent.matches(&one.print(&printer)));
        let as_sent = other.as_sent(&schemes(&one.print(&printer)), &printer).expect("a digest");
        prop_assert_eq!(as_sent.matches(&one.print(&printer)), bodies[0] == bodies[1]);
    }

    #[test]
    fn any_multipart_never_panics(body in "(--a|\r\n|--|x|:|\\{){0,16}", content_type in "multipart/[a-z]{1,3};? ?(boundary=)?\"?a?\"?;?") {
        let request = RequestPrint::new("POST", "/").content_type(&content_type).body(body.as_bytes());
        let _ = request.print(&Printer::plain());
    }

    #[test]
    fn any_arguments_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = refund().call(&bytes, &Printer::plain());
    }
}
