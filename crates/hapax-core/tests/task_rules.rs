//! What becomes of a task: each state under each command, every order of a few commands, and the retry gate's edges.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    Fingerprint, Millis, Moment, Nonce, Outcome, Stamp, Tag, Token, WallMillis,
    record::About,
    task::{
        Class, Deadline, EVIDENCE_KEPT, GatePolicy, How, Idempotency, LeaseId, NewTask, NotNow, Order, Payload, Peer,
        RepairKind, RepairPosture, STONE_KEPT, Skip, Task, TaskCommand, TaskId, TaskReply, TaskState, TaskStateName,
        apply_task, failure, judge_gate, scan_gate,
    },
};

const NOW: Stamp = Stamp(1_000_000);
const LEASE: Millis = Millis(60_000);

fn order(class: Option<Class>, deadline: Option<Deadline>) -> Arc<Order> {
    let peer = |name: &str| Peer { key: name.into(), display: name.into() };
    Arc::new(Order {
        id: TaskId([1; 16]),
        sender: peer("a"),
        recipient: peer("b"),
        kind: "index".into(),
        intent: "".into(),
        payload: Payload { json: true, bytes: Bytes::from_static(b"{}") },
        print: Fingerprint::of_bytes(b"{}"),
        parent: None,
        deadline,
        idempotency: class.map(|class| Idempotency { class, key: "k".into() }),
        cache: None,
        digest: [7; 32],
    })
}

fn new_task(order: Arc<Order>) -> NewTask {
    let about = About {
        surface: "a2a.task".into(),
        tenant: "acme".into(),
        surface_tag: Tag([1; 16]),
        tenant_tag: Tag([2; 16]),
        principal: None,
        key_hash: [0; 8],
    };
    NewTask { about: Arc::new(about), order, place: 5 }
}

#[derive(Clone)]
struct Cell {
    task: Option<Task>,
    now: Stamp,
}

impl Cell {
    fn sent(class: Option<Class>) -> Self {
        let mut cell = Self { task: None, now: NOW };
        let _ = cell.ask(&TaskCommand::Send(new_task(order(class, None))));
        cell
    }

    fn ask(&mut self, command: &TaskCommand) -> TaskReply {
        let step = apply_task(self.task.as_ref(), command, Moment { now: self.now, wall: WallMillis(9) });
        if let Some(mut next) = step.write {
            next.settle(self.now);
            self.task = Some(next);
        }
        step.reply
    }

    fn lease(&mut self, nonce: u8) -> TaskReply {
        self.ask(&lease(nonce))
    }

    fn task(&self) -> &Task {
        self.task.as_ref().unwrap()
    }

    fn lease_id(&self) -> LeaseId {
        self.task().lease_id().unwrap()
    }

    fn state(&self) -> TaskStateName {
        self.task().state_name(self.now)
    }
}

fn lease(nonce: u8) -> TaskCommand {
    TaskCommand::Lease {
        nonce: Nonce([nonce; 16]),
        number: None,
        owner: "w".into(),
        request: None,
        lease: LEASE,
        order: 6,
    }
}

fn token(attempt: u32, nonce: u8) -> Token {
    Token { attempt, nonce: Nonce([nonce; 16]) }
}

fn post(token: Token, body: &'static str) -> TaskCommand {
    TaskCommand::Post { token, outcome: Outcome::success(body), order: 8 }
}

fn requeue(lease: LeaseId, posture: RepairPosture) -> TaskCommand {
    TaskCommand::Repair {
        lease,
        kind: RepairKind::Requeue { posture, auto: false },
        actor: "op".into(),
        reason: "its worker is gone".into(),
        order: 99,
    }
}

#[test]
fn a_leased_task_is_handed_to_nobody_else_however_long_it_is_silent() {
    let mut cell = Cell::sent(None);
    assert_eq!(cell.lease(1), TaskReply::Leased(token(1, 1)));
    cell.now = Stamp(u64::MAX / 2);
    assert_eq!(cell.state(), TaskStateName::Stale);
    assert_eq!(cell.lease(2), TaskReply::Refused(NotNow::NotQueued));
    // The same call, whose answer was lost, has it already.
    assert_eq!(cell.lease(1), TaskReply::Leased(token(1, 1)));
    assert_eq!(cell.task().attempt, 1);
    // A stale lease is still its worker's: renewed, it is young again; posted, it counts.
    let renewed = cell.ask(&TaskCommand::Renew { token: token(1, 1), lease: LEASE, order: 7 });
    assert_eq!(renewed, TaskReply::Done { already: false });
    assert_eq!(cell.state(), TaskStateName::Leased);
    assert_eq!(cell.ask(&post(token(1, 1), "done")), TaskReply::Done { already: false });
    assert_eq!(cell.state(), TaskStateName::ResultPending);
}

#[test]
fn the_same_result_twice_is_fine_and_another_is_not() {
    let mut cell = Cell::sent(None);
    let _ = cell.lease(1);
    assert_eq!(cell.ask(&post(token(1, 1), "done")), TaskReply::Done { already: false });
    assert_eq!(cell.ask(&post(token(1, 1), "done")), TaskReply::Done { already: true });
    assert_eq!(cell.ask(&post(token(1, 1), "other")), TaskReply::OtherResult);
    assert_eq!(cell.ask(&TaskCommand::Ack { order: 1 }), TaskReply::Done { already: false });
    assert_eq!(
        cell.ask(&post(token(1, 1), "done")),
        TaskReply::Done { already: true },
        "also after the acknowledgement"
    );
}

#[test]
fn a_late_result_after_a_requeue_is_refused_and_kept() {
    let mut cell = Cell::sent(Some(Class::Idempotent));
    let _ = cell.lease(1);
    let first = cell.lease_id();
    assert_eq!(cell.ask(&requeue(first, RepairPosture::Idempotent)), TaskReply::Done { already: false });
    assert!(matches!(cell.task().state, TaskState::Queued { order: 99 }), "at the back of its queue");
    assert_eq!(cell.ask(&post(token(1, 1), "late")), TaskReply::Fenced);
    assert_eq!(cell.ask(&post(token(1, 1), "late")), TaskReply::Fenced, "said twice, kept once");
    assert_eq!(cell.task().evidence.len(), 1);
    assert_eq!(cell.lease(2), TaskReply::Leased(token(2, 2)));
    assert_eq!(cell.task().attempt, 2, "the attempt rises at the next lease");
    for late in ["b", "c", "d", "e"] {
        assert_eq!(cell.ask(&post(token(1, 1), late)), TaskReply::Fenced);
    }
    assert_eq!(cell.task().evidence.len(), EVIDENCE_KEPT);
    assert_eq!(cell.ask(&requeue(first, RepairPosture::Idempotent)), TaskReply::Refused(NotNow::OtherLease));
    assert_eq!(cell.ask(&post(token(2, 2), "in time")), TaskReply::Done { already: false });
    // A number that nobody was ever given is nobody's result.
    assert_eq!(cell.ask(&post(token(7, 7), "made up")), TaskReply::Fenced);
    assert!(cell.task().evidence.iter().all(|kept| kept.attempt == 1));
}

#[test]
fn a_release_does_not_count_and_the_tokens_number_never_goes_back() {
    let mut cell = Cell::sent(None);
    let _ = cell.lease(1);
    let give_back = TaskCommand::Release { token: token(1, 1) };
    assert_eq!(cell.ask(&give_back), TaskReply::Done { already: false });
    assert_eq!(cell.ask(&give_back), TaskReply::Done { already: true });
    assert_eq!(cell.task().attempt, 0);
    assert!(matches!(cell.task().state, TaskState::Queued { order: 5 }), "it keeps its place");
    assert_eq!(cell.lease(2), TaskReply::Leased(token(2, 2)));
    assert_eq!(cell.task().attempt, 1);
    assert_eq!(cell.ask(&give_back), TaskReply::Fenced);
    assert_eq!(cell.ask(&post(token(1, 1), "late")), TaskReply::Fenced);
}

#[test]
fn a_repair_needs_its_lease_a_reason_and_the_right_posture() {
    for (class, posture, allowed) in [
        (Some(Class::Idempotent), RepairPosture::Idempotent, true),
        (Some(Class::Idempotent), RepairPosture::OperatorAccepted, true),
        (Some(Class::Unsafe), RepairPosture::Idempotent, false),
        (Some(Class::Unsafe), RepairPosture::OperatorAccepted, true),
        (None, RepairPosture::Idempotent, false),
        (None, RepairPosture::OperatorAccepted, true),
    ] {
        let mut cell = Cell::sent(class);
        let other = LeaseId::of(&TaskId([1; 16]), token(1, 9));
        assert_eq!(cell.ask(&requeue(other, posture)), TaskReply::Refused(NotNow::NotInFlight));
        let _ = cell.lease(1);
        assert_eq!(cell.ask(&requeue(other, posture)), TaskReply::Refused(NotNow::OtherLease));
        let lease = cell.lease_id();
        let TaskCommand::Repair { kind, actor, order, .. } = requeue(lease, posture) else { unreachable!() };
        let blank = TaskCommand::Repair { lease, kind, actor, reason: " \t".into(), order };
        assert_eq!(cell.ask(&blank), TaskReply::Refused(NotNow::BlankReason));
        let expected =
            if allowed { TaskReply::Done { already: false } } else { TaskReply::Refused(NotNow::PostureNeedsClass) };
        assert_eq!(cell.ask(&requeue(lease, posture)), expected, "{class:?} {posture:?}");
        if allowed {
            assert_eq!(cell.ask(&requeue(lease, posture)), TaskReply::Done { already: true }, "a lost reply");
        }
    }
}

#[test]
fn a_forced_error_ends_it_and_fences_its_worker() {
    let mut cell = Cell::sent(None);
    let _ = cell.lease(1);
    let force = TaskCommand::Repair {
        lease: cell.lease_id(),
        kind: RepairKind::ForceError { message: "given up".into() },
        actor: "op".into(),
        reason: "the machine is gone".into(),
        order: 9,
    };
    assert_eq!(cell.ask(&force), TaskReply::Done { already: false });
    assert_eq!(cell.ask(&force), TaskReply::Done { already: true });
    let TaskState::Resolved(resolved) = &cell.task().state else { panic!("not resolved") };
    assert_eq!((resolved.how, &resolved.outcome), (How::Forced, &failure("given up")));
    assert_eq!(cell.ask(&post(token(1, 1), "late")), TaskReply::Fenced);
    assert_eq!(cell.task().evidence.len(), 1);
}

#[test]
fn sending_the_same_id_again_is_the_same_task_also_when_only_a_stone_is_left() {
    let mut cell = Cell::sent(None);
    let again = TaskCommand::Send(new_task(order(None, None)));
    let mut changed = Order::clone(&order(None, None));
    changed.digest = [8; 32];
    let other = TaskCommand::Send(new_task(Arc::new(changed)));
    assert_eq!(cell.ask(&again), TaskReply::Known);
    assert_eq!(cell.ask(&other), TaskReply::Refused(NotNow::OtherContent));
    let _ = cell.lease(1);
    let _ = cell.ask(&post(token(1, 1), "done"));
    let _ = cell.ask(&TaskCommand::Ack { order: 1 });
    assert_eq!(cell.ask(&TaskCommand::Compact), TaskReply::Done { already: false });
    assert!(cell.task().order.payload.bytes.is_empty(), "only the id and the digest stay");
    assert_eq!(cell.ask(&again), TaskReply::AlreadyResolved);
    assert_eq!(cell.ask(&other), TaskReply::Refused(NotNow::OtherContent));
    assert_eq!(cell.ask(&TaskCommand::Ack { order: 1 }), TaskReply::Done { already: true }, "a lost reply to the ack");
    let end = STONE_KEPT.end(cell.now).unwrap();
    cell.now = Stamp(end.0 - 1);
    assert_eq!(cell.ask(&again), TaskReply::AlreadyResolved);
    cell.now = end;
    assert_eq!(cell.ask(&again), TaskReply::Done { already: false }, "ninety days later it is a new task");
}

#[test]
fn only_what_is_acknowledged_is_compacted() {
    let mut cell = Cell::sent(None);
    let refused = TaskReply::Refused(NotNow::NotDone);
    assert_eq!(cell.ask(&TaskCommand::Compact), refused);
    let _ = cell.lease(1);
    assert_eq!(cell.ask(&TaskCommand::Compact), refused);
    assert_eq!(cell.ask(&TaskCommand::Ack { order: 1 }), TaskReply::Refused(NotNow::NoResult));
    let _ = cell.ask(&post(token(1, 1), "done"));
    assert_eq!(cell.ask(&TaskCommand::Compact), refused, "delivered means acknowledged");
    let _ = cell.ask(&TaskCommand::Ack { order: 1 });
    assert_eq!(cell.ask(&TaskCommand::Compact), TaskReply::Done { already: false });
}

#[test]
fn only_an_overdue_task_that_nobody_began_expires() {
    for expires in [false, true] {
        let deadline = Deadline { wall: WallMillis(50), after: Millis(1_000), expires };
        let mut cell = Cell { task: None, now: NOW };
        let _ = cell.ask(&TaskCommand::Send(new_task(order(None, Some(deadline)))));
        let expire = TaskCommand::Expire { outcome: failure("overdue"), order: 1 };
        cell.now = Stamp(NOW.0 + 999);
        assert_eq!(cell.ask(&expire), TaskReply::Refused(NotNow::NotOverdue));
        cell.now = Stamp(NOW.0 + 1_000);
        assert!(cell.task().is_overdue(cell.now));
        let mut leased = cell.clone();
        let _ = leased.lease(1);
        assert_eq!(leased.ask(&expire), TaskReply::Refused(NotNow::NotOverdue), "begun in time or not, it runs");
        let expected =
            if expires { TaskReply::Done { already: false } } else { TaskReply::Refused(NotNow::NotOverdue) };
        assert_eq!(cell.ask(&expire), expected);
    }
}

/// What a leased task may become without the word of its worker or a repair: nothing else. All orders of five commands.
#[test]
fn every_order_of_five_commands_keeps_the_promises() {
    let first = LeaseId::of(&TaskId([1; 16]), token(1, 1));
    let alphabet: Vec<TaskCommand> = vec![
        lease(1),
        lease(2),
        TaskCommand::Renew { token: token(1, 1), lease: LEASE, order: 1 },
        TaskCommand::Release { token: token(1, 1) },
        post(token(1, 1), "one"),
        post(token(2, 2), "two"),
        requeue(first, RepairPosture::OperatorAccepted),
        TaskCommand::Repair {
            lease: first,
            kind: RepairKind::ForceError { message: "m".into() },
            actor: "op".into(),
            reason: "r".into(),
            order: 1,
        },
        TaskCommand::Ack { order: 1 },
        TaskCommand::Compact,
        TaskCommand::Join { leader: TaskId([2; 16]) },
        TaskCommand::Resolve { how: How::Joined(TaskId([2; 16])), outcome: Outcome::success("j"), order: 1 },
    ];
    let mut seen = 0_u32;
    let mut stack = vec![(Cell::sent(None), 0)];
    while let Some((cell, depth)) = stack.pop() {
        for command in &alphabet {
            let mut next = cell.clone();
            let reply = next.ask(command);
            check(cell.task(), next.task(), command, &reply);
            seen += 1;
            // Said again, a command changes nothing more than it has.
            let mut again = next.clone();
            let _ = again.ask(command);
            if !matches!(command, TaskCommand::Renew { .. } | TaskCommand::Lease { .. }) {
                assert_eq!(again.task, next.task, "{command:?} twice");
            }
            if depth < 4 {
                stack.push((next, depth + 1));
            }
        }
    }
    assert!(seen > 200_000, "{seen}");
}

fn check(before: &Task, after: &Task, command: &TaskCommand, reply: &TaskReply) {
    assert!(after.number >= before.number, "the number of a token went back");
    let (was, is) = (holder(before), holder(after));
    if let (Some(was), Some(is)) = (was, is) {
        assert_eq!(was, is, "handed out twice by {command:?}");
    }
    match (was, is) {
        (None, Some(_)) => {
            assert!(matches!(command, TaskCommand::Lease { .. }));
            assert_eq!(after.attempt, before.attempt + 1);
        }
        (Some(_), None) => assert!(
            matches!(command, TaskCommand::Post { .. } | TaskCommand::Release { .. } | TaskCommand::Repair { .. }),
            "{command:?} took a lease away"
        ),
        (Some(_), Some(_)) | (None, None) => {}
    }
    if let (TaskState::Resolved(old), TaskState::Resolved(new)) = (&before.state, &after.state) {
        assert_eq!(old.outcome, new.outcome, "an answer has changed");
    }
    if let TaskState::Resolved(old) = &before.state {
        let gone = matches!(after.state, TaskState::Compacted { .. });
        assert!(matches!(after.state, TaskState::Resolved(_)) || gone, "a result was lost");
        assert!(!gone || old.acked.is_some(), "compacted before it was delivered");
    }
    if *reply == TaskReply::Fenced {
        assert_eq!(before.state, after.state);
    }
}

fn holder(task: &Task) -> Option<Token> {
    match &task.state {
        TaskState::Leased(leased) => Some(leased.token),
        TaskState::Sent { .. }
        | TaskState::Joined { .. }
        | TaskState::Queued { .. }
        | TaskState::Resolved(_)
        | TaskState::Compacted { .. } => None,
    }
}

fn stale(class: Option<Class>, leases: u8) -> Task {
    let mut cell = Cell::sent(class);
    for nonce in 1..=leases {
        if nonce > 1 {
            let _ = cell.ask(&requeue(cell.lease_id(), RepairPosture::OperatorAccepted));
        }
        let _ = cell.lease(nonce);
    }
    cell.task.unwrap()
}

#[test]
fn the_gate_tells_the_first_reason_that_applies() {
    let policy = GatePolicy { enabled: true, ..GatePolicy::default() };
    let old = Stamp(NOW.0 + 300_000);
    let judge =
        |task: &Task, policy: &GatePolicy, requeued, in_scope, now| judge_gate(task, policy, requeued, in_scope, now);
    let good = stale(Some(Class::Idempotent), 1);
    assert_eq!(judge(&good, &policy, 0, true, old), Ok(()), "an age equal to the minimum is old enough");
    assert_eq!(judge(&good, &policy, 0, true, Stamp(old.0 - 1)), Err(Skip::LeaseTooYoung));
    assert_eq!(judge(&Cell::sent(None).task.unwrap(), &policy, 9, false, old), Err(Skip::NotInFlight));
    let mut unknown = stale(None, 9);
    if let TaskState::Leased(leased) = &mut unknown.state {
        leased.lease = None;
    }
    assert_eq!(judge(&unknown, &policy, 9, false, NOW), Err(Skip::MissingLease));
    assert_eq!(judge(&stale(None, 9), &policy, 9, false, NOW), Err(Skip::LeaseTooYoung));
    assert_eq!(judge(&stale(None, 9), &policy, 9, false, old), Err(Skip::MissingIdempotency));
    assert_eq!(judge(&stale(Some(Class::Unsafe), 9), &policy, 9, false, old), Err(Skip::UnsafeDuplicateSafety));
    assert_eq!(judge(&stale(Some(Class::Idempotent), 3), &policy, 9, false, old), Err(Skip::MaxAttemptsReached));
    assert_eq!(judge(&stale(Some(Class::Idempotent), 2), &policy, 9, false, old), Err(Skip::LimitReached));
    assert_eq!(judge(&stale(Some(Class::Idempotent), 2), &policy, 0, false, old), Err(Skip::CapabilityScopeMismatch));
    // A lease that still runs is young whatever its age.
    let patient = GatePolicy { min_lease_age: Millis(0), ..policy };
    assert_eq!(judge(&good, &patient, 0, true, Stamp(NOW.0 + 59_999)), Err(Skip::LeaseTooYoung));
    assert_eq!(judge(&good, &patient, 0, true, Stamp(NOW.0 + 60_000)), Ok(()));
}

#[test]
fn the_bounds_of_attempts_are_executions_in_all() {
    let old = Stamp(NOW.0 + 300_000);
    for (most, allowed) in [(0, 0_u8), (1, 0), (2, 1), (3, 2)] {
        let policy = GatePolicy { max_attempts: most, ..GatePolicy::default() };
        for attempt in 1..=4_u8 {
            let judged = judge_gate(&stale(Some(Class::Idempotent), attempt), &policy, 0, true, old);
            let expected = if attempt <= allowed { Ok(()) } else { Err(Skip::MaxAttemptsReached) };
            assert_eq!(judged, expected, "max {most}, attempt {attempt}");
        }
    }
}

#[test]
fn a_pass_keeps_its_limits() {
    let old = Stamp(NOW.0 + 300_000);
    let tasks: Vec<Task> = (0..5).map(|_| stale(Some(Class::Idempotent), 1)).collect();
    let all = || tasks.iter().map(|task| (task, true));
    for (requeues, scan, requeued, considered) in
        [(1, 100, 1, 5), (0, 100, 0, 5), (9, 2, 2, 2), (9, 0, 0, 0), (3, 9, 3, 5)]
    {
        let policy = GatePolicy { max_requeues: requeues, scan_limit: scan, ..GatePolicy::default() };
        let report = scan_gate(all(), policy, old);
        assert_eq!((report.requeued.len(), report.considered), (requeued, considered), "{policy:?}");
        assert!(report.skipped.iter().all(|skipped| skipped.reason == Skip::LimitReached));
        assert_eq!(report.requeued.len() + report.skipped.len(), considered as usize);
    }
}

#[test]
fn the_defaults_are_the_seeds() {
    let policy = GatePolicy::default();
    assert!(!policy.enabled);
    assert_eq!((policy.min_lease_age, policy.max_attempts), (Millis(300_000), 3));
    assert_eq!((policy.max_requeues, policy.scan_limit), (1, 100));
    assert_eq!(Class::parse("operator_accepted"), Some(Class::Unsafe));
    assert_eq!(Class::parse("Idempotent"), None);
}
