use std::collections::BTreeMap;

use hapax_core::{
    Effect, Policy,
    policy::{Capacity, Capture, FingerprintRules, KeyRules, OnInFlight, Treatment},
};
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
        // Taken apart, so that a knob which comes to be added is not left out here.
        let Policy {
            name,
            lease,
            max_attempt,
            on_in_flight,
            on_mismatch,
            mismatch_in_flight,
            on_lapse: _by_class,
            after_window: _by_class_too,
            success,
            final_failure,
            retryable_failure,
            open_retention,
            tombstone_retention,
            capacity: Capacity { max_records, per_tenant, max_tombstones, bytes_per_tenant, on_full },
            admission,
            on_store_error,
            best_effort,
            capture: Capture { keep, max_body, inline, headers, on_uncaptured },
            fingerprint: FingerprintRules { mode: fingerprint_mode, fields, ignore },
            key: KeyRules { source, required, grammar, max_len },
            answers,
            forward_key,
            mode,
            sweep,
            revision,
        } = policy;
        let mut knobs = BTreeMap::new();
        let mut knob = |name: &str, value: String| drop(knobs.insert(name.to_owned(), value));
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        // Where the policy says nothing, the dialect of a route does.
        let or_dialect = |value: Option<String>| value.unwrap_or_else(|| "as the dialect has it".to_owned());
        knob("lease", lease.to_string());
        knob("max_attempt", or_none(max_attempt.map(|most| most.to_string())));
        knob("on_in_flight", in_flight(*on_in_flight));
        knob("on_mismatch", words::on_mismatch(*on_mismatch).to_owned());
        knob("mismatch_in_flight", or_dialect(mismatch_in_flight.map(|word| words::mismatch(word).to_owned())));
        for effect in Effect::ALL {
            knob(&format!("on_lapse.{effect}"), words::on_lapse(policy.lapse_for(effect)).to_owned());
            knob(&format!("after_window.{effect}"), words::after_window(policy.after_window_for(effect)).to_owned());
        }
        knob("success", success.to_string());
        knob("final_failure", treatment(*final_failure));
        knob("retryable_failure", treatment(*retryable_failure));
        knob("open_retention", open_retention.unwrap_or(*success).to_string());
        knob("tombstone_retention", tombstone_retention.to_string());
        knob("capacity.max_records", max_records.to_string());
        knob("capacity.per_tenant", per_tenant.to_string());
        knob("capacity.max_tombstones", max_tombstones.to_string());
        knob("capacity.bytes_per_tenant", or_none(bytes_per_tenant.map(|most| most.to_string())));
        knob("capacity.on_full", words::on_full(*on_full).to_owned());
        knob("admission.max_in_flight", or_none(admission.map(|admission| admission.max_in_flight.to_string())));
        knob("admission.per_tenant", or_none(admission.map(|admission| admission.per_tenant.to_string())));
        knob("on_store_error", words::on_store_error(*on_store_error).to_owned());
        let allowed = Effect::ALL.into_iter().filter(|effect| best_effort[*effect as usize]);
        knob("best_effort", allowed.map(Effect::name).collect::<Vec<_>>().join(" "));
        knob("capture.keep", words::keep(*keep).to_owned());
        knob("capture.max_body", max_body.to_string());
        knob("capture.inline", inline.to_string());
        knob("capture.headers", headers.join(" "));
        knob("capture.on_uncaptured", words::on_uncaptured(*on_uncaptured).to_owned());
        knob("fingerprint.mode", words::fingerprint(*fingerprint_mode).to_owned());
        knob("fingerprint.fields", fields.join(" "));
        knob("fingerprint.ignore", ignore.join(" "));
        let sources =
            source.as_ref().map(|sources| sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        knob("key.source", or_dialect(sources));
        knob("key.required", or_dialect(required.map(|required| required.to_string())));
        knob("key.grammar", or_dialect(grammar.map(|grammar| grammar.name().to_owned())));
        knob("key.max_len", or_dialect(max_len.map(|most| most.to_string())));
        knob("answers", answers.name().to_owned());
        knob("forward_key", forward_key.to_string());
        knob("mode", words::mode(*mode).to_owned());
        knob("sweep", sweep.to_string());
        Self { name: name.to_string(), revision: format!("{revision:016x}"), knobs }
    }
}

fn in_flight(rule: OnInFlight) -> String {
    match rule {
        OnInFlight::Wait { most } => format!("wait {most}"),
        OnInFlight::Reject => "reject".to_owned(),
    }
}

fn treatment(rule: Treatment) -> String {
    match rule {
        Treatment::Replay(span) => span.to_string(),
        Treatment::Open => "open".to_owned(),
        Treatment::Release => "release".to_owned(),
    }
}

/// The words of a policy file.
mod words {
    use hapax_core::policy::{
        AfterWindow, FingerprintMode, Keep, MismatchInFlight, Mode, OnFull, OnLapse, OnMismatch, OnStoreError,
        OnUncaptured,
    };

    pub(super) const fn on_mismatch(rule: OnMismatch) -> &'static str {
        match rule {
            OnMismatch::Reject => "reject",
            OnMismatch::Observe => "observe",
        }
    }

    pub(super) const fn mismatch(rule: MismatchInFlight) -> &'static str {
        match rule {
            MismatchInFlight::Mismatch => "mismatch",
            MismatchInFlight::InFlight => "in_flight",
        }
    }

    pub(super) const fn on_lapse(rule: OnLapse) -> &'static str {
        match rule {
            OnLapse::Open => "open",
            OnLapse::InDoubt => "in_doubt",
            OnLapse::Stale => "stale",
        }
    }

    pub(super) const fn after_window(rule: AfterWindow) -> &'static str {
        match rule {
            AfterWindow::New => "new",
            AfterWindow::Refuse => "refuse",
        }
    }

    pub(super) const fn on_full(rule: OnFull) -> &'static str {
        match rule {
            OnFull::RejectNew => "reject_new",
            OnFull::EvictOldestFinal => "evict_oldest_final",
        }
    }

    pub(super) const fn on_store_error(rule: OnStoreError) -> &'static str {
        match rule {
            OnStoreError::FailClosed => "fail_closed",
            OnStoreError::FailOpen => "fail_open",
        }
    }

    pub(super) const fn keep(rule: Keep) -> &'static str {
        match rule {
            Keep::Whole => "whole",
            Keep::Handle => "handle",
            Keep::Marker => "marker",
        }
    }

    pub(super) const fn on_uncaptured(rule: OnUncaptured) -> &'static str {
        match rule {
            OnUncaptured::Refuse => "refuse",
            OnUncaptured::Reinvoke => "reinvoke",
        }
    }

    pub(super) const fn fingerprint(mode: FingerprintMode) -> &'static str {
        match mode {
            FingerprintMode::Enforce => "enforce",
            FingerprintMode::Observe => "observe",
            FingerprintMode::Off => "off",
        }
    }

    pub(super) const fn mode(mode: Mode) -> &'static str {
        match mode {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        }
    }
}

/// The policies in force.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PolicyList {
    /// Of every surface without one of its own.
    pub standard: PolicyWire,
    pub surfaces: BTreeMap<String, PolicyWire>,
}

#[cfg(test)]
mod tests {
    use hapax_engine::Policies;

    use super::*;

    /// Each knob of a file, changed alone, is shown: whoever compares two files is told of it.
    #[test]
    fn a_change_of_any_knob_is_seen() {
        let of = |text: &str| PolicyWire::of(Policies::from_toml(text).unwrap().0.standard()).knobs;
        let before = of("");
        for change in [
            "lease = \"61s\"",
            "max_attempt = \"1h\"",
            "on_in_flight = \"reject\"",
            "on_mismatch = \"observe\"",
            "mismatch_in_flight = \"in_flight\"",
            "on_lapse = { unsafe = \"stale\" }",
            "after_window = \"refuse\"",
            "success = \"2d\"",
            "final_failure = \"open\"",
            "retryable_failure = \"1h\"",
            "open_retention = \"2d\"",
            "tombstone_retention = \"91d\"",
            "capacity = { max_records = 7 }",
            "capacity = { per_tenant = 7 }",
            "capacity = { max_tombstones = 7 }",
            "capacity = { bytes_per_tenant = 7 }",
            "capacity = { on_full = \"evict_oldest_final\" }",
            "admission = { max_in_flight = 7 }",
            "admission = { max_in_flight = 7, per_tenant = 3 }",
            "best_effort = [\"unsafe\"]",
            "capture = { keep = \"marker\" }",
            "capture = { max_body = \"2MiB\" }",
            "capture = { inline = \"1KiB\" }",
            "capture = { headers = [\"x-a\"] }",
            "capture = { on_uncaptured = \"reinvoke\" }",
            "fingerprint = { mode = \"observe\" }",
            "fingerprint = { fields = [\"/a\"] }",
            "fingerprint = { ignore = [\"/a\"] }",
            "key = { source = [\"header:X-Key\", \"query:k\", \"body:/key\", \"automatic\"] }",
            "key = { source = [\"template:{order}\"] }",
            "key = { required = true }",
            "key = { grammar = \"openwop2\" }",
            "key = { max_len = 7 }",
            "answers = \"stripe\"",
            "forward_key = false",
            "mode = \"shadow\"",
            "sweep = \"11s\"",
        ] {
            let after = of(&format!("[default]\n{change}\n"));
            assert_ne!(before, after, "{change}");
            assert!(after.values().all(|value| !value.contains("Millis(")), "{after:?}");
        }
    }
}
