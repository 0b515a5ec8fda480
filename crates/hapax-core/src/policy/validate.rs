use std::fmt;

use crate::{
    Effect, Millis, Span,
    identity::{KeySource, Pointer},
};

use super::{FingerprintMode, Mode, OnInFlight, OnLapse, OnStoreError, OnUncaptured, Policy, Treatment};

/// One thing that is wrong with a policy: the knob, the rule, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    pub knob: &'static str,
    pub rule: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.knob, self.rule)
    }
}

/// A policy that cannot be used, with everything that is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    pub policy: String,
    pub problems: Vec<Problem>,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}` is refused", self.policy)?;
        for problem in &self.problems {
            write!(f, "; {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyError {}

/// Something that can be meant, but seldom is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyWarning(pub Problem);

impl Policy {
    /// Whether this policy can be used; if so, what is odd about it.
    pub fn check(&self) -> Result<Vec<PolicyWarning>, PolicyError> {
        let mut problems = Vec::new();
        let mut wrong = |knob, rule: &str| problems.push(Problem { knob, rule: rule.to_owned() });

        if self.lease == Millis::ZERO {
            wrong("lease", "0 would lapse at once; give a length such as 60s");
        }
        if self.max_attempt == Some(Millis::ZERO) {
            wrong("max_attempt", "0 would refuse every renewal; leave it out for no limit");
        }
        if self.on_in_flight == (OnInFlight::Wait { most: Millis::ZERO }) {
            wrong("on_in_flight", "waiting 0 is not waiting; say `reject`");
        }
        for (knob, span) in self.spans() {
            if span == Span::For(Millis::ZERO) {
                wrong(knob, "0 is refused; say `forever`, or how long");
            }
        }
        if self.tombstone_retention == Span::Forever {
            wrong("tombstone_retention", "a tombstone has no quota by age of its own; give a length such as 90d");
        }
        for effect in Effect::ALL {
            if self.lapse_for(effect) == OnLapse::Open && !effect.may_rerun() {
                wrong(
                    "on_lapse",
                    &format!("`open` runs {effect} work again without leave; only pure and idempotent work may"),
                );
            }
        }
        if self.retryable_failure == Treatment::Replay(Span::Forever) {
            wrong("retryable_failure", "a retryable failure cannot be replayed for ever; give a length");
        }
        self.check_capacity(&mut wrong);
        if self.capture.max_body < u64::from(self.capture.inline) {
            wrong("capture.inline", "a body inside its record cannot be longer than capture.max_body");
        }
        if self.capture.inline > 1024 * 1024 {
            wrong("capture.inline", "a record holds at most 1 MiB of body; longer ones lie beside it");
        }
        if self.fingerprint.mode == FingerprintMode::Off
            && !(self.fingerprint.fields.is_empty() && self.fingerprint.ignore.is_empty())
        {
            wrong("fingerprint", "`fields` and `ignore` mean nothing when the mode is `off`; remove them");
        }
        for pointer in self.fingerprint.fields.iter().chain(&self.fingerprint.ignore) {
            if let Err(error) = Pointer::parse(pointer) {
                wrong("fingerprint", &format!("`{pointer}` is no JSON pointer: {error}"));
            }
        }
        self.check_key(&mut wrong);
        if self.sweep == Millis::ZERO {
            wrong("sweep", "0 would never rest; give a length such as 10s");
        }
        if problems.is_empty() {
            Ok(self.warnings())
        } else {
            Err(PolicyError { policy: self.name.to_string(), problems })
        }
    }

    fn spans(&self) -> Vec<(&'static str, Span)> {
        let mut spans = vec![("success", self.success), ("tombstone_retention", self.tombstone_retention)];
        spans.extend(self.open_retention.map(|span| ("open_retention", span)));
        for (knob, treatment) in [("final_failure", self.final_failure), ("retryable_failure", self.retryable_failure)]
        {
            match treatment {
                Treatment::Replay(span) => spans.push((knob, span)),
                Treatment::Open | Treatment::Release => {}
            }
        }
        spans
    }

    fn check_capacity(&self, wrong: &mut impl FnMut(&'static str, &str)) {
        let capacity = &self.capacity;
        if capacity.max_records == 0 || capacity.per_tenant == 0 {
            wrong("capacity", "0 records would refuse everything; give a number");
        }
        if capacity.per_tenant > capacity.max_records {
            wrong("capacity.per_tenant", "one tenant cannot keep more than max_records");
        }
        if let Some(admission) = &self.admission {
            if admission.max_in_flight == 0 || admission.per_tenant == 0 {
                wrong("admission", "0 in flight would refuse everything; leave it out for no limit");
            }
            if admission.per_tenant > admission.max_in_flight {
                wrong("admission.per_tenant", "one tenant cannot run more than max_in_flight");
            }
        }
        // Ten times no records is no tombstones: that is one mistake, not two.
        if capacity.max_tombstones == 0 && capacity.max_records > 0 {
            wrong("capacity.max_tombstones", "0 would refuse everything; leave it out for ten times max_records");
        }
        if capacity.bytes_per_tenant == Some(0) {
            wrong("capacity.bytes_per_tenant", "0 would refuse everything; leave it out for no limit");
        }
    }

    fn check_key(&self, wrong: &mut impl FnMut(&'static str, &str)) {
        let key = &self.key;
        if key.max_len == Some(0) {
            wrong("key.max_len", "0 would refuse every key; leave it out for the grammar's own limit");
        }
        let Some(source) = &key.source else { return };
        if source.is_empty() {
            wrong("key.source", "without a place no key is ever found; leave it out for the dialect's own");
        }
        for place in source {
            match place {
                KeySource::JsonPointer(pointer) if pointer.tokens().is_empty() => {
                    wrong("key.source", "the whole body cannot be the key; name a member, such as `/idempotency_key`");
                }
                KeySource::Automatic if key.required == Some(true) => {
                    wrong("key.required", "a key that is made automatically is never missing; remove one of the two");
                }
                KeySource::Header(_)
                | KeySource::Query(_)
                | KeySource::JsonPointer(_)
                | KeySource::Template(_)
                | KeySource::Automatic => {}
            }
        }
    }

    fn warnings(&self) -> Vec<PolicyWarning> {
        let mut warnings = Vec::new();
        let mut odd = |knob, rule: String| warnings.push(PolicyWarning(Problem { knob, rule }));
        for (knob, span) in self.spans() {
            if let Span::For(length) = span
                && length < self.lease
            {
                odd(knob, format!("{length} is shorter than the lease of {}", self.lease));
            }
        }
        if self.on_store_error == OnStoreError::FailOpen {
            odd("on_store_error", "`fail_open` applies to pure effects only; all others fail closed".to_owned());
        }
        if self.capture.on_uncaptured == OnUncaptured::Reinvoke {
            odd("capture.on_uncaptured", "`reinvoke` applies to pure and idempotent effects only".to_owned());
        }
        if self.mode == Mode::Shadow {
            odd("mode", "`shadow` decides everything and stops nothing".to_owned());
        }
        warnings
    }
}
