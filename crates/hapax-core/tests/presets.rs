//! What each preset promises, written out: nothing here is computed from the presets themselves.

use hapax_core::{
    Effect, Millis, Preset, Span,
    policy::{AfterWindow, Keep, OnFull, OnInFlight, OnLapse, OnMismatch, OnStoreError, Treatment},
};

use Treatment::{Open, Release, Replay};

const fn seconds(seconds: u64) -> Span {
    Span::For(Millis(seconds * 1_000))
}

const MINUTES_5: Span = seconds(300);
const MINUTES_10: Span = seconds(600);
const HOURS_24: Span = seconds(86_400);
const DAYS_14: Span = seconds(1_209_600);
const FOREVER: Span = Span::Forever;

/// Success, final failure, retryable failure; seconds of a lease, and of waiting for another; records, and what happens when there are
/// as many; how much of an outcome is kept.
type Row = (Preset, Span, Treatment, Treatment, u64, Option<u64>, u64, OnFull, Keep);

#[rustfmt::skip]
const ROWS: [Row; 11] = {
    use {Keep::{Handle, Marker, Whole}, OnFull::{EvictOldestFinal as Evict, RejectNew as Refuse}};
    const MANY: u64 = 100_000_000;
    const KEPT: u64 = 10_000_000;
    [
        (Preset::Standard, HOURS_24,   Replay(HOURS_24),    Open,             60,  Some(10), MANY,    Refuse, Whole),
        (Preset::Stripe,   HOURS_24,   Replay(HOURS_24),    Replay(HOURS_24), 60,  Some(10), MANY,    Refuse, Whole),
        (Preset::Openwop,  HOURS_24,   Replay(HOURS_24),    Open,             60,  Some(10), MANY,    Evict,  Whole),
        (Preset::Activity, DAYS_14,    Replay(DAYS_14),     Open,             60,  Some(10), MANY,    Refuse, Whole),
        (Preset::Job,      MINUTES_5,  Replay(seconds(60)), Open,             60,  Some(30), 100_000, Evict,  Whole),
        (Preset::Run,      FOREVER,    Replay(FOREVER),     Release,          60,  Some(10), KEPT,    Refuse, Handle),
        (Preset::Bus,      MINUTES_10, Replay(MINUTES_10),  Open,             60,  None,     MANY,    Refuse, Marker),
        (Preset::Api,      MINUTES_5,  Replay(MINUTES_5),   Release,          300, Some(10), MANY,    Refuse, Whole),
        (Preset::Beat,     seconds(60), Replay(seconds(60)), Release,         300, Some(10), MANY,    Refuse, Whole),
        (Preset::Tool,     HOURS_24,   Replay(HOURS_24),    Release,          300, Some(10), MANY,    Refuse, Whole),
        (Preset::A2a,      FOREVER,    Release,             Open,             60,  Some(10), KEPT,    Refuse, Whole),
    ]
};

#[test]
fn presets_are_what_is_written_of_them() {
    for (preset, success, final_failure, retryable_failure, lease, wait, records, on_full, keep) in ROWS {
        let policy = preset.policy();
        let name = preset.name();
        assert_eq!(policy.success, success, "{name}");
        assert_eq!(policy.final_failure, final_failure, "{name}");
        assert_eq!(policy.retryable_failure, retryable_failure, "{name}");
        assert_eq!(policy.lease, Millis(lease * 1_000), "{name}");
        let wait = wait.map_or(OnInFlight::Reject, |most| OnInFlight::Wait { most: Millis(most * 1_000) });
        assert_eq!(policy.on_in_flight, wait, "{name}");
        assert_eq!(policy.capacity.max_records, records, "{name}");
        assert_eq!(policy.capacity.per_tenant, records / 10, "{name}");
        assert_eq!(policy.capacity.max_tombstones, records * 10, "{name}");
        assert_eq!(policy.capacity.on_full, on_full, "{name}");
        assert_eq!(policy.capture.keep, keep, "{name}");
    }
    assert_eq!(ROWS.map(|row| row.0), Preset::ALL, "each of them, once");
}

/// What no preset changes, and what of a lapse the queue between agents does.
#[test]
fn all_presets_agree_on_the_rest() {
    for preset in Preset::ALL {
        let policy = preset.policy();
        let name = preset.name();
        assert_eq!(policy.max_attempt, None, "{name}");
        assert_eq!(policy.on_mismatch, OnMismatch::Reject, "{name}");
        assert_eq!(policy.on_store_error, OnStoreError::FailClosed, "{name}");
        assert_eq!(policy.tombstone_retention, seconds(90 * 86_400), "{name}");
        assert_eq!(policy.sweep, Millis(10_000), "{name}");
        assert!(policy.enforces_fingerprints(), "{name}");
        for effect in Effect::ALL {
            let lapse = match (preset, effect) {
                (Preset::A2a, _) => OnLapse::Stale,
                (_, Effect::Pure | Effect::Idempotent) => OnLapse::Open,
                (_, Effect::Compensatable | Effect::Irreversible | Effect::Unsafe) => OnLapse::InDoubt,
            };
            assert_eq!(policy.lapse_for(effect), lapse, "{effect} under {name}");
            let after = if effect == Effect::Irreversible { AfterWindow::Refuse } else { AfterWindow::New };
            assert_eq!(policy.after_window_for(effect), after, "{effect} under {name}");
            assert_eq!(policy.rules_for(effect).open_retention, policy.success, "{effect} under {name}");
        }
    }
}
