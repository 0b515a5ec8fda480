//! The canonical form against what others have published: RFC 8785's test data, its number samples, serde_jcs.

#![allow(clippy::expect_used)] // A test stops where its premise is wrong.

use hapax_core::identity::{Pointer, Selection, canonical};
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest, Sha256};

macro_rules! published {
    ($($name:literal),+) => {
        [$((
            $name,
            &include_bytes!(concat!("data/jcs/input/", $name, ".json"))[..],
            &include_bytes!(concat!("data/jcs/output/", $name, ".json"))[..],
        )),+]
    };
}

#[test]
fn published_test_data_passes() {
    for (name, input, output) in published!("arrays", "french", "structures", "unicode", "values", "weird") {
        let ours = canonical::to_vec(input).expect(name);
        assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(output), "{name}");
        let digest: [u8; 32] = Sha256::digest(output).into();
        assert_eq!(canonical::digest(input), Some(digest), "{name}");
    }
}

/// RFC 8785, appendix B: bits of a double and its text. (NaN and infinity have no JSON text.)
#[test]
fn published_number_samples_pass() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let text = format!("{:e}", f64::from_bits(bits));
        let ours = canonical::to_vec(text.as_bytes()).expect("a number");
        assert_eq!(String::from_utf8_lossy(&ours), expected);
    }
}

#[test]
fn what_two_readers_could_read_differently_is_left_to_the_raw_bytes() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":1}"#,
        r#"{"x":{"b":1,"a":2,"b":3}}"#,
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800x""#,
        r#"{} {}"#,
        r#"[1,]"#,
        r#"{"a":1,}"#,
        "\"a\nb\"",
        "\u{feff}{}",
        "",
        "nul",
        "[1 2]",
        "\"open",
        "{\"a\"}",
        "{1:2}",
        &deep(129),
        &deep(100_000),
    ] {
        assert_eq!(canonical::digest(text.as_bytes()), None, "{text:.40}");
    }
    assert_eq!(canonical::digest(b"\"\xff\""), None);
    assert_eq!(canonical::digest(b"\"\xed\xa0\x80\""), None);
    assert!(canonical::digest(deep(128).as_bytes()).is_some());
}

fn pointer(text: &str) -> Pointer {
    Pointer::parse(text).expect("a pointer")
}

fn selected(json: &str, selection: &Selection) -> String {
    let bytes = canonical::selected_to_vec(json.as_bytes(), selection).expect("JSON");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn ignored_parts_do_not_count() {
    let ignore = Selection::all().ignore(["/meta/at", "/items/1", "/a~1b"].map(pointer)).expect("not the whole");
    let json = r#"{"meta":{"by":1,"at":2},"items":[1,2,3],"a/b":0,"a":{"b":1}}"#;
    assert_eq!(selected(json, &ignore), r#"{"a":{"b":1},"items":[1,3],"meta":{"by":1}}"#);
    assert!(Selection::all().ignore([pointer("")]).is_err());
}

#[test]
fn an_absent_field_is_not_a_null_one() {
    let fields = Selection::all().fields(["/b", "/a/x", "/l/0"].map(pointer));
    assert_eq!(selected(r#"{"a":{"x":1,"y":2},"b":null,"l":[7]}"#, &fields), r#"{"/a/x":1,"/b":null,"/l/0":7}"#);
    assert_eq!(selected(r#"{"a":{"y":2},"l":[]}"#, &fields), "{}");
    let both = fields.ignore([pointer("/a")]).expect("not the whole");
    assert_eq!(selected(r#"{"a":{"x":1},"b":2}"#, &both), r#"{"/b":2}"#);
    let part = Selection::all().fields([pointer("/a")]).ignore([pointer("/a/x")]).expect("not the whole");
    assert_eq!(selected(r#"{"a":{"x":1,"y":2}}"#, &part), r#"{"/a":{"y":2}}"#);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=(1_i64 << 53)).prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |float| serde_json::Number::from_f64(float).map(Value::Number)),
        any::<String>().prop_map(Value::from),
        "[\\x00-\\x7f]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Spells a string with every character escaped, to tell text from spelling.
fn escaped(text: &str) -> String {
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
    format!("\"{units}\"")
}

/// The same document with members reversed, white space everywhere and every string escaped.
fn respelled(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Array(items) => {
            format!("[\r\n{} ]", items.iter().map(respelled).collect::<Vec<_>>().join(" ,\t"))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .rev()
                .map(|(name, value)| format!("{} :\n{}", escaped(name), respelled(value)))
                .collect();
            format!("{{ {} }}", members.join(" , "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

proptest! {
    #[test]
    fn agrees_with_serde_jcs(value in json()) {
        let peer = serde_jcs::to_vec(&value).expect("serde_jcs");
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("text"), respelled(&value)] {
            let ours = canonical::to_vec(text.as_bytes()).expect("JSON");
            prop_assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&peer));
        }
    }

    #[test]
    fn canonical_text_is_its_own_canonical_form(value in json()) {
        let once = canonical::to_vec(value.to_string().as_bytes()).expect("JSON");
        prop_assert_eq!(canonical::to_vec(&once), Some(once));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = canonical::digest(&bytes);
    }

    #[test]
    fn near_json_never_panics_and_is_read_only_if_serde_json_reads_it(text in "[\\[\\]{}:,\"\\\\u0-9dDa-eE+.\\- \ntrulfs😂-]{0,24}") {
        if let Some(ours) = canonical::to_vec(text.as_bytes()) {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
            prop_assert_eq!(canonical::to_vec(&ours), Some(ours));
        }
    }

    #[test]
    fn broken_json_never_panics(value in json(), cut in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = value.to_string().into_bytes();
        let at = cut.index(bytes.len());
        let _ = canonical::digest(&bytes[..at]);
        bytes[at] = byte;
        let _ = canonical::digest(&bytes);
    }

    #[test]
    fn invalid_json_has_no_canonical_form(value in json(), cut in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = value.to_string().into_bytes();
        let at = cut.index(bytes.len());
        bytes[at] = byte;
        if canonical::digest(&bytes).is_some() {
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok());
        }
    }
}
