//! What becomes of the plan by which a group is undone.

use std::sync::Arc;

use hapax_core::{
    Effect, Id, Millis, Moment, Span, Stamp, Ties, WallMillis,
    group::Started,
    plan::{Inverse, Plan, PlanCommand, PlanReply, StepState, Unwinding, apply_plan, came_of, stands_unlisted},
};

use crate::rules_support::{Cell, OK, about, begin, complete, fail, policy};

const NOW: Moment = Moment { now: Stamp(1_000), wall: WallMillis(7) };
const STATES: [StepState; 5] =
    [StepState::Pending, StepState::Done, StepState::Failed, StepState::Manual, StepState::SeenTo];

fn inverse(ordinal: u64) -> Inverse {
    let member = Id([u8::try_from(ordinal).unwrap(); 32]);
    let (input, state, note) = (bytes::Bytes::new(), StepState::Pending, None);
    Inverse { member, ordinal, name: "undo".into(), input, state, note }
}

fn make(ordinals: &[u64], without: u32) -> PlanCommand {
    let steps = ordinals.iter().map(|ordinal| inverse(*ordinal)).collect();
    PlanCommand::Make { about: about(), group: Id([9; 32]), steps, without }
}

fn mark(ordinal: u64, state: StepState) -> PlanCommand {
    PlanCommand::Mark { ordinal, state, note: None }
}

fn apply(plan: &mut Option<Plan>, command: &PlanCommand) -> Option<Plan> {
    let step = apply_plan(plan.as_ref(), command, NOW);
    if let Some(next) = step.write {
        *plan = Some(next);
    }
    match step.reply {
        PlanReply::Plan(plan) => Some(*plan),
        PlanReply::Absent => None,
    }
}

fn made(ordinals: &[u64], without: u32) -> Option<Plan> {
    let mut plan = None;
    apply(&mut plan, &make(ordinals, without));
    plan
}

/// Whoever comes after a crash must find the plan that was there, in its order, and not one of their own making.
#[test]
fn a_plan_is_made_once_with_the_last_start_first() {
    let mut plan = made(&[1, 3, 2, 3], 0);
    let order = |plan: &Plan| plan.steps.iter().map(|step| step.ordinal).collect::<Vec<_>>();
    assert_eq!(order(plan.as_ref().unwrap()), [3, 2, 1]);
    apply(&mut plan, &mark(3, StepState::Done));
    let again = apply(&mut plan, &make(&[1, 2, 3, 4], 5)).unwrap();
    assert_eq!((order(&again), again.without, again.steps[0].state), (vec![3, 2, 1], 0, StepState::Done));
}

/// What nobody has planned is not undone, whatever is said about it.
#[test]
fn without_a_plan_there_is_nothing_to_mark() {
    let keep = Span::For(Millis(1));
    for command in [PlanCommand::Run, mark(1, StepState::Done), PlanCommand::Settle { keep }] {
        let mut plan = None;
        assert_eq!(apply(&mut plan, &command), None, "{command:?}");
        assert_eq!(plan, None);
    }
    let mut plan = made(&[1], 0);
    let before = plan.clone();
    apply(&mut plan, &mark(2, StepState::Done));
    assert_eq!(plan, before, "a step that is not in it");
}

/// An inverse that is done stays done, whoever says otherwise later: it would be run a second time.
#[test]
fn what_is_done_stays_done() {
    for done in [StepState::Done, StepState::SeenTo] {
        for later in STATES {
            let mut plan = made(&[1], 0);
            apply(&mut plan, &mark(1, done));
            apply(&mut plan, &mark(1, later));
            assert_eq!(plan.as_ref().unwrap().steps[0].state, done, "{later:?}");
        }
    }
    // What failed, or waits for a person, may be tried again.
    for now in [StepState::Failed, StepState::Manual] {
        let mut plan = made(&[1], 0);
        apply(&mut plan, &mark(1, now));
        assert!(plan.as_ref().unwrap().next().is_none(), "{now:?}");
        apply(&mut plan, &mark(1, StepState::Pending));
        assert_eq!(plan.as_ref().unwrap().next().unwrap().ordinal, 1, "{now:?}");
    }
}

/// An inverse that waits for a person holds up what started before it; one that failed for good does not.
#[test]
fn no_inverse_runs_before_those_that_started_after_it_have_ended() {
    let mut plan = made(&[1, 2], 0);
    assert_eq!(plan.as_ref().unwrap().next().unwrap().ordinal, 2);
    apply(&mut plan, &mark(2, StepState::Manual));
    assert_eq!(plan.as_ref().unwrap().next(), None);
    apply(&mut plan, &mark(2, StepState::Failed));
    assert_eq!(plan.as_ref().unwrap().next().unwrap().ordinal, 1);
}

/// Every plan of two steps in every state: the one word that is said of it.
#[test]
fn the_word_for_a_plan_is_true() {
    for without in [0, 1] {
        assert_eq!(made(&[], without).unwrap().state(), if without == 0 { Unwinding::None } else { Unwinding::Failed });
        for first in STATES {
            for second in STATES {
                for running in [false, true] {
                    let mut plan = made(&[1, 2], without).unwrap();
                    plan.running = running;
                    plan.steps[0].state = first;
                    plan.steps[1].state = second;
                    let has = |state| first == state || second == state;
                    let undone = [first, second]
                        .iter()
                        .filter(|state| matches!(state, StepState::Done | StepState::SeenTo))
                        .count();
                    let expected = if has(StepState::Manual) {
                        Unwinding::Manual
                    } else if has(StepState::Pending) {
                        if running || undone > 0 { Unwinding::Running } else { Unwinding::Pending }
                    } else if undone == 2 && without == 0 {
                        Unwinding::Completed
                    } else if undone > 0 {
                        Unwinding::Partial
                    } else {
                        Unwinding::Failed
                    };
                    assert_eq!(plan.state(), expected, "{first:?}, {second:?}, {without} without, {running}");
                }
            }
        }
    }
}

/// Said twice, a plan runs once and its time counts from the first.
#[test]
fn running_and_settling_are_said_once() {
    let mut plan = made(&[1], 0);
    assert!(apply(&mut plan, &PlanCommand::Run).unwrap().running);
    assert!(apply_plan(plan.as_ref(), &PlanCommand::Run, NOW).write.is_none());
    apply(&mut plan, &PlanCommand::Settle { keep: Span::For(Millis(5)) });
    let kept = plan.as_ref().unwrap().kept;
    apply(&mut plan, &PlanCommand::Settle { keep: Span::Forever });
    assert_eq!((plan.as_ref().unwrap().kept, kept.unwrap().keep), (kept, Span::For(Millis(5))));
}

/// A record is what a start came to only if it is of that group and of that attempt. Else a refund would be given for what
/// another group did.
#[test]
fn a_record_is_undone_by_the_group_and_attempt_that_made_it() {
    let (ours, theirs) = (Id([1; 32]), Id([2; 32]));
    let tied = |group| Some(Arc::new(Ties { group: Some(group), ..Ties::default() }));
    let mut cell = Cell::new(policy());
    let first = hapax_core::command::Begin { ties: tied(ours), ..begin(1, Effect::Compensatable) };
    let token = cell.granted(first);
    let start = |attempt| Started { member: Id([7; 32]), attempt, epoch: 1, effect: Effect::Compensatable, ordinal: 1 };
    assert!(came_of(&cell.read().unwrap(), &ours, &start(1)));
    assert!(!came_of(&cell.read().unwrap(), &theirs, &start(1)));
    assert!(!came_of(&cell.read().unwrap(), &ours, &start(2)));
    assert_eq!(cell.ask(fail(token, 1)), OK);
    let second = hapax_core::command::Begin { ties: tied(theirs), ..begin(2, Effect::Compensatable) };
    let token = cell.granted(second);
    assert_eq!(cell.ask(complete(token, 1)), OK);
    assert!(came_of(&cell.read().unwrap(), &theirs, &start(2)));
    assert!(!came_of(&cell.read().unwrap(), &ours, &start(1)));
    // A call of no group is no group's.
    let mut cell = Cell::new(policy());
    let first = hapax_core::command::Begin { ties: tied(ours), ..begin(1, Effect::Compensatable) };
    let token = cell.granted(first);
    assert_eq!(cell.ask(fail(token, 1)), OK);
    let token = cell.granted(begin(2, Effect::Compensatable));
    assert_eq!(cell.ask(complete(token, 1)), OK);
    assert_eq!(cell.read().unwrap().ties, None);
}

/// What took place in a group and is not listed is said to stand, unless it only looked.
#[test]
fn what_took_place_without_an_inverse_is_counted() {
    let group = Id([1; 32]);
    for effect in Effect::ALL {
        let mut cell = Cell::new(policy());
        let ties = Some(Arc::new(Ties { group: Some(group), ..Ties::default() }));
        let token = cell.granted(hapax_core::command::Begin { ties, ..begin(1, effect) });
        assert!(!stands_unlisted(&cell.read().unwrap(), &group), "{effect}: it is under way");
        assert_eq!(cell.ask(complete(token, 1)), OK);
        let counted = matches!(effect, Effect::Idempotent | Effect::Unsafe);
        assert_eq!(stands_unlisted(&cell.read().unwrap(), &group), counted, "{effect}");
        assert!(!stands_unlisted(&cell.read().unwrap(), &Id([2; 32])));
    }
}
