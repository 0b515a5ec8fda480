//! Undoing what a group did: the last start first, each once, whatever dies when.

use hapax_core::{
    Body, Effect, Id, Nonce, Outcome, OutcomeClass, StateName,
    command::{Posture, Release, Resolution, Resolve},
    group::GroupPhase,
    plan::{StepState, Unwinding},
};
use hapax_engine::{
    Activity, Answered, Begun, Call, Classified, Compensations, Engine, GroupHandle, NoAnswer, Place, Progress, Turn,
    UndoError, UnwindOptions, Unwound,
};
use parking_lot::Mutex;

use super::*;

/// What a provider that knows keys has really undone, in order, and how often it was asked.
#[derive(Default)]
struct Undone {
    applied: Mutex<Vec<(String, u64)>>,
    asked: Mutex<Vec<u64>>,
}

impl Undone {
    fn ordinals(&self) -> Vec<u64> {
        self.applied.lock().iter().map(|(_, ordinal)| *ordinal).collect()
    }
}

fn inverses(undone: &Arc<Undone>, effect: Effect) -> Compensations {
    let undone = Arc::clone(undone);
    Compensations::default().on("undo", effect, move |undo| {
        let undone = Arc::clone(&undone);
        async move {
            let step: u64 = undo.input()?;
            assert_eq!(step, undo.ordinal, "the input is the one that its effect declared");
            undone.asked.lock().push(undo.ordinal);
            let mut applied = undone.applied.lock();
            if applied.iter().all(|(key, _)| *key != undo.downstream_key()) {
                applied.push((undo.downstream_key(), undo.ordinal));
            }
            Ok(())
        }
    })
}

fn member(engine: &Engine, key: &str, turn: &Turn) -> Call {
    super::member(engine, key, turn, Effect::Unsafe)
}

/// A group that has taken three steps, one of which never came to an effect, and one that failed.
async fn saga(engine: &Engine) -> (GroupHandle, Turn) {
    let (group, turn) = group(engine, "trip").await;
    pay(member(engine, "flight", &turn).compensated_by("undo", &1), "F1").await.unwrap();
    // The input stands in the outcome, and is known only with it.
    let hotel = member(engine, "hotel", &turn).compensated_from_outcome("undo", "/number");
    hotel.once(|_| async { Ok::<_, Failed>(serde_json::json!({ "number": 2 })) }).await.unwrap();
    let declined = member(engine, "declined", &turn).compensated_by("undo", &3);
    let refused = declined.once(|_| async { Err::<String, _>(Classified::lasting("no".to_owned())) }).await;
    assert!(refused.is_err());
    let given_back = begin(member(engine, "given-back", &turn).compensated_by("undo", &4)).await;
    assert!(given_back.release(engine, Release::NoEffect).await.unwrap().is_done());
    pay(member(engine, "car", &turn).compensated_by("undo", &5), "C1").await.unwrap();
    (group, turn)
}

fn unwinding(group: &GroupHandle, inverses: &Compensations) -> impl Future<Output = Unwound> + Send + use<> {
    let (group, inverses) = (group.clone(), inverses.clone());
    async move { group.unwind(&inverses).await.unwrap() }
}

fn plan_of(unwound: Unwound) -> (Unwinding, Vec<(u64, StepState)>) {
    match unwound {
        Unwound::Plan { state, plan } => (state, plan.steps.iter().map(|step| (step.ordinal, step.state)).collect()),
        Unwound::NotYet(members) => panic!("not yet: {members:?}"),
    }
}

pub async fn a_saga_is_undone_from_its_last_step_to_its_first(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, _) = saga(&engine).await;
    let undone = Arc::default();
    let (state, steps) = plan_of(group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap());
    assert_eq!(state, Unwinding::Completed);
    assert_eq!(steps, [(5, StepState::Done), (2, StepState::Done), (1, StepState::Done)]);
    assert_eq!(undone.ordinals(), [5, 2, 1]);
    // Said again, also by another process, nothing runs.
    let again = world.engine().group("acme", "trip").unwrap();
    assert_eq!(plan_of(again.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap()).0, Unwinding::Completed);
    assert_eq!(*undone.asked.lock(), [5, 2, 1]);
}

/// The process that undoes dies after each of its writes in turn, and another one goes on. With inverses that forward
/// their key, each is applied once and in order, wherever it died.
pub async fn crashed_between_any_two_steps_each_inverse_happens_once_and_in_order(stage: &Stage) {
    let mut crashes = 0;
    for writes in 0.. {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, _) = saga(&engine).await;
        let undone: Arc<Undone> = Arc::default();
        let inverses = inverses(&undone, Effect::Idempotent);
        let finished = dies_after(&world, writes, unwinding(&group, &inverses)).await.is_some();
        let so_far = undone.ordinals();
        assert!([5, 2, 1].starts_with(&so_far), "died after {writes} writes: {so_far:?}");
        if !so_far.is_empty() {
            // The plan is written before the first inverse runs, and is the one that is gone on with.
            assert!(group.plan().await.unwrap().is_some(), "died after {writes} writes: an inverse ran without a plan");
        }
        world.jump(3_600_000).await;
        let other = world.engine().group("acme", "trip").unwrap();
        let (state, _) = plan_of(soon(other.unwind(&inverses)).await.unwrap());
        assert_eq!((state, undone.ordinals()), (Unwinding::Completed, vec![5, 2, 1]), "died after {writes} writes");
        if finished {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= 10, "only {crashes} places to die at");
}

/// The same with inverses of which nothing is known: none is run a second time by itself. What may have happened waits
/// for a person, and holds up what is behind it.
pub async fn an_inverse_that_may_have_happened_is_not_run_again_but_shown_to_a_person(stage: &Stage) {
    let (mut manual, mut completed) = (0, 0);
    for writes in 0.. {
        let world = stage.world().await;
        let engine = world.engine();
        let (group, _) = saga(&engine).await;
        let undone: Arc<Undone> = Arc::default();
        let inverses = inverses(&undone, Effect::Unsafe);
        let finished = dies_after(&world, writes, unwinding(&group, &inverses)).await.is_some();
        world.jump(3_600_000).await;
        let engine = world.engine();
        let other = engine.group("acme", "trip").unwrap();
        let unwound = soon(other.unwind(&inverses)).await.unwrap();
        let asked = undone.asked.lock().clone();
        assert!([5, 2, 1].starts_with(&asked), "died after {writes} writes: {asked:?}");
        match plan_of(unwound) {
            (Unwinding::Completed, _) => completed += 1,
            (Unwinding::Manual, steps) => {
                manual += 1;
                let (ordinal, _) = steps.iter().find(|(_, state)| *state == StepState::Manual).copied().unwrap();
                let _seen = other.seen_to(ordinal, "looked at the provider's page").await.unwrap();
                let (state, _) = plan_of(soon(other.unwind(&inverses)).await.unwrap());
                assert_eq!(state, Unwinding::Completed);
                assert!(undone.asked.lock().iter().filter(|asked| **asked == ordinal).count() <= 1);
            }
            (state, steps) => panic!("died after {writes} writes: {state:?}, {steps:?}"),
        }
        if finished {
            break;
        }
    }
    assert!(manual >= 3 && completed >= 3, "{manual} manual, {completed} completed");
}

/// A member is in doubt, or under way: what it did cannot be planned for. Nothing is undone before that is settled.
pub async fn nothing_is_undone_while_a_member_is_in_doubt(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = saga(&engine).await;
    let lost = begin(member(&engine, "lost", &turn).compensated_by("undo", &6)).await;
    world.jump(3_600_000).await;
    let undone: Arc<Undone> = Arc::default();
    let inverses = inverses(&undone, Effect::Unsafe);
    let unwound = group.unwind(&inverses).await.unwrap();
    assert_eq!(unwound, Unwound::NotYet(vec![(lost.id(), Progress::InDoubt)]));
    assert!(undone.asked.lock().is_empty());
    found(&engine, &lost.id()).await;
    let (state, _) = plan_of(group.unwind(&inverses).await.unwrap());
    assert_eq!((state, undone.ordinals()), (Unwinding::Completed, vec![6, 5, 2, 1]));
}

/// A charge that a trip is paid with, and what gives it back.
fn charge(engine: &Engine) -> Activity {
    let place = Place { run: "run-1", node: "pay", ordinal: 0, provider: "stripe:create-charge" };
    engine.activity("acme", &place).effect(Effect::Compensatable).compensated_by("undo", &1)
}

/// Somebody finds out that what was in doubt had gone through.
async fn found(engine: &Engine, id: &Id) {
    let version = engine.version(id).await.unwrap();
    let resolution = Resolution::Committed(done("\"it happened\""));
    let resolve = Resolve { version, resolution, actor: "ops".into(), reason: "seen there".into() };
    assert!(engine.resolve(id, resolve).await.unwrap().is_done());
}

/// A charge of the trip is lost, and the call that repeats it is never sent. The trip is undone: the charge may have
/// happened, so nobody says that all of it is undone.
pub async fn a_lost_charge_holds_up_the_undoing_after_a_later_call_that_was_not_sent(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    let charge = || charge(&engine).in_turn(&turn);
    assert!(charge().perform(|_| async { Err(NoAnswer::Lost("no answer".into())) }).await.is_err());
    assert!(charge().perform(|_| async { Err(NoAnswer::NotSent("refused".into())) }).await.is_err());
    let undone: Arc<Undone> = Arc::default();
    let unwound = group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap();
    assert_eq!(unwound, Unwound::NotYet(vec![(charge().id().unwrap(), Progress::InDoubt)]));
}

/// A charge was lost, its provider would recognise another call, and that one was given back before its start. Then somebody
/// finds out that the first had gone through: it is undone with its group, although a later attempt stands in its record.
pub async fn a_lost_charge_that_is_found_is_undone_after_a_later_call_that_never_started(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    let charge = || charge(&engine).in_turn(&turn);
    assert!(charge().perform(|_| async { Err(NoAnswer::Lost("no answer".into())) }).await.is_err());
    let later = begin(charge().into_call().not_started()).await;
    assert!(later.release(&engine, Release::BeforeStart).await.unwrap().is_done());
    let id = charge().id().unwrap();
    assert_eq!((later.attempt(), state(&engine, &id).await), (2, StateName::InDoubt));
    found(&engine, &id).await;
    let undone: Arc<Undone> = Arc::default();
    let (state_now, _) = plan_of(group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap());
    assert_eq!((state_now, undone.ordinals()), (Unwinding::Completed, vec![1]));
}

/// The same, where the later call was made outside of any group: the doubt is the group's all the same, and undoing it waits.
pub async fn a_lost_charge_holds_up_the_undoing_after_a_later_call_of_no_group(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    let lost = charge(&engine).in_turn(&turn).perform(|_| async { Err(NoAnswer::Lost("no answer".into())) });
    assert!(lost.await.is_err());
    assert!(charge(&engine).perform(|_| async { Err(NoAnswer::NotSent("refused".into())) }).await.is_err());
    let undone: Arc<Undone> = Arc::default();
    let unwound = group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap();
    assert_eq!(unwound, Unwound::NotYet(vec![(charge(&engine).id().unwrap(), Progress::InDoubt)]));
}

/// A member is under way when the group is undone: it is waited for, and undone with the rest.
pub async fn a_member_under_way_is_waited_for(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = saga(&engine).await;
    let slow = begin(member(&engine, "slow", &turn).compensated_by("undo", &6)).await;
    let undone: Arc<Undone> = Arc::default();
    let unwinding = tokio::spawn(unwinding(&group, &inverses(&undone, Effect::Unsafe)));
    world.settle().await;
    assert!(undone.asked.lock().is_empty());
    assert!(slow.complete(&engine, done("1")).await.unwrap().is_done());
    assert_eq!(plan_of(soon(unwinding).await.unwrap()).0, Unwinding::Completed);
    assert_eq!(undone.ordinals(), [6, 5, 2, 1]);
}

/// A process dies between the mark of a start and the group's answer. The group does not list it, so it has not run, and
/// must not hold up the undoing of all the others.
pub async fn a_start_that_died_before_it_was_listed_does_not_hold_up_the_rest(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = saga(&engine).await;
    let ticket = begin(member(&engine, "died", &turn).compensated_by("undo", &6).not_started()).await;
    let (gate, dying) = fences::held_up(&world, &engine, &ticket).await;
    dying.abort();
    drop(gate);
    world.jump(3_600_000).await;
    assert_eq!(state(&engine, &ticket.id()).await, StateName::InDoubt);
    let undone: Arc<Undone> = Arc::default();
    let (state_now, _) = plan_of(group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap());
    assert_eq!((state_now, undone.ordinals()), (Unwinding::Completed, vec![5, 2, 1]));
    assert_eq!(state(&engine, &ticket.id()).await, StateName::Absent);
}

/// One inverse fails for good, one is known to nobody, one step has none: each has its state, and the rest is undone.
pub async fn what_cannot_be_undone_is_said_and_the_rest_is(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    pay(member(&engine, "a", &turn).compensated_by("undo", &1), "A").await.unwrap();
    pay(member(&engine, "b", &turn).compensated_by("fails", &2), "B").await.unwrap();
    pay(member(&engine, "c", &turn).effect(Effect::Irreversible), "C").await.unwrap();
    let undone: Arc<Undone> = Arc::default();
    let inverses = inverses(&undone, Effect::Unsafe)
        .on("fails", Effect::Unsafe, |_| async { Err(UndoError::lasting("already shipped".to_owned())) });
    let (state, steps) = plan_of(group.unwind(&inverses).await.unwrap());
    assert_eq!(state, Unwinding::Partial);
    assert_eq!(steps, [(2, StepState::Failed), (1, StepState::Done)]);

    let (group, turn) = super::group(&engine, "other").await;
    pay(member(&engine, "d", &turn).compensated_by("nobody-knows", &1), "D").await.unwrap();
    let (state, _) = plan_of(group.unwind(&inverses).await.unwrap());
    assert_eq!(state, Unwinding::Manual);
    assert!(group.plan().await.unwrap().unwrap().steps[0].note.as_ref().unwrap().contains("nobody-knows"));
    let known = inverses.on("nobody-knows", Effect::Unsafe, |_| async { Ok(()) });
    let _again = group.retry_inverse(1).await.unwrap();
    assert_eq!(plan_of(group.unwind(&known).await.unwrap()).0, Unwinding::Completed);
}

/// An inverse fails for now: it is tried again, and where that does not help, later, from where it stood.
pub async fn an_inverse_that_fails_for_now_is_gone_on_with_later(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    pay(member(&engine, "a", &turn).compensated_by("undo", &1), "A").await.unwrap();
    pay(member(&engine, "b", &turn).compensated_by("flaky", &2), "B").await.unwrap();
    let undone: Arc<Undone> = Arc::default();
    let left = Arc::new(Mutex::new(4_u32));
    let flaky = inverses(&undone, Effect::Unsafe).on("flaky", Effect::Unsafe, move |_| {
        let left = Arc::clone(&left);
        async move {
            let mut left = left.lock();
            *left = left.saturating_sub(1);
            if *left == 0 { Ok(()) } else { Err(UndoError::retryable("busy".to_owned())) }
        }
    });
    let options = UnwindOptions { tries: 2, ..UnwindOptions::default() };
    let (state, _) = plan_of(group.unwind_with(&flaky, options).await.unwrap());
    assert_eq!(
        (state, undone.ordinals()),
        (Unwinding::Running, vec![]),
        "the first step is not run before the second is done"
    );
    let (state, _) = plan_of(group.unwind_with(&flaky, options).await.unwrap());
    assert_eq!((state, undone.ordinals()), (Unwinding::Completed, vec![1]));
}

/// An inverse that was done long ago is not done again because its own record has expired: the group was still open.
pub async fn an_inverse_is_remembered_as_long_as_its_group_is_undone(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, _) = saga(&engine).await;
    let undone: Arc<Undone> = Arc::default();
    let inverses = inverses(&undone, Effect::Unsafe);
    // Dies after the last inverse took effect and was recorded, before the plan says so.
    let gate = world.store.hold_swaps();
    let mut writes = 0;
    let unwinding = tokio::spawn(unwinding(&group, &inverses));
    while undone.asked.lock().is_empty() {
        gate.add_permits(1);
        writes += 1;
        world.settle().await;
        assert!(writes < 100);
    }
    // One more write is on its way: the record of the inverse.
    unwinding.abort();
    world.store.hold_nothing();
    world.settle().await;
    world.jump(40 * 86_400_000).await;
    let engine = world.engine();
    engine.sweep().await.unwrap();
    let other = engine.group("acme", "trip").unwrap();
    let (state, _) = plan_of(soon(other.unwind(&inverses)).await.unwrap());
    assert!(matches!(state, Unwinding::Completed | Unwinding::Manual), "{state:?}");
    assert_eq!(undone.asked.lock().iter().filter(|ordinal| **ordinal == 5).count(), 1);
}

/// C9: a probe says that the effect has not happened, the paused owner wakes and acts. *Not applied* opens the operation
/// only if the effect is prevented or the owner can no longer act, also for members of a group.
pub async fn c9_not_applied_is_not_enough_while_the_owner_may_wake(stage: &Stage) {
    use hapax_engine::{Certainty, Found, Probed};
    for (found, opens) in [
        (Found::NotAppliedYet, false),
        (Found::NotApplied(Certainty::Prevented), true),
        (Found::NotApplied(Certainty::OwnerGone), true),
    ] {
        let world = stage.world().await;
        let answer = found.clone();
        let probe = move |_| {
            let answer = answer.clone();
            async move { answer }
        };
        let engine = world.builder().probe("pay", probe).build().unwrap();
        let (_, turn) = group(&engine, "trip").await;
        let paused = begin(member(&engine, "k", &turn).compensated_by("undo", &1)).await;
        world.jump(3_600_000).await;
        let probed = engine.probe(&paused.id()).await.unwrap();
        let stays = state(&engine, &paused.id()).await;
        assert_eq!(
            (probed == Probed::Resolved, stays),
            (opens, if opens { StateName::Open } else { StateName::InDoubt })
        );
        // The owner wakes and reports. Where the probe did not prevent it, its word is taken late; else it is fenced.
        let late = paused.complete(&engine, done("1")).await.unwrap();
        assert_eq!(late.is_done(), !opens, "{found:?}");
    }
}

/// An operator opens a doubtful member for another attempt: a person's word, and the group lists the new attempt.
pub async fn a_member_that_is_run_again_is_undone_once(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    let lost = begin(member(&engine, "k", &turn).compensated_by("undo", &2)).await;
    world.jump(3_600_000).await;
    let version = engine.version(&lost.id()).await.unwrap();
    let resolution = Resolution::Open(Posture::OperatorAccepted);
    let resolve = Resolve { version, resolution, actor: "ops".into(), reason: "it did not arrive".into() };
    assert!(engine.resolve(&lost.id(), resolve).await.unwrap().is_done());
    pay(member(&engine, "k", &turn).compensated_by("undo", &2), "K").await.unwrap();
    let undone: Arc<Undone> = Arc::default();
    let (state, steps) = plan_of(group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap());
    assert_eq!((state, steps), (Unwinding::Completed, vec![(2, StepState::Done)]));
    assert_eq!(id(&engine, "k"), lost.id());
}

/// A booking's start is recorded twice: the answer to the first was lost. It fails, is tried again and so recorded once more.
/// Two processes undo the group at once, and one more after them: the booking is cancelled once.
pub async fn an_inverse_that_is_recorded_twice_is_run_once(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    let booking = || member(&engine, "k", &turn).compensated_by("undo", &2);
    let mut tickets = Vec::new();
    for _ in 0..2 {
        let Begun::Execute(ticket) = booking().begin_with(Nonce([7; 16])).await.unwrap() else { panic!("it is new") };
        tickets.push(ticket);
    }
    assert_eq!(tickets[0].token(), tickets[1].token());
    let failed = Outcome::new(OutcomeClass::RetryableFailure, Body::Empty);
    assert!(tickets[1].fail(&engine, failed).await.unwrap().is_done());
    pay(booking(), "K").await.unwrap();
    let undone: Arc<Undone> = Arc::default();
    let inverses = inverses(&undone, Effect::Unsafe);
    let other = world.engine().group("acme", "trip").unwrap();
    let at_once = async { tokio::join!(unwinding(&group, &inverses), unwinding(&other, &inverses)) };
    let _either = soon(at_once).await;
    let (state, steps) = plan_of(soon(other.unwind(&inverses)).await.unwrap());
    assert_eq!((state, steps), (Unwinding::Completed, vec![(2, StepState::Done)]));
    assert_eq!(*undone.asked.lock(), [2]);
}

/// What undoes a charge needs the charge's id, which the provider gave: it is in the body of its answer, not beside it.
pub async fn an_activity_is_undone_with_what_its_provider_answered(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    // The second answer is too long to stand in its record.
    for (ordinal, padding) in [(0, 1), (1, 400_000)] {
        let place = Place { run: "run-1", node: "pay", ordinal, provider: "bank:charge" };
        let charge = engine.activity("acme", &place).in_turn(&turn).compensated_from_outcome("refund", "/id");
        let body = serde_json::json!({ "id": ordinal, "padding": "x".repeat(padding) }).to_string();
        charge.perform(move |_| async move { Ok(Answered::new(201, body)) }).await.unwrap();
    }
    let refunded: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = Arc::clone(&refunded);
    let refund = Compensations::default().on("refund", Effect::Unsafe, move |undo| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().push(undo.input()?);
            Ok(())
        }
    });
    let (state, steps) = plan_of(group.unwind(&refund).await.unwrap());
    assert_eq!((state, steps), (Unwinding::Completed, vec![(2, StepState::Done), (1, StepState::Done)]));
    assert_eq!(*refunded.lock(), [1, 0]);
}

/// A provider answers with an amount that no double holds. Whoever pays it back pays back all of it.
pub async fn an_inverse_gets_every_digit_of_what_was_paid(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    let place = Place { run: "run-1", node: "pay", ordinal: 0, provider: "bank:charge" };
    let charge = engine.activity("acme", &place).in_turn(&turn).compensated_from_outcome("refund", "/paid/0");
    let answer = r#"{"paid": [12345678901234567890.15]}"#;
    charge.perform(move |_| async move { Ok(Answered::new(201, answer)) }).await.unwrap();
    let refunded: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&refunded);
    let refund = Compensations::default().on("refund", Effect::Unsafe, move |undo| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock().push(undo.input::<Box<serde_json::value::RawValue>>()?.get().to_owned());
            Ok(())
        }
    });
    assert_eq!(plan_of(group.unwind(&refund).await.unwrap()).0, Unwinding::Completed);
    assert_eq!(*refunded.lock(), ["12345678901234567890.15"]);
}

/// A person sees to the last step that was left: nothing is to be undone any more, so nothing is held any longer.
pub async fn a_plan_whose_last_step_was_seen_to_lets_its_group_go(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    pay(member(&engine, "a", &turn).compensated_by("nobody-knows", &1), "A").await.unwrap();
    pay(member(&engine, "b", &turn).compensated_by("nobody-knows", &2), "B").await.unwrap();
    let nothing = Compensations::default();
    assert_eq!(plan_of(group.unwind(&nothing).await.unwrap()).0, Unwinding::Manual);
    assert_eq!(group.seen_to(2, "by telephone").await.unwrap().state(), Unwinding::Running);
    assert_eq!(group.view().await.unwrap().unwrap().group.phase, GroupPhase::Open);
    assert_eq!(plan_of(group.unwind(&nothing).await.unwrap()).0, Unwinding::Manual);
    for _ in 0..2 {
        let plan = group.seen_to(1, "by telephone").await.unwrap();
        assert_eq!(plan.state(), Unwinding::Completed);
        let phase = group.view().await.unwrap().unwrap().group.phase;
        assert!(matches!(phase, GroupPhase::Closed { .. }), "{phase:?}");
    }
}

/// Two runs charge the same order. The first is told 503 and goes away, the second succeeds. Undoing the first must not
/// give back what the second took, and undoing both gives it back once.
pub async fn undoing_one_group_leaves_what_another_did_alone(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (first, turn) = group(&engine, "run-a").await;
    let (second, later) = super::group(&engine, "run-b").await;
    let charge = |turn: &Turn| member(&engine, "order-17", turn).compensated_by("undo", &1);
    let busy = begin(charge(&turn)).await;
    assert!(busy.fail(&engine, retryable("503")).await.unwrap().is_done());
    assert_eq!(pay(charge(&later), "charged").await.unwrap().attempt, 2);
    let undone: Arc<Undone> = Arc::default();
    let inverses = inverses(&undone, Effect::Unsafe);
    assert_eq!(plan_of(first.unwind(&inverses).await.unwrap()), (Unwinding::None, vec![]));
    assert!(undone.asked.lock().is_empty());
    assert_eq!(plan_of(second.unwind(&inverses).await.unwrap()).0, Unwinding::Completed);
    assert_eq!(undone.ordinals(), [1]);
}

/// An order whose first attempt failed in a run is charged again by a call of no run at all. That call is nobody's to
/// fence, and nobody's to undo.
pub async fn a_call_of_no_group_is_neither_fenced_nor_undone_by_the_one_before_it(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "run-a").await;
    let busy = begin(member(&engine, "order-17", &turn).compensated_by("undo", &1)).await;
    assert!(busy.fail(&engine, retryable("503")).await.unwrap().is_done());
    let plain = pay(call(&engine, "order-17").effect(Effect::Compensatable), "charged").await.unwrap();
    assert_eq!(plain.attempt, 2);
    let undone: Arc<Undone> = Arc::default();
    let unwound = group.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap();
    assert_eq!(plan_of(unwound), (Unwinding::None, vec![]));
    assert!(undone.asked.lock().is_empty());
}

/// A group did what nobody has said how to undo. "Nothing to undo" would be a lie; it is told that it stands.
pub async fn what_no_inverse_was_declared_for_is_not_nothing(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let nothing = Compensations::default();
    // It has only looked, or failed: there is really nothing.
    let (looked, turn) = group(&engine, "looked").await;
    pay(super::member(&engine, "look", &turn, Effect::Pure), "seen").await.unwrap();
    let declined = super::member(&engine, "declined", &turn, Effect::Unsafe);
    let refused = declined.once(|_| async { Err::<String, _>(Classified::lasting("no".to_owned())) }).await;
    assert!(refused.is_err());
    assert_eq!(plan_of(looked.unwind(&nothing).await.unwrap()), (Unwinding::None, vec![]));

    for effect in [Effect::Unsafe, Effect::Idempotent, Effect::Compensatable, Effect::Irreversible] {
        let (acted, turn) = super::group(&engine, &format!("acted-{effect}")).await;
        pay(super::member(&engine, &format!("act-{effect}"), &turn, effect), "done").await.unwrap();
        // Long after what was recorded of it would have gone by itself.
        if matches!(effect, Effect::Compensatable | Effect::Irreversible) {
            world.jump(200 * 86_400_000).await;
            engine.sweep().await.unwrap();
        }
        let unwound = acted.unwind(&nothing).await.unwrap();
        assert_eq!(plan_of(unwound), (Unwinding::Failed, vec![]), "{effect}");
        assert_eq!(acted.plan().await.unwrap().unwrap().without, 1, "{effect}");
    }
    // Beside what was undone it makes the undoing a partial one.
    let (both, turn) = super::group(&engine, "both").await;
    pay(member(&engine, "booked", &turn).compensated_by("undo", &1), "B").await.unwrap();
    pay(member(&engine, "mailed", &turn), "M").await.unwrap();
    let undone: Arc<Undone> = Arc::default();
    let (state, steps) = plan_of(both.unwind(&inverses(&undone, Effect::Unsafe)).await.unwrap());
    assert_eq!((state, steps), (Unwinding::Partial, vec![(1, StepState::Done)]));
}

/// The only inverse of a group fails for good: nothing was undone, and that is what is said.
pub async fn an_undoing_of_which_nothing_came_is_called_failed(stage: &Stage) {
    let world = stage.world().await;
    let engine = world.engine();
    let (group, turn) = group(&engine, "trip").await;
    pay(member(&engine, "a", &turn).compensated_by("fails", &1), "A").await.unwrap();
    let fails = Compensations::default()
        .on("fails", Effect::Unsafe, |_| async { Err(UndoError::lasting("already shipped".to_owned())) });
    let unwound = group.unwind(&fails).await.unwrap();
    assert!(unwound.is_over());
    assert_eq!(plan_of(unwound), (Unwinding::Failed, vec![(1, StepState::Failed)]));
}
