use std::sync::Arc;

use crate::{Millis, Span, identity::KeySource, meaning::Answers};

use super::{
    Capacity, Capture, FingerprintMode, FingerprintRules, Keep, KeyRules, Mode, OnFull, OnInFlight, OnLapse,
    OnMismatch, OnStoreError, OnUncaptured, Policy, Treatment,
};

/// Where a policy starts from: what is recorded, replayed and for how long, as other systems do it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Preset {
    #[default]
    Standard,
    Stripe,
    Openwop,
    Activity,
    /// AD-40 job submissions.
    Job,
    /// Cordum runs.
    Run,
    Bus,
    /// ACF's three layers.
    Api,
    Beat,
    Tool,
    /// The queue between agents.
    A2a,
}

const DAY: Span = Span::For(Millis::from_hours(24));

impl Preset {
    pub const ALL: [Self; 11] = [
        Self::Standard,
        Self::Stripe,
        Self::Openwop,
        Self::Activity,
        Self::Job,
        Self::Run,
        Self::Bus,
        Self::Api,
        Self::Beat,
        Self::Tool,
        Self::A2a,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Stripe => "stripe",
            Self::Openwop => "openwop",
            Self::Activity => "activity",
            Self::Job => "job",
            Self::Run => "run",
            Self::Bus => "bus",
            Self::Api => "api",
            Self::Beat => "beat",
            Self::Tool => "tool",
            Self::A2a => "a2a",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == text)
    }

    #[must_use]
    pub fn policy(self) -> Policy {
        let base = standard(self.name());
        let policy = match self {
            Self::Standard => base,
            Self::Stripe => Policy { retryable_failure: Treatment::Replay(DAY), answers: Answers::Stripe, ..base },
            Self::Openwop => Policy {
                capacity: Capacity { on_full: OnFull::EvictOldestFinal, ..base.capacity },
                answers: Answers::Openwop,
                ..base
            },
            Self::Activity => kept_for(base, Millis::from_days(14)),
            Self::Job => Policy {
                success: Span::For(Millis::from_secs(300)),
                final_failure: Treatment::Replay(Span::For(Millis::from_secs(60))),
                on_in_flight: OnInFlight::Wait { most: Millis::from_secs(30) },
                capacity: Capacity::of(100_000, OnFull::EvictOldestFinal),
                ..base
            },
            Self::Run => Policy {
                success: Span::Forever,
                final_failure: Treatment::Replay(Span::Forever),
                retryable_failure: Treatment::Release,
                capacity: Capacity::of(10_000_000, OnFull::RejectNew),
                capture: Capture { keep: Keep::Handle, ..base.capture.clone() },
                key: KeyRules { source: Some(KeySource::of_run().into()), ..KeyRules::default() },
                ..base
            },
            Self::Bus => Policy {
                capture: Capture { keep: Keep::Marker, ..base.capture.clone() },
                on_in_flight: OnInFlight::Reject,
                ..kept_for(base, Millis::from_mins(10))
            },
            Self::Api => acf(base, Millis::from_mins(5)),
            Self::Beat => acf(base, Millis::from_secs(60)),
            Self::Tool => acf(base, Millis::from_hours(24)),
            Self::A2a => Policy {
                success: Span::Forever,
                final_failure: Treatment::Release,
                retryable_failure: Treatment::Open,
                on_lapse: [Some(OnLapse::Stale); 5],
                capacity: Capacity::of(10_000_000, OnFull::RejectNew),
                ..base
            },
        };
        policy.revised()
    }
}

fn kept_for(base: Policy, length: Millis) -> Policy {
    let span = Span::For(length);
    Policy { success: span, final_failure: Treatment::Replay(span), ..base }
}

fn acf(base: Policy, length: Millis) -> Policy {
    Policy { lease: Millis::from_secs(300), retryable_failure: Treatment::Release, ..kept_for(base, length) }
}

fn standard(name: &str) -> Policy {
    Policy {
        name: Arc::from(name),
        lease: Millis::from_secs(60),
        max_attempt: None,
        on_in_flight: OnInFlight::Wait { most: Millis::from_secs(10) },
        on_mismatch: OnMismatch::Reject,
        mismatch_in_flight: None,
        on_lapse: [None; 5],
        after_window: None,
        success: DAY,
        final_failure: Treatment::Replay(DAY),
        retryable_failure: Treatment::Open,
        open_retention: None,
        tombstone_retention: Span::For(Millis::from_days(90)),
        capacity: Capacity::of(100_000_000, OnFull::RejectNew),
        admission: None,
        on_store_error: OnStoreError::FailClosed,
        best_effort: [false; 5],
        capture: Capture {
            keep: Keep::Whole,
            max_body: 1024 * 1024,
            inline: 16 * 1024,
            headers: Vec::new(),
            on_uncaptured: OnUncaptured::Refuse,
        },
        fingerprint: FingerprintRules { mode: FingerprintMode::Enforce, fields: Vec::new(), ignore: Vec::new() },
        key: KeyRules::default(),
        answers: Answers::Standard,
        forward_key: true,
        mode: Mode::Enforce,
        sweep: Millis::from_secs(10),
        revision: 0,
    }
}
