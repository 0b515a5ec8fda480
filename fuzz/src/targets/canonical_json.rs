use hapax_core::{
    Fingerprint,
    identity::{Pointer, Selection, canonical},
};
use serde_json::Value;

use super::{Target, json, must};
use crate::runner;

pub(super) const TARGET: Target = Target {
    name: "canonical-json",
    about: "any bytes as JSON; the canonical form is its own canonical form, and serde_jcs's",
    words: &[
        b"[",
        b"]",
        b"{",
        b"}",
        b"[[",
        b"{\"a\":",
        b"\"a\":1",
        b",",
        b":",
        b"\"",
        b"\\u0000",
        b"\\ud800",
        b"\\udc00",
        b"\\ud83d\\ude02",
        b"\\/",
        b"\\n",
        b"1e400",
        b"1e-400",
        b"-0",
        b"0.0000001",
        b"123456789012345678",
        b"4.50",
        b"true",
        b"null",
        b" ",
        b"\r\n\t",
        b"\xef\xbb\xbf",
        b"\xf0\x9f\x98\x82",
        b"\xe2\x82\xac",
        b"\xff",
    ],
    seeds: || {
        [
            &br#"{"b":[1,2.50,1E3,-0],"a":{"\u20ac":"\u000f","\r":null}}"#[..],
            br#"{"numbers":[333333333.33333329,1E30,4.50,2e-3],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"}"#,
        ]
        .map(Vec::from)
        .into()
    },
    make: |random| json(random, 4).into_bytes(),
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let selection = Pointer::parse("/a").and_then(|a| Selection::all().fields([a.clone()]).ignore([a]));
    let selection = selection.map_err(|error| error.to_string())?;
    let selected = canonical::selected_to_vec(input, &selection);
    let Some(ours) = canonical::to_vec(input) else {
        must(selected.is_none(), || "a part has a canonical form, the whole has none".to_owned())?;
        return Ok(serde_json::from_slice::<Value>(input).is_ok().into());
    };
    must(selected.is_some(), || "the whole has a canonical form, a part has none".to_owned())?;
    must(canonical::to_vec(&ours).as_ref() == Some(&ours), || {
        format!("the canonical form of {} is another one", String::from_utf8_lossy(&ours))
    })?;
    let prints = Fingerprint::of_json_bytes(input).matches(&Fingerprint::of_json_bytes(&ours));
    must(prints, || "the canonical form has another fingerprint".to_owned())?;
    // A number beyond all doubles is JSON, but not serde_json's.
    let Ok(value) = serde_json::from_slice::<Value>(input) else {
        return if plain_numbers(input) { Err("not what serde_json calls JSON".to_owned()) } else { Ok(2) };
    };
    if plain_numbers(input) {
        let theirs = serde_jcs::to_vec(&value).map_err(|error| error.to_string())?;
        must(ours == theirs, || {
            format!("ours {}, serde_jcs {}", String::from_utf8_lossy(&ours), String::from_utf8_lossy(&theirs))
        })?;
    }
    Ok(runner::hash((plain_numbers(input), ours.len().min(255).ilog2(), ours.first().copied(), ours.contains(&b'\\'))))
}

/// Numbers that a double holds and that serde_json reads exactly: at most twelve characters, one digit of exponent.
/// Looks into strings too, which only leaves out more.
fn plain_numbers(input: &[u8]) -> bool {
    let of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    input.split(|byte| !of_number(byte)).all(|run| {
        let exponent = run.iter().rposition(|byte| matches!(byte, b'e' | b'E'));
        let digits = exponent.map_or(0, |at| run[at + 1..].iter().filter(|byte| byte.is_ascii_digit()).count());
        run.len() <= 12 && digits <= 1
    })
}
