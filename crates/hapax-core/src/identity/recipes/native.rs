//! Native recipes: every field framed with its label and length, the recipe's name and version hashed with them. So
//! they are injective, and a new version of a recipe never meets keys of the old one.

use crate::identity::frame::{self, Sink};
use crate::identity::key::Key;

/// A native recipe of any name over labelled fields; the order of the fields counts.
#[must_use]
pub fn named(name: &str, version: u32, fields: &[(&str, &[u8])]) -> Key {
    let digest = frame::tagged("hapax.recipe.v1", |hash| encode(hash, name, version, fields));
    Key::made(data_encoding::HEXLOWER.encode(&digest))
}

fn encode(sink: &mut impl Sink, name: &str, version: u32, fields: &[(&str, &[u8])]) {
    sink.frame(name.as_bytes());
    sink.number(u64::from(version));
    sink.number(fields.len() as u64);
    for (label, value) in fields {
        sink.frame(label.as_bytes());
        sink.frame(value);
    }
}

/// `hapax.activity.v1`: an activity without a business key. There is no attempt in it: attempts are counted beside the
/// key, so that a retry is the same operation.
#[must_use]
pub fn activity(tenant: &str, run: &str, node: &str, ordinal: u64, provider: &str) -> Key {
    named(
        "activity",
        1,
        &[
            ("tenant", tenant.as_bytes()),
            ("run", run.as_bytes()),
            ("node", node.as_bytes()),
            ("ordinal", &ordinal.to_le_bytes()),
            ("provider", provider.as_bytes()),
        ],
    )
}

/// `hapax.saga.v1`: the successor of `cordum.saga`. It tells step 0 from no step.
#[must_use]
pub fn saga(workflow: &str, job: &str, topic: &str, capability: &str, step: Option<u64>) -> Key {
    let step = step.map(u64::to_le_bytes);
    let step = step.as_ref().map_or(&[][..], |bytes| &bytes[..]);
    named(
        "saga",
        1,
        &[
            ("workflow", workflow.as_bytes()),
            ("job", job.as_bytes()),
            ("topic", topic.as_bytes()),
            ("capability", capability.as_bytes()),
            ("step", step),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Fields = Vec<(String, Vec<u8>)>;

    fn fields() -> impl Strategy<Value = Fields> {
        prop::collection::vec(("[ab|:]{0,3}", prop::collection::vec(0..3_u8, 0..9)), 0..4)
    }

    proptest! {
        #[test]
        fn native_fields_never_run_into_each_other(left in fields(), right in fields()) {
            let encoding = |fields: &Fields| {
                let fields: Vec<(&str, &[u8])> =
                    fields.iter().map(|(label, value)| (label.as_str(), value.as_slice())).collect();
                let mut bytes = Vec::new();
                encode(&mut bytes, "test", 1, &fields);
                bytes
            };
            prop_assert_eq!(left == right, encoding(&left) == encoding(&right));
        }
    }
}
