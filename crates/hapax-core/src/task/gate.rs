//! The retry gate: which stale leases may be handed out again without a person.

use std::fmt;

use crate::{Millis, Stamp};

use super::{Class, LeaseId, Task, TaskId, TaskState};

/// The bounds of one pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatePolicy {
    /// Without it a pass only reports what it would do.
    pub enabled: bool,
    pub min_lease_age: Millis,
    /// Executions in all.
    pub max_attempts: u32,
    /// In one pass.
    pub max_requeues: u32,
    pub scan_limit: u32,
}

impl Default for GatePolicy {
    fn default() -> Self {
        Self { enabled: false, min_lease_age: Millis(300_000), max_attempts: 3, max_requeues: 1, scan_limit: 100 }
    }
}

/// Why a task is left alone. The first that applies is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Skip {
    NotInFlight,
    MissingLease,
    LeaseTooYoung,
    MissingIdempotency,
    UnsafeDuplicateSafety,
    MaxAttemptsReached,
    LimitReached,
    CapabilityScopeMismatch,
}

impl Skip {
    pub const ALL: [Self; 8] = [
        Self::NotInFlight,
        Self::MissingLease,
        Self::LeaseTooYoung,
        Self::MissingIdempotency,
        Self::UnsafeDuplicateSafety,
        Self::MaxAttemptsReached,
        Self::LimitReached,
        Self::CapabilityScopeMismatch,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotInFlight => "not_in_flight",
            Self::MissingLease => "missing_lease",
            Self::LeaseTooYoung => "lease_too_young",
            Self::MissingIdempotency => "missing_idempotency",
            Self::UnsafeDuplicateSafety => "unsafe_duplicate_safety",
            Self::MaxAttemptsReached => "max_attempts_reached",
            Self::LimitReached => "limit_reached",
            Self::CapabilityScopeMismatch => "capability_scope_mismatch",
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether this task may be handed out again. `requeued`: how many were in this pass; `in_scope`: whether the caller's
/// capability reaches it.
pub fn judge_gate(task: &Task, policy: &GatePolicy, requeued: u32, in_scope: bool, now: Stamp) -> Result<(), Skip> {
    let leased = match &task.state {
        TaskState::Leased(leased) => leased,
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Resolved(_)
        | TaskState::Compacted { .. } => return Err(Skip::NotInFlight),
    };
    let age = leased.age(now).ok_or(Skip::MissingLease)?;
    if !leased.has_lapsed(now) || age < policy.min_lease_age {
        return Err(Skip::LeaseTooYoung);
    }
    match &task.order.idempotency {
        None => return Err(Skip::MissingIdempotency),
        Some(idempotency) if idempotency.class != Class::Idempotent => return Err(Skip::UnsafeDuplicateSafety),
        Some(_) => {}
    }
    if task.attempt >= policy.max_attempts {
        return Err(Skip::MaxAttemptsReached);
    }
    if requeued >= policy.max_requeues {
        return Err(Skip::LimitReached);
    }
    if !in_scope {
        return Err(Skip::CapabilityScopeMismatch);
    }
    Ok(())
}

/// What is said about one task that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateEntry {
    pub task: TaskId,
    pub tenant: std::sync::Arc<str>,
    /// The keys of its two sides: by them it is told who may see it.
    pub sender: std::sync::Arc<str>,
    pub recipient: std::sync::Arc<str>,
    pub lease: Option<LeaseId>,
    pub attempt: u32,
    pub lease_age: Option<Millis>,
}

pub type Requeued = GateEntry;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    pub entry: GateEntry,
    pub reason: Skip,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateReport {
    pub policy: GatePolicy,
    pub considered: u32,
    /// Handed out again or, in a preview, what would be.
    pub requeued: Vec<Requeued>,
    pub skipped: Vec<Skipped>,
}

impl GateReport {
    /// Leaves out what the reader may not see, also from the count.
    pub fn keep(&mut self, seen: impl Fn(&GateEntry) -> bool) {
        self.requeued.retain(&seen);
        self.skipped.retain(|skipped| seen(&skipped.entry));
        self.considered = u32::try_from(self.requeued.len() + self.skipped.len()).unwrap_or(u32::MAX);
    }
}

/// Judges tasks in the order in which they were found, and says what a pass over them does.
pub fn scan_gate<'t>(tasks: impl IntoIterator<Item = (&'t Task, bool)>, policy: GatePolicy, now: Stamp) -> GateReport {
    let mut report = GateReport { policy, considered: 0, requeued: Vec::new(), skipped: Vec::new() };
    for (task, in_scope) in tasks.into_iter().take(policy.scan_limit as usize) {
        report.considered += 1;
        let entry = GateEntry::of(task, now);
        let requeued = u32::try_from(report.requeued.len()).unwrap_or(u32::MAX);
        match judge_gate(task, &policy, requeued, in_scope, now) {
            Ok(()) => report.requeued.push(entry),
            Err(reason) => report.skipped.push(Skipped { entry, reason }),
        }
    }
    report
}

impl GateEntry {
    #[must_use]
    pub fn of(task: &Task, now: Stamp) -> Self {
        let lease_age = match &task.state {
            TaskState::Leased(leased) => leased.age(now),
            TaskState::Sent { .. }
            | TaskState::Joined { .. }
            | TaskState::Queued { .. }
            | TaskState::Resolved(_)
            | TaskState::Compacted { .. } => None,
        };
        Self {
            task: task.order.id,
            tenant: std::sync::Arc::clone(&task.about.tenant),
            sender: std::sync::Arc::clone(&task.order.sender.key),
            recipient: std::sync::Arc::clone(&task.order.recipient.key),
            lease: task.lease_id(),
            attempt: task.attempt,
            lease_age,
        }
    }
}
