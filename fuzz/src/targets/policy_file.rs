use hapax_engine::Policies;
use hapax_store::Seeded;

use super::{Target, must};
use crate::runner;

const DOCS: &str = include_str!("../../../docs/policy-file.md");

pub(super) const TARGET: Target = Target {
    name: "policy-file",
    about: "any text as a policy file; what is taken passes every check",
    words: &[
        b"[default]\n",
        b"[surface.x]\n",
        b"[policy.p]\n",
        b"policy = \"p\"\n",
        b"preset = \"stripe\"\n",
        b"lease = \"60s\"\n",
        b"max_attempt = \"none\"\n",
        b"on_in_flight = \"reject\"\n",
        b"on_lapse = \"stale\"\n",
        b"success = \"forever\"\n",
        b"final_failure = \"open\"\n",
        b"retryable_failure = \"24h\"\n",
        b"tombstone_retention = \"90d\"\n",
        b"capacity = { max_records = 5 }\n",
        b"admission = \"none\"\n",
        b"capture.headers = [\"etag\"]\n",
        b"fingerprint.ignore = [\"/a\"]\n",
        b"mode = \"shadow\"\n",
        b"sweep = \"250ms\"\n",
        b"forward_key = false\n",
        b"\"",
        b"\"\"\"",
        b"'",
        b"[[",
        b"]]",
        b"{",
        b"}",
        b"=",
        b".",
        b"#",
        b"\n",
        b"0x7f",
        b"1e9",
        b"1979-05-27",
        b"inf",
        b"\\u0000",
        b"\xf0\x9f\x98\x82",
        b"-1",
        b"9999999999999999999d",
    ],
    seeds: || {
        let from = DOCS.find("```toml\n").map_or(0, |at| at + 8);
        let example = DOCS[from..].split("```").next().unwrap_or_default();
        vec![example.as_bytes().to_vec(), b"[default]\nlaese = 5\n".to_vec()]
    },
    make: |random: &mut Seeded| {
        let mut text = Vec::new();
        for _ in 0..random.below(12) {
            text.extend_from_slice(random.pick(TARGET.words).copied().unwrap_or_default());
        }
        text
    },
    run,
};

fn run(input: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(input);
    match Policies::from_toml(&text) {
        Ok((policies, warnings)) => {
            for policy in policies.iter().map(|(_, policy)| policy).chain([policies.standard()]) {
                must(policy.check().is_ok(), || format!("a policy was taken that is refused: {policy:?}"))?;
                must(policy.as_ref().clone().revised() == **policy, || "a policy has another revision".to_owned())?;
            }
            let again = Policies::from_toml(&text).map(|(_, warnings)| warnings);
            must(again.as_ref() == Ok(&warnings), || "the same file reads otherwise".to_owned())?;
            Ok(runner::hash(("taken", policies.iter().count().min(4), warnings.len().min(8))))
        }
        Err(error) => {
            let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
            must(!error.problems.is_empty(), || "refused without a reason".to_owned())?;
            for problem in &error.problems {
                must((1..=lines).contains(&problem.line) && !problem.rule.is_empty(), || format!("{problem:?}"))?;
            }
            must(error.to_string().len() < 200_000, || "an endless message".to_owned())?;
            // Which rule, not which name: the first words of it.
            let rule = |rule: &str| runner::hash(rule.split('`').next().map(str::to_owned));
            Ok(error.problems.iter().take(2).fold(1, |sum, problem| runner::hash((sum, rule(&problem.rule)))))
        }
    }
}
