//! What a surface wants: how long, how many, and what to do when it is not clear.

mod key_rules;
mod preset;
mod validate;

use std::sync::Arc;

use crate::{
    Effect, Millis, OutcomeClass, Span,
    identity::{Pointer, PointerError, Selection},
    meaning::Answers,
    record::Rules,
    sha::sha256,
};

pub use key_rules::{GrammarName, KeyRules};
pub use preset::Preset;
pub use validate::{PolicyError, PolicyWarning, Problem};

/// What a lapse after the start leads to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnLapse {
    /// Run it again. Only for effects that may be run twice.
    Open,
    InDoubt,
    /// Stays pending, the token valid, until somebody resolves it.
    Stale,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AfterWindow {
    /// A late retry is a new request.
    New,
    /// A late retry is refused while the tombstone stands.
    Refuse,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnInFlight {
    Wait { most: Millis },
    Reject,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnMismatch {
    Reject,
    /// Let it through and count it.
    Observe,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MismatchInFlight {
    Mismatch,
    InFlight,
}

/// What happens to an outcome of one class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Treatment {
    /// Recorded, and given again for so long.
    Replay(Span),
    /// Kept only to be seen; the next request runs it again.
    Open,
    /// As if it had not been asked, if nothing had started; otherwise as `Open`.
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnFull {
    RejectNew,
    EvictOldestFinal,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Capacity {
    pub max_records: u64,
    pub per_tenant: u64,
    pub max_tombstones: u64,
    /// What one tenant's records may take, their bodies included. `None`: no limit of its own.
    pub bytes_per_tenant: Option<u64>,
    pub on_full: OnFull,
}

impl Capacity {
    /// So many records of any size, a tenth of them for one tenant, and ten times as many tombstones.
    #[must_use]
    pub const fn of(max_records: u64, on_full: OnFull) -> Self {
        let per_tenant = if max_records < 10 { max_records } else { max_records / 10 };
        let max_tombstones = max_records.saturating_mul(10);
        Self { max_records, per_tenant, max_tombstones, bytes_per_tenant: None, on_full }
    }
}

/// How much may run at once in this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Admission {
    pub max_in_flight: u32,
    pub per_tenant: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnStoreError {
    FailClosed,
    /// Run it without a record. Only for pure effects, and marked.
    FailOpen,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OnUncaptured {
    Refuse,
    Reinvoke,
}

/// How much of an outcome is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Keep {
    Whole,
    /// An identifier only.
    Handle,
    /// That it was done, nothing more.
    Marker,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture {
    pub keep: Keep,
    /// The longest body that is kept at all.
    pub max_body: u64,
    /// The longest body that lies inside its record.
    pub inline: u32,
    /// The headers that are kept; empty: the surface's own list.
    pub headers: Vec<Arc<str>>,
    pub on_uncaptured: OnUncaptured,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FingerprintMode {
    Enforce,
    Observe,
    Off,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FingerprintRules {
    pub mode: FingerprintMode,
    /// JSON pointers: only these. Empty: everything.
    pub fields: Vec<Arc<str>>,
    /// JSON pointers: all but these.
    pub ignore: Vec<Arc<str>>,
}

impl FingerprintRules {
    /// What of a JSON body is compared, as the pointers say; beyond them, `also` is left out.
    pub fn selection(&self, also: impl IntoIterator<Item = Pointer>) -> Result<Selection, PointerError> {
        let pointers =
            |texts: &[Arc<str>]| texts.iter().map(|text| Pointer::parse(text)).collect::<Result<Vec<_>, _>>();
        let fields = pointers(&self.fields)?;
        let mut ignore = pointers(&self.ignore)?;
        ignore.extend(also);
        // No fields named means all of them. A selection of none would guard nothing.
        let all = Selection::all();
        let selected = if fields.is_empty() { all } else { all.fields(fields) };
        selected.ignore(ignore)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    Enforce,
    /// Decide everything, stop nothing.
    Shadow,
}

/// The knobs of one surface. Start from a [`Preset`], change what differs, then [`Policy::check`] it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    pub name: Arc<str>,
    pub lease: Millis,
    pub max_attempt: Option<Millis>,
    pub on_in_flight: OnInFlight,
    pub on_mismatch: OnMismatch,
    /// `None`: as the caller's dialect has it, without one a mismatch.
    pub mismatch_in_flight: Option<MismatchInFlight>,
    /// `None`: open for pure and idempotent effects, in doubt for all others.
    pub on_lapse: [Option<OnLapse>; 5],
    /// `None`: refuse for irreversible effects, new for all others.
    pub after_window: Option<AfterWindow>,
    pub success: Span,
    pub final_failure: Treatment,
    pub retryable_failure: Treatment,
    /// `None`: as long as a success.
    pub open_retention: Option<Span>,
    pub tombstone_retention: Span,
    pub capacity: Capacity,
    pub admission: Option<Admission>,
    pub on_store_error: OnStoreError,
    /// The classes above idempotent that may run on a shared store which may forget what it acknowledged.
    pub best_effort: [bool; 5],
    pub capture: Capture,
    pub fingerprint: FingerprintRules,
    pub key: KeyRules,
    /// What the statuses of HTTP answers mean.
    pub answers: Answers,
    pub forward_key: bool,
    pub mode: Mode,
    /// How often the sweeper passes.
    pub sweep: Millis,
    /// Names exactly these knobs, for *explain*; set by [`Policy::revised`].
    pub revision: u64,
}

/// What the owner of an attempt should do with an outcome of a class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disposition {
    Complete,
    Reject,
    Fail,
    FailUnknown,
    Release,
}

impl Policy {
    /// The same policy under the name of its knobs: two policies that differ anywhere have different revisions.
    #[must_use]
    pub fn revised(mut self) -> Self {
        self.revision = 0;
        let digest = sha256(format!("{self:?}").as_bytes());
        self.revision = digest[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self
    }

    #[must_use]
    pub fn lapse_for(&self, effect: Effect) -> OnLapse {
        self.on_lapse[effect as usize].unwrap_or(if effect.may_rerun() { OnLapse::Open } else { OnLapse::InDoubt })
    }

    /// Whether an effect of this class may run where its record may be forgotten: then a retry would run it again.
    #[must_use]
    pub const fn may_be_forgotten(&self, effect: Effect) -> bool {
        effect.may_rerun() || self.best_effort[effect as usize]
    }

    #[must_use]
    pub fn after_window_for(&self, effect: Effect) -> AfterWindow {
        self.after_window.unwrap_or(match effect {
            Effect::Irreversible => AfterWindow::Refuse,
            Effect::Pure | Effect::Idempotent | Effect::Compensatable | Effect::Unsafe => AfterWindow::New,
        })
    }

    /// What a record of this effect carries along.
    #[must_use]
    pub fn rules_for(&self, effect: Effect) -> Rules {
        Rules {
            on_lapse: self.lapse_for(effect),
            open_retention: self.open_retention.unwrap_or(self.success),
            after_window: self.after_window_for(effect),
            tombstone_retention: self.tombstone_retention,
            revision: self.revision,
        }
    }

    #[must_use]
    pub const fn success_retention(&self) -> Span {
        self.success
    }

    /// How long a recorded failure is given again.
    #[must_use]
    pub const fn failure_retention(&self, class: OutcomeClass) -> Span {
        let treatment = match class {
            OutcomeClass::RetryableFailure | OutcomeClass::Unknown => self.retryable_failure,
            OutcomeClass::Success
            | OutcomeClass::FinalFailure
            | OutcomeClass::NotRecordable
            | OutcomeClass::NotAdmitted
            | OutcomeClass::Cancelled => self.final_failure,
        };
        match treatment {
            Treatment::Replay(span) => span,
            // Somebody rejects what the policy would not have recorded, an operator for instance: as a success.
            Treatment::Open | Treatment::Release => self.success,
        }
    }

    #[must_use]
    pub const fn enforces_fingerprints(&self) -> bool {
        matches!((self.on_mismatch, self.fingerprint.mode), (OnMismatch::Reject, FingerprintMode::Enforce))
    }

    /// Which class goes where; `started`: the effect may have been under way.
    #[must_use]
    pub const fn disposition(&self, class: OutcomeClass, started: bool) -> Disposition {
        let treatment = match class {
            OutcomeClass::Success => return Disposition::Complete,
            // The owner's word that nothing happened, which counts after the start too.
            OutcomeClass::NotRecordable => return Disposition::Release,
            OutcomeClass::NotAdmitted | OutcomeClass::Cancelled if !started => return Disposition::Release,
            // Breaking off says nothing about what was under way by then.
            OutcomeClass::NotAdmitted | OutcomeClass::Cancelled | OutcomeClass::Unknown => {
                return Disposition::FailUnknown;
            }
            OutcomeClass::FinalFailure => self.final_failure,
            OutcomeClass::RetryableFailure => self.retryable_failure,
        };
        match treatment {
            Treatment::Replay(_) => Disposition::Reject,
            Treatment::Release if !started => Disposition::Release,
            Treatment::Open | Treatment::Release => Disposition::Fail,
        }
    }
}
