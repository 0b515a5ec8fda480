//! Cordum: run intents and saga compensations.

use super::hex_sha256;
use crate::identity::key::Key;

/// `cordum.intent`: readable, joined by `:`.
#[must_use]
pub fn intent(workflow: &str, step: &str, operation: &str) -> Key {
    Key::made(format!("{workflow}:{step}:{operation}"))
}

/// `cordum.saga`: the key of a compensation.
///
/// It trims the joined text and writes step 0 as nothing, so that step 0 and "no step" are one key, and fields that
/// hold `|` may shift. [`native::saga`](super::native::saga) does neither.
#[must_use]
pub fn saga(workflow: &str, job: &str, topic: &str, capability: &str, step: u64) -> Key {
    let step = if step == 0 { String::new() } else { step.to_string() };
    let joined = [workflow, job, topic, capability, &step].join("|");
    let mut text = hex_sha256(joined.trim_matches('|').as_bytes());
    text.truncate(32);
    Key::made(format!("saga:{text}"))
}
