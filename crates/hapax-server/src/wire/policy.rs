use std::collections::BTreeMap;

use hapax_core::Policy;
use schemars::JsonSchema;
use serde::Serialize;

/// What one surface wants.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PolicyWire {
    pub name: String,
    /// Names exactly these knobs.
    pub revision: String,
    /// Every knob with its value in words.
    pub knobs: BTreeMap<String, String>,
}

impl PolicyWire {
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let mut knobs = BTreeMap::new();
        let mut knob = |name: &str, value: String| drop(knobs.insert(name.to_owned(), value));
        knob("lease", policy.lease.to_string());
        knob("max_attempt", policy.max_attempt.map_or("none".to_owned(), |most| most.to_string()));
        knob("on_in_flight", format!("{:?}", policy.on_in_flight));
        knob("on_mismatch", format!("{:?}", policy.on_mismatch));
        knob("mismatch_in_flight", format!("{:?}", policy.mismatch_in_flight));
        for effect in hapax_core::Effect::ALL {
            knob(&format!("on_lapse.{effect}"), format!("{:?}", policy.lapse_for(effect)));
            knob(&format!("after_window.{effect}"), format!("{:?}", policy.after_window_for(effect)));
        }
        knob("success", policy.success.to_string());
        knob("final_failure", format!("{:?}", policy.final_failure));
        knob("retryable_failure", format!("{:?}", policy.retryable_failure));
        knob("open_retention", policy.open_retention.unwrap_or(policy.success).to_string());
        knob("tombstone_retention", policy.tombstone_retention.to_string());
        knob("capacity.max_records", policy.capacity.max_records.to_string());
        knob("capacity.per_tenant", policy.capacity.per_tenant.to_string());
        knob("capacity.max_tombstones", policy.capacity.max_tombstones.to_string());
        knob("capacity.on_full", format!("{:?}", policy.capacity.on_full));
        knob("admission", format!("{:?}", policy.admission));
        knob("on_store_error", format!("{:?}", policy.on_store_error));
        let allowed = hapax_core::Effect::ALL.into_iter().filter(|effect| policy.best_effort[*effect as usize]);
        knob("best_effort", allowed.map(hapax_core::Effect::name).collect::<Vec<_>>().join(" "));
        knob("capture.keep", format!("{:?}", policy.capture.keep));
        knob("capture.max_body", policy.capture.max_body.to_string());
        knob("capture.inline", policy.capture.inline.to_string());
        knob("fingerprint.mode", format!("{:?}", policy.fingerprint.mode));
        knob("fingerprint.fields", policy.fingerprint.fields.join(" "));
        knob("fingerprint.ignore", policy.fingerprint.ignore.join(" "));
        knob("mode", format!("{:?}", policy.mode));
        knob("sweep", policy.sweep.to_string());
        Self { name: policy.name.to_string(), revision: format!("{:016x}", policy.revision), knobs }
    }
}

/// The policies in force.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PolicyList {
    /// Of every surface without one of its own.
    pub standard: PolicyWire,
    pub surfaces: BTreeMap<String, PolicyWire>,
}
