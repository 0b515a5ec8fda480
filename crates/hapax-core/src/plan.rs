//! The plan by which a group is undone: what to do, in which order, and how far it has come.
//!
//! It is written once, before the first inverse runs, and after a crash it is resumed, never built again. Each inverse
//! is an operation of its own with a key that is made of its group and ordinal and no attempt, so that however often a
//! step is run, its effect happens once.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Anchor, Effect, Id, Moment, Record, Span, Stamp, State, WallMillis,
    group::{Started, is_listed},
    record::About,
};

/// How far one inverse has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StepState {
    Pending,
    Done,
    /// It was tried and failed for good.
    Failed,
    /// Nobody can say whether it happened, or nothing knows how to do it: a person has to look.
    Manual,
    /// A person has seen to it.
    SeenTo,
}

/// One inverse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inverse {
    /// The effect that it undoes.
    pub member: Id,
    pub ordinal: u64,
    pub name: Arc<str>,
    pub input: Bytes,
    pub state: StepState,
    /// What a person should know about it.
    pub note: Option<Arc<str>>,
}

/// How the undoing of a group stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unwinding {
    /// There was nothing to undo.
    None,
    /// Planned, nothing has run.
    Pending,
    Running,
    Completed,
    /// Some effects are undone, others cannot be.
    Partial,
    /// None could be undone.
    Failed,
    /// It waits for a person.
    Manual,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub about: Arc<About>,
    pub group: Id,
    /// In the order in which they run: the last start first.
    pub steps: Vec<Inverse>,
    /// Effects of the group that took place and that no inverse was declared for. What only looks is not among them.
    pub without: u32,
    pub running: bool,
    pub made_wall: WallMillis,
    /// Its group is closed: kept for so long.
    pub kept: Option<Kept>,
}

/// How long a plan outlives the closing of its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    pub since: Anchor,
    pub keep: Span,
}

impl Plan {
    pub const fn settle(&mut self, stamp: Stamp) {
        if let Some(kept) = &mut self.kept {
            kept.since = kept.since.settled(stamp);
        }
    }

    #[must_use]
    pub fn state(&self) -> Unwinding {
        let count = |wanted: &[StepState]| self.steps.iter().filter(|step| wanted.contains(&step.state)).count();
        let undone = count(&[StepState::Done, StepState::SeenTo]);
        if count(&[StepState::Manual]) > 0 {
            return Unwinding::Manual;
        }
        if count(&[StepState::Pending]) > 0 {
            return if self.running || undone > 0 { Unwinding::Running } else { Unwinding::Pending };
        }
        match (self.steps.is_empty(), undone == self.steps.len(), undone, self.without) {
            (true, _, _, 0) => Unwinding::None,
            (false, true, _, 0) => Unwinding::Completed,
            (_, _, 0, _) => Unwinding::Failed,
            (_, _, _, _) => Unwinding::Partial,
        }
    }

    /// The next inverse to run: never one before all that started after it have come to an end. One that waits for a
    /// person holds up those behind it; one that failed for good does not.
    #[must_use]
    pub fn next(&self) -> Option<&Inverse> {
        let first = self.steps.iter().find(|step| matches!(step.state, StepState::Pending | StepState::Manual));
        first.filter(|step| step.state == StepState::Pending)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanCommand {
    /// Persists the plan, unless there is one.
    Make { about: Arc<About>, group: Id, steps: Vec<Inverse>, without: u32 },
    /// The first inverse is about to run.
    Run,
    /// One inverse has come so far.
    Mark { ordinal: u64, state: StepState, note: Option<Arc<str>> },
    /// Its group is closed.
    Settle { keep: Span },
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum PlanReply {
    /// The plan as it stands.
    Plan(Box<Plan>),
    Absent,
}

#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct PlanStep {
    pub write: Option<Plan>,
    pub reply: PlanReply,
}

/// Of each member the last start that the group lists: what it came to is this member's part in the plan.
#[must_use]
pub fn last_starts(starts: &[Started]) -> Vec<Started> {
    let is_last = |start: &&Started| !starts.iter().any(|s| s.member == start.member && s.attempt > start.attempt);
    starts.iter().filter(is_last).copied().collect()
}

/// Whether this record is what the last listed start of a member came to. A later attempt of the same group that is not
/// listed was never let start, so it changes nothing about that; one by another group, or by none, is not this group's
/// to undo.
#[must_use]
pub fn came_of(record: &Record, group: &Id, start: &Started) -> bool {
    is_member(record, group) && is_listed(record.effect) && record.attempt.number >= start.attempt
}

/// Whether it is still unknown what became of a listed start, although its member was taken up since by another group or
/// by none: the doubt is this group's all the same.
#[must_use]
pub fn is_still_doubted(record: &Record, group: &Id, start: &Started) -> bool {
    let undecided = match &record.state {
        State::Pending(_) | State::InDoubt(_) => true,
        State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
    };
    let doubted = record.earlier_doubt.as_ref().is_some_and(|doubt| start.attempt >= doubt.attempt);
    undecided && doubted && !is_member(record, group)
}

/// Whether an effect that the group does not list took place in it: nobody has said how it is undone.
#[must_use]
pub fn stands_unlisted(record: &Record, group: &Id) -> bool {
    let took_place = match &record.state {
        State::Committed(_) => true,
        State::Tombstone(stone) => !stone.rejected,
        State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Rejected(_) => false,
    };
    took_place && is_member(record, group) && record.effect != Effect::Pure && !is_listed(record.effect)
}

fn is_member(record: &Record, group: &Id) -> bool {
    record.ties.as_ref().and_then(|ties| ties.group) == Some(*group)
}

/// The one place where it is decided how far a plan has come.
pub fn apply_plan(current: Option<&Plan>, command: &PlanCommand, moment: Moment) -> PlanStep {
    match (current, command) {
        (None, PlanCommand::Make { about, group, steps, without }) => {
            let mut steps = steps.clone();
            steps.sort_by_key(|step| std::cmp::Reverse(step.ordinal));
            steps.dedup_by_key(|step| step.ordinal);
            put(Plan {
                about: about.clone(),
                group: *group,
                steps,
                without: *without,
                running: false,
                made_wall: moment.wall,
                kept: None,
            })
        }
        // Resumed, never rebuilt: the plan that was written first stands.
        (Some(plan), PlanCommand::Make { .. }) => same(plan),
        (None, PlanCommand::Run | PlanCommand::Mark { .. } | PlanCommand::Settle { .. }) => {
            PlanStep { write: None, reply: PlanReply::Absent }
        }
        (Some(plan), PlanCommand::Run) => {
            if plan.running {
                same(plan)
            } else {
                put(Plan { running: true, ..plan.clone() })
            }
        }
        (Some(plan), PlanCommand::Settle { keep }) => match plan.kept {
            Some(_) => same(plan),
            None => put(Plan { kept: Some(Kept { since: Anchor::Write, keep: *keep }), ..plan.clone() }),
        },
        (Some(plan), PlanCommand::Mark { ordinal, state, note }) => mark(plan, *ordinal, *state, note.as_ref()),
    }
}

fn mark(plan: &Plan, ordinal: u64, state: StepState, note: Option<&Arc<str>>) -> PlanStep {
    let mut next = plan.clone();
    let Some(step) = next.steps.iter_mut().find(|step| step.ordinal == ordinal) else { return same(plan) };
    // What is done stays done, whoever says otherwise later.
    if matches!(step.state, StepState::Done | StepState::SeenTo) || (step.state == state && step.note.as_ref() == note)
    {
        return same(plan);
    }
    step.state = state;
    step.note = note.cloned();
    put(next)
}

fn put(plan: Plan) -> PlanStep {
    PlanStep { reply: PlanReply::Plan(Box::new(plan.clone())), write: Some(plan) }
}

fn same(plan: &Plan) -> PlanStep {
    PlanStep { write: None, reply: PlanReply::Plan(Box::new(plan.clone())) }
}
