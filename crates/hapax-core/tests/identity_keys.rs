//! Keys, scopes and ids: what may be built, what is refused, and that nothing shows a raw key.

#![allow(clippy::expect_used)] // A test stops where its premise is wrong.

use hapax_core::identity::{
    Grammar, Id, Key, KeyError, KeySource, Pointer, PointerError, Scope, ScopeError, Secret, Surface, Tag, Tenant,
    agree,
};
use proptest::prelude::*;

fn header(value: &str) -> Result<Key, KeyError> {
    Key::from_header(value.as_bytes(), &Grammar::default())
}

fn scope(tenant: &str) -> Scope {
    Scope::of(Tenant::new(tenant).expect("a tenant"))
}

/// A client library that upgraded to the draft's quotes must not pay twice for its retries.
#[test]
fn both_spellings_of_a_key_are_one_key() {
    assert_eq!(header("k-1"), header("\"k-1\""));
    assert_eq!(header(" k-1\t"), header("\t\"k-1\" "));
    assert_eq!(header(r#""a\"b\\c""#).expect("a key").as_str(), r#"a"b\c"#);
    assert_eq!(header(r#"a"b\c"#), header(r#""a\"b\\c""#));
}

#[test]
fn refusals_say_which_rule() {
    assert_eq!(header(""), Err(KeyError::Empty));
    assert_eq!(header("  "), Err(KeyError::Empty));
    assert_eq!(header("\"\""), Err(KeyError::Empty));
    assert_eq!(header("\"abc"), Err(KeyError::Unclosed));
    assert_eq!(header("\""), Err(KeyError::Unclosed));
    assert_eq!(header("\"abc\\"), Err(KeyError::Unclosed));
    assert_eq!(header("\"a\\bc\""), Err(KeyError::BadEscape));
    assert_eq!(header("\"abc\";v=1"), Err(KeyError::Parameters));
    assert_eq!(header("\"abc\" ;v"), Err(KeyError::Parameters));
    assert_eq!(header("\"abc\", \"d\""), Err(KeyError::TrailingText));
    assert!(matches!(header("a b"), Err(KeyError::BadCharacter { position: 2, .. })));
    assert!(matches!(header("\"a b\""), Err(KeyError::BadCharacter { position: 2, .. })));
    assert!(matches!(header("ä"), Err(KeyError::BadCharacter { position: 1, .. })));
    assert!(matches!(Key::from_header(b"a\xff", &Grammar::default()), Err(KeyError::BadCharacter { .. })));
    assert!(header(&"x".repeat(255)).is_ok());
    assert_eq!(header(&"x".repeat(256)), Err(KeyError::TooLong { len: 256, most: 255 }));
}

#[test]
fn grammars_differ() {
    let strict = Grammar::openwop2();
    assert_eq!(Key::new(&"x".repeat(21), &strict), Err(KeyError::TooShort { len: 21, least: 22 }));
    assert!(Key::new("AZaz09._~-AZaz09._~-AZ", &strict).is_ok());
    assert!(Key::new(&"x".repeat(128), &strict).is_ok());
    assert!(Key::new(&"x".repeat(129), &strict).is_err());
    assert!(matches!(Key::new("0123456789:0123456789ab", &strict), Err(KeyError::BadCharacter { position: 11, .. })));
    let short = Grammar::visible().with_max_len(8);
    assert!(Key::new("12345678", &short).is_ok() && Key::new("123456789", &short).is_err());
    assert_eq!(Grammar::named("openwop2"), Some(strict));
    assert_eq!(Grammar::named("other"), None);
}

#[test]
fn no_form_of_a_key_shows_it() {
    let key = header("sk_live_secret").expect("a key");
    assert_eq!(format!("{key:?}"), "Key(14 bytes)");
    let secret = Secret::new(b"0123456789abcdef").expect("a secret");
    let other = Secret::new(b"0123456789abcdeX").expect("a secret");
    assert_eq!(secret.short_hash(&key).len(), 16);
    assert_eq!(secret.short_hash(&key), secret.short_hash(&key.clone()));
    assert_ne!(secret.short_hash(&key), other.short_hash(&key));
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    assert!(Secret::new(b"short").is_err());
}

#[test]
fn places_that_carry_different_keys_are_refused() {
    let four = |values: [Option<&'static str>; 4]| {
        agree(["Idempotency-Key", "X-Idempotency-Key", "idempotency_key", "idempotency-key"].into_iter().zip(values))
    };
    assert_eq!(four([None, None, None, None]), Ok(None));
    assert_eq!(four([None, Some("  "), None, Some("")]), Ok(None));
    assert_eq!(four([None, Some(" b "), Some("b"), None]), Ok(Some("b")));
    assert_eq!(four([Some("\"b\""), Some("b"), None, None]), Ok(Some("\"b\"")));
    let refused = four([Some("secret-a"), None, None, Some("secret-b")]).expect_err("they differ");
    assert_eq!(
        refused,
        KeyError::Disagree { first: "Idempotency-Key".to_owned(), second: "idempotency-key".to_owned() }
    );
    assert!(!refused.to_string().contains("secret"));
    assert_eq!(KeySource::of_run().len(), 4);
}

#[test]
fn a_scope_has_a_tenant_and_bounded_parts() {
    assert_eq!(Tenant::new(""), Err(ScopeError::Empty { what: "tenant" }));
    assert!(Tenant::new(&"t".repeat(256)).is_ok());
    assert!(matches!(Tenant::new(&"t".repeat(257)), Err(ScopeError::TooLong { .. })));
    assert!(matches!(Tenant::new("a\nb"), Err(ScopeError::BadCharacter { .. })));
    assert!(matches!(scope("t").with("tenant", "x"), Err(ScopeError::LabelTaken(_))));
    let twice = scope("t").with("region", "eu").and_then(|scope| scope.with("region", "us"));
    assert!(matches!(twice, Err(ScopeError::LabelTaken(_))));
    let many = (0..9).try_fold(scope("t"), |scope, part| scope.with(&format!("p{part}"), "v"));
    assert_eq!(many, Err(ScopeError::TooManyParts { most: 8 }));
    assert!(Surface::new("http").is_ok());
    for name in ["", "a b", "é", "http~shadow"] {
        assert!(Surface::new(name).is_err(), "{name}");
    }
}

#[test]
fn shadow_records_never_decide_an_enforced_request() {
    let surface = Surface::new("http").expect("a surface");
    let key = header("k").expect("a key");
    assert_ne!(Id::operation(&surface, &scope("t"), &key), Id::operation(&surface.shadow(), &scope("t"), &key));
    assert_eq!(surface.shadow().shadow(), surface.shadow());
}

/// Ids are stored for years: this one may never change.
#[test]
fn an_operation_keeps_its_id_for_ever() {
    let surface = Surface::new("http").expect("a surface");
    let scope = scope("t1").with("endpoint", "POST /v1/runs").expect("a part");
    let id = Id::operation(&surface, &scope, &header("k1").expect("a key"));
    assert_eq!(id.to_string(), "c219a057a9a6ff42597ad12d13be7f4440df24f2438e59ea3570261facab5b97");
    let derived = Id::derived("group", &[b"t1", b"g1"]);
    assert_eq!(derived.to_string(), "92f848e25ebd186490d0d44e3c2cb62c216b6bab9192f83e6b095b429d1e3b28");
}

#[test]
fn tags_keep_surfaces_and_tenants_apart() {
    let (http, tool) = (Surface::new("http").expect("a surface"), Surface::new("tool").expect("a surface"));
    let (a, b) = (Tenant::new("a").expect("a tenant"), Tenant::new("b").expect("a tenant"));
    let tags = [
        Tag::surface(&http),
        Tag::surface(&tool),
        Tag::tenant(&http, &a),
        Tag::tenant(&http, &b),
        Tag::tenant(&tool, &a),
    ];
    for (index, tag) in tags.iter().enumerate() {
        assert!(!tags[..index].contains(tag));
    }
}

#[test]
fn pointers_follow_rfc_6901() {
    let document = serde_json::json!({
        "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8
    });
    for (text, expected) in [
        ("/foo/0", serde_json::json!("bar")),
        ("/", serde_json::json!(0)),
        ("/a~1b", serde_json::json!(1)),
        ("/c%d", serde_json::json!(2)),
        ("/e^f", serde_json::json!(3)),
        ("/g|h", serde_json::json!(4)),
        ("/i\\j", serde_json::json!(5)),
        ("/k\"l", serde_json::json!(6)),
        ("/ ", serde_json::json!(7)),
        ("/m~0n", serde_json::json!(8)),
        ("", document.clone()),
    ] {
        assert_eq!(Pointer::parse(text).expect("a pointer").find(&document), Some(&expected), "{text}");
    }
    for text in ["/foo/2", "/foo/00", "/foo/+1", "/foo/-", "/none", "/foo/0/x"] {
        assert_eq!(Pointer::parse(text).expect("a pointer").find(&document), None, "{text}");
    }
    assert!(matches!(Pointer::parse("foo"), Err(PointerError::NoSlash(_))));
    assert!(matches!(Pointer::parse("/a~2"), Err(PointerError::BadEscape(_))));
    assert!(matches!(Pointer::parse("/a~"), Err(PointerError::BadEscape(_))));
}

proptest! {
    #[test]
    fn any_header_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = Key::from_header(&bytes, &Grammar::default());
    }

    #[test]
    fn quoting_any_key_changes_nothing(key in "[!-~]{1,40}") {
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        let read = header(&quoted).expect("a key");
        prop_assert_eq!(read.as_str(), key.as_str());
    }

    #[test]
    fn any_pointer_text_never_panics(text: String) {
        let _ = Pointer::parse(&text);
    }
}
