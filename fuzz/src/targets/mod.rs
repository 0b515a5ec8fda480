//! What is tried. A target takes any bytes; it returns a number that says what sort of answer it saw, or what must not be.

mod canonical_json;
mod client_key;
mod codec;
mod codec_kinds;
mod fingerprint;
mod key_header;
mod ledger;
mod pointer;
mod policy_file;
mod problem;
mod proxy_framing;
mod rules;
mod template;

use std::fmt;

use hapax_store::Seeded;

pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Pieces of the language that the target reads.
    pub(crate) words: &'static [&'static [u8]],
    /// Inputs to start from.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// A new input of the right shape.
    pub(crate) make: fn(&mut Seeded) -> Vec<u8>,
    pub(crate) run: fn(&[u8]) -> Result<u64, String>,
}

pub(crate) static ALL: &[Target] = &[
    key_header::TARGET,
    codec::TARGET,
    codec_kinds::TARGET,
    policy_file::TARGET,
    problem::TARGET,
    proxy_framing::TARGET,
    canonical_json::TARGET,
    template::TARGET,
    pointer::TARGET,
    fingerprint::TARGET,
    rules::TARGET,
    client_key::TARGET,
    ledger::TARGET,
];

/// What must hold, or a sentence about it.
fn must(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// The name of a variant, without what it carries. Printing stops right after it: the rest may be long.
fn variant(value: &impl fmt::Debug) -> u64 {
    let mut name = Name::default();
    let _ = fmt::write(&mut name, format_args!("{value:?}"));
    crate::runner::hash(&name.0)
}

#[derive(Default)]
struct Name(String);

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        self.0.push_str(&text[..end]);
        if end == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// The first line and the rest.
fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

/// Some JSON, nested a little.
fn json(random: &mut Seeded, depth: u64) -> String {
    const NAMES: [&str; 8] = ["a", "b", "order_id", "", "~", "/", "\u{20ac}", "0"];
    const SCALARS: [&str; 14] = [
        "0",
        "-0",
        "1.50",
        "1e3",
        "true",
        "null",
        "\"\"",
        "\"x\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude02\"",
        "123456",
        "0.000001",
        "\"a\\\\b\\\"\"",
        "9007199254740993",
    ];
    let many = random.below(4);
    match random.below(if depth == 0 { 1 } else { 3 }) {
        0 => (*random.pick(&SCALARS).unwrap_or(&"0")).to_owned(),
        1 => {
            let items: Vec<String> = (0..many).map(|_| json(random, depth - 1)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => {
            let members: Vec<String> = (0..many)
                .map(|_| format!("\"{}\": {}", random.pick(&NAMES).unwrap_or(&"a"), json(random, depth - 1)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}
