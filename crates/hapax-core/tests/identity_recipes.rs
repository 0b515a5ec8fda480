//! Recipes against the strings that existing systems have stored; a changed byte here is a duplicate effect there.

#![allow(clippy::expect_used)] // A test stops where its premise is wrong.

use std::num::NonZeroU64;

use hapax_core::identity::recipes::{acf, ad40, cordum, native, openwop};
use hapax_core::identity::{Field, Recipe, RecipeError, Template, TemplateError};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn openwop_vectors() {
    assert_eq!(
        openwop::http_v1("t1", "POST /v1/runs", "k1").as_str(),
        "85325b8f1397dd1f099e3696eb26791ceca9766afb7ab1f8811a6e8e32ce894a"
    );
    assert_eq!(
        openwop::activity_v1("run-1", "n1", 0, "stripe:create-charge").as_str(),
        "d8215aae12e6600b525862a0e23b8e2edc666162f05eca12c94e018a45116d74"
    );
    let second = |ordinal| openwop::activity_v2("t1", "run-1", "n1", ordinal, "stripe:create-charge");
    assert_eq!(second(0).as_str(), "_5bwWXKZlSPxd62RQFXWIPkVVe3TmRciLfkUbtwquiQ");
    assert_eq!(second(1).as_str(), "eL-zTztNRcqwPxXLHs6AM51fU3P2khDdUJjVtrphEik");
}

#[test]
fn cordum_vectors() {
    assert_eq!(cordum::intent("wf", "s", "op").as_str(), "wf:s:op");
    assert_eq!(cordum::saga("wf", "job-1", "refund", "pay", 2).as_str(), "saga:17336bc68ecf648433418915f59d7eed");
    assert_eq!(cordum::saga("wf", "job-1", "refund", "pay", 0).as_str(), "saga:6645bd925cdf6369b0f360c5015819b0");
}

#[test]
fn acf_vectors() {
    assert_eq!(acf::api("t1", "k").as_str(), "t1:k");
    assert_eq!(acf::turn("t1", "turn-9").as_str(), "t1:turn-9");
    assert_eq!(acf::beat("t1", "s1", &["m2", "m1"]).as_str(), "t1:beat:s1:7995ae35ab806812");
    assert_eq!(acf::tool("refund", "order:12345", "XYZ").as_str(), "refund:order:12345:turn_group:XYZ");
    assert_eq!(acf::content("t1", "c1", &["b", "a"], 5_666_666).as_str(), "755e7e0f6baec15bbdf554cd4d072330");
}

/// The seed hashes Python's JSON, which is ASCII only; a plain Rust encoder would part ways at the first umlaut.
#[test]
fn acf_content_is_spelled_as_python_spells_it() {
    let messages = ["😂\n", "z\u{7f}", "\u{fb33}", "\u{1}\t"];
    assert_eq!(acf::content("tönant", "c\"\\1", &messages, 7).as_str(), "fb1e600f03f7809ce4e8eb18675200b7");
    assert_eq!(acf::content("t1", "c1", &[], 0).as_str(), "dcd85b12579b9b656cd5a71facb8baa4");
}

#[test]
fn a_retry_just_after_the_border_finds_the_earlier_bucket() {
    let bucket = NonZeroU64::new(300).expect("not zero");
    let before = acf::content_keys("t1", "c1", &["hi"], 1_700_000_099, bucket);
    let after = acf::content_keys("t1", "c1", &["hi"], 1_700_000_100, bucket);
    assert_ne!(before.own, after.own);
    assert_eq!(after.earlier, Some(before.own));
    assert_eq!(acf::content_keys("t1", "c1", &["hi"], 299, bucket).earlier, None);
    assert_eq!(before.earlier, Some(acf::content("t1", "c1", &["hi"], 1_700_000_099 / 300 - 1)));
}

#[test]
fn the_native_saga_tells_step_zero_from_no_step_and_keeps_borders() {
    assert_ne!(native::saga("wf", "j", "t", "c", Some(0)), native::saga("wf", "j", "t", "c", None));
    assert_eq!(cordum::saga("wf|j", "", "t", "c", 1), cordum::saga("wf", "j|", "t", "c", 1), "the known weakness");
    assert_ne!(native::saga("wf|j", "", "t", "c", Some(1)), native::saga("wf", "j|", "t", "c", Some(1)));
}

#[test]
fn a_client_id_may_hold_colons() {
    let key = ad40::ClientKey::parse("host1.dc1:12345:42:a1b2c3d4e5f60718").expect("a client key");
    assert_eq!((key.client(), key.sequence()), ("host1.dc1:12345", 42));
    assert_eq!(key.key().as_str(), "host1.dc1:12345:42:a1b2c3d4e5f60718");
    for text in [
        "",
        "a:1",
        ":1:a1b2c3d4e5f60718",
        "a:01:a1b2c3d4e5f60718",
        "a:+1:a1b2c3d4e5f60718",
        "a:x:a1b2c3d4e5f60718",
        "a:1:a1b2c3d4e5f6071",
        "a:1:A1B2C3D4E5F60718",
        "a:1:a1b2c3d4e5f6g7h8",
        "a:99999999999999999999:a1b2c3d4e5f60718",
    ] {
        assert!(ad40::ClientKey::parse(text).is_err(), "{text}");
    }
}

#[test]
fn recipes_are_found_by_name_and_take_exactly_their_fields() {
    use Field::{List, Number, Text};
    let saga = Recipe::named("cordum.saga").expect("a recipe");
    let fields = [
        ("step", Text("2")),
        ("workflow", Text("wf")),
        ("job", Text("job-1")),
        ("topic", Text("refund")),
        ("capability", Text("pay")),
    ];
    assert_eq!(saga.key(&fields).expect("a key").as_str(), "saga:17336bc68ecf648433418915f59d7eed");
    assert!(matches!(saga.key(&fields[..4]), Err(RecipeError::Missing { field: "capability", .. })));
    let mut more = fields.to_vec();
    more.push(("other", Number(1)));
    assert!(matches!(saga.key(&more), Err(RecipeError::Unexpected { .. })));
    more[5] = ("job", Text("job-2"));
    assert!(matches!(saga.key(&more), Err(RecipeError::Unexpected { .. })));
    let wrong = saga.key(&[("step", Text("02"))].into_iter().chain(fields[1..].iter().copied()).collect::<Vec<_>>());
    assert!(matches!(wrong, Err(RecipeError::WrongKind { field: "step", .. })));

    let beat = Recipe::named("acf.beat").expect("a recipe");
    let fields = [("tenant", Text("t1")), ("session", Text("s1")), ("messages", List(&["m1", "m2"]))];
    assert_eq!(beat.key(&fields).expect("a key").as_str(), "t1:beat:s1:7995ae35ab806812");

    let native_saga = Recipe::named("hapax.saga.v1").expect("a recipe");
    let fields = [("workflow", Text("w")), ("job", Text("j")), ("topic", Text("t")), ("capability", Text("c"))];
    assert_eq!(native_saga.key(&fields), Ok(native::saga("w", "j", "t", "c", None)));

    let client = Recipe::named("ad40.client").expect("a recipe");
    let fields = [("client", Text("c:1")), ("sequence", Number(7)), ("nonce", Text("0001020304050607"))];
    assert_eq!(client.key(&fields).expect("a key").as_str(), "c:1:7:0001020304050607");
    assert!(matches!(Recipe::named("nope"), Err(RecipeError::Unknown(_))));
    let mut names: Vec<_> = Recipe::all().map(|recipe| recipe.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Recipe::all().count());
}

#[test]
fn a_template_makes_business_keys() {
    let template = Template::parse("refund:{args.order_id}:{args.items.0.n}{{x}}").expect("a template");
    let key = template.key(&json!({"args": {"order_id": "o-1", "items": [{"n": 2}]}})).expect("a key");
    assert_eq!(key.as_str(), "refund:o-1:2{x}");
    let amount = Template::parse("{n}").expect("a template");
    assert_eq!(amount.key(&json!({"n": 5})), amount.key(&json!({"n": 5.0})));
    assert_eq!(
        Template::parse("{{{a}}}").expect("a template").key(&json!({"a": true})).expect("a key").as_str(),
        "{true}"
    );
}

/// A missing order id that became an empty string would make every such refund one refund.
#[test]
fn a_template_never_fills_a_gap_with_nothing() {
    let template = Template::parse("{args.order_id}").expect("a template");
    for input in [json!({}), json!({"args": {}}), json!({"args": 1}), json!(null)] {
        assert!(matches!(template.key(&input), Err(TemplateError::Missing { .. })), "{input}");
    }
    for value in [json!(null), json!({}), json!([]), json!("")] {
        let input = json!({"args": {"order_id": value}});
        assert!(matches!(template.key(&input), Err(TemplateError::Unusable { .. })), "{input}");
    }
}

#[test]
fn a_broken_template_is_refused_when_it_is_loaded() {
    for text in ["{", "}", "a}b", "{a", "{}", "{a.}", "{.a}", "{a{b}}", "", "plain", "{{a}}"] {
        assert!(Template::parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn a_client_key_reads_back(client in "[a-z:.]{1,12}", sequence: u64, nonce: [u8; 8]) {
        let key = ad40::ClientKey::new(&client, sequence, nonce).expect("a client key");
        prop_assert_eq!(ad40::ClientKey::parse(&key.to_string()), Ok(key));
    }

    #[test]
    fn whatever_parses_as_a_client_key_is_its_only_spelling(text in "[a:]{0,3}:[0-9+-]{0,3}:[0-9a-fA-F]{15,17}") {
        if let Ok(key) = ad40::ClientKey::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn any_template_text_never_panics(text: String, field: String) {
        if let Ok(template) = Template::parse(&text) {
            let _ = template.key(&json!({ field: 1 }));
        }
    }
}
