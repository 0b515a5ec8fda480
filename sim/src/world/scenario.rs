//! What one seed chooses before anything happens.

use std::time::Duration;

use hapax_core::{
    Effect, Millis, Policy, Preset, Span,
    policy::{
        Admission, AfterWindow, Capacity, FingerprintMode, MismatchInFlight, Mode, OnFull, OnInFlight, OnLapse,
        OnMismatch, OnStoreError, Treatment,
    },
};
use hapax_engine::{Settings, gate::GateSize};
use hapax_store::{Landing, Odds, Seeded};

pub(super) const TENANTS: [&str; 3] = ["acme", "zeta", "umbra"];
pub(super) const KEYS: [&str; 4] = ["order-1", "order-2", "order-3", "order-4"];
pub(super) const SURFACES: [&str; 2] = ["pay", "mail"];

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) processes: usize,
    /// One process that holds the store itself.
    pub(super) local: bool,
    pub(super) policies: Vec<Policy>,
    /// The class of each key on each surface.
    pub(super) effects: Vec<Vec<Effect>>,
    pub(super) tenants: usize,
    pub(super) keys: usize,
    pub(super) clients: usize,
    pub(super) calls: usize,
    pub(super) odds: Odds,
    pub(super) landing: Landing,
    pub(super) slow: Millis,
    pub(super) delays: u64,
    pub(super) jumps: bool,
    pub(super) partitions: bool,
    pub(super) crashes: bool,
    pub(super) cancels: bool,
    pub(super) probes: bool,
    pub(super) operator: bool,
    pub(super) epochs: bool,
    /// How long a client rests between two calls, at most.
    pub(super) rest: u64,
    pub(super) settings: Settings,
}

impl Scenario {
    /// Each world has only some of the troubles, so that one does not drown the other.
    #[must_use]
    pub(super) fn draw(dice: &mut Seeded) -> Self {
        let processes = 1 + number(dice, 3);
        let local = processes == 1 && dice.chance(700);
        let often = |dice: &mut Seeded, most: u64| if dice.chance(500) { dice.below(most) } else { 0 };
        let odds = Odds {
            before: often(dice, 120),
            after: often(dice, 120),
            late: often(dice, 120),
            lost_read: often(dice, 120),
            slow: often(dice, 60),
            stale: often(dice, 40),
            landing: 50 + dice.below(200),
        };
        let landing = match dice.below(3) {
            // A store inside the process has no wire on which a write could linger for long.
            0 if !local => Landing::After(Millis(1 + dice.below(20_000))),
            _ => Landing::SomeCall,
        };
        let surfaces = 1 + number(dice, SURFACES.len() as u64);
        let policies = (0..surfaces).map(|_| policy(dice)).collect();
        let effects = (0..surfaces).map(|_| KEYS.iter().map(|_| effect(dice)).collect()).collect();
        Self {
            processes,
            local,
            policies,
            effects,
            tenants: 2 + number(dice, 2),
            keys: 1 + number(dice, KEYS.len() as u64),
            clients: 3 + number(dice, 8),
            calls: 15 + number(dice, 50),
            odds,
            landing,
            slow: Millis(1 + dice.below(900)),
            delays: often(dice, 300),
            jumps: dice.chance(400),
            partitions: dice.chance(500),
            crashes: dice.chance(500),
            cancels: dice.chance(500),
            probes: dice.chance(500),
            operator: dice.chance(600),
            epochs: dice.chance(250),
            rest: *dice.pick(&[20, 500, 3_000]).unwrap_or(&500),
            settings: settings(dice),
        }
    }
}

fn number(dice: &mut Seeded, below: u64) -> usize {
    usize::try_from(dice.below(below)).unwrap_or(0)
}

/// The dangerous ones more often.
fn effect(dice: &mut Seeded) -> Effect {
    *dice
        .pick(&[
            Effect::Pure,
            Effect::Idempotent,
            Effect::Compensatable,
            Effect::Irreversible,
            Effect::Unsafe,
            Effect::Unsafe,
        ])
        .unwrap_or(&Effect::Unsafe)
}

fn settings(dice: &mut Seeded) -> Settings {
    let waiters = *dice.pick(&[1, 3, 1_000]).unwrap_or(&3);
    Settings {
        gate: GateSize {
            entries: *dice.pick(&[1, 16, 10_000]).unwrap_or(&16),
            bytes: *dice.pick(&[2_000, 1_000_000]).unwrap_or(&2_000),
            tenant_share: 1 + number(dice, 3),
        },
        waiters_per_key: waiters,
        waiters: waiters + number(dice, 3),
        events: *dice.pick(&[16, 100_000]).unwrap_or(&16),
        store_retries: 1 + dice.below(4) as u32,
        store_backoff: Duration::from_millis(1 + dice.below(10)),
        store_timeout: Duration::from_millis(200 + dice.below(1_500)),
        probe_first: Duration::from_millis(100 + dice.below(2_000)),
        probe_longest: Duration::from_secs(10),
        probe_timeout: Duration::from_millis(500 + dice.below(3_000)),
        sweep_slice: 1 + number(dice, 8),
        orphan_age: Duration::from_secs(30 + dice.below(60)),
        ..Settings::default()
    }
}

fn millis(dice: &mut Seeded, least: u64, most: u64) -> Millis {
    Millis(least + dice.below(most - least))
}

/// A preset with some of its knobs turned, all windows short enough to end inside a world.
fn policy(dice: &mut Seeded) -> Policy {
    let base = dice.pick(&Preset::ALL).copied().unwrap_or_default().policy();
    let kept = millis(dice, 2_000, 60_000);
    let shortened = |treatment: Treatment, length: Millis| match treatment {
        Treatment::Replay(_) => Treatment::Replay(Span::For(length)),
        Treatment::Open => Treatment::Open,
        Treatment::Release => Treatment::Release,
    };
    let mut policy = Policy {
        lease: millis(dice, 300, 8_000),
        success: if base.success == Span::Forever { Span::Forever } else { Span::For(kept) },
        final_failure: shortened(base.final_failure, millis(dice, 2_000, 60_000)),
        retryable_failure: shortened(base.retryable_failure, millis(dice, 2_000, 30_000)),
        open_retention: Some(Span::For(millis(dice, 2_000, 60_000))),
        tombstone_retention: Span::For(millis(dice, 5_000, 60_000)),
        sweep: millis(dice, 300, 8_000),
        on_in_flight: match dice.below(3) {
            0 => OnInFlight::Reject,
            1.. => OnInFlight::Wait { most: millis(dice, 50, 6_000) },
        },
        ..base
    };
    if dice.chance(200) {
        policy.max_attempt = Some(millis(dice, 1_000, 10_000));
    }
    if dice.chance(150) {
        policy.on_lapse = [Some(OnLapse::Stale); 5];
    }
    if dice.chance(300) {
        policy.after_window = Some(if dice.chance(500) { AfterWindow::Refuse } else { AfterWindow::New });
    }
    if dice.chance(100) {
        policy.on_mismatch = OnMismatch::Observe;
    }
    if dice.chance(300) {
        policy.mismatch_in_flight = Some(MismatchInFlight::InFlight);
    }
    if dice.chance(60) {
        policy.fingerprint.mode = FingerprintMode::Off;
    }
    if dice.chance(400) {
        let on_full = if dice.chance(700) { OnFull::EvictOldestFinal } else { OnFull::RejectNew };
        let max_records = 3 + dice.below(8);
        let per_tenant = 1 + dice.below(max_records);
        let max_tombstones = 1 + dice.below(12);
        // Without a throw of its own, so that no earlier world becomes another.
        let bytes_per_tenant = max_records.is_multiple_of(4).then_some(600 * per_tenant);
        policy.capacity = Capacity { max_records, per_tenant, max_tombstones, bytes_per_tenant, on_full };
    }
    if dice.chance(250) {
        policy.admission =
            Some(Admission { max_in_flight: 2 + dice.below(3) as u32, per_tenant: 1 + dice.below(2) as u32 });
    }
    if dice.chance(250) {
        policy.on_store_error = OnStoreError::FailOpen;
    }
    if dice.chance(400) {
        policy.capture.inline = 48;
    }
    if dice.chance(150) {
        policy.capture.max_body = 120;
        policy.capture.inline = policy.capture.inline.min(120);
    }
    if dice.chance(60) {
        policy.mode = Mode::Shadow;
    }
    match policy.check() {
        Ok(_) => policy,
        // A knob that does not fit the others: the preset's own values then.
        Err(_) => Policy { lease: Millis(2_000), ..Preset::Standard.policy() },
    }
}
