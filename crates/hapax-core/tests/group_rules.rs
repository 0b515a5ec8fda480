//! What becomes of a group, command by command, and every order of a few of them.

use std::sync::Arc;

use hapax_core::{
    Effect, Id, Millis, Moment, Nonce, Span, Stamp, Tag, WallMillis,
    group::{
        Group, GroupCommand, GroupReply, MOST_STARTS, RAISES_KEPT, WhyNot, apply_group, group_as_read, may_start,
        may_start_as, may_supersede,
    },
    record::About,
};

fn about() -> Arc<About> {
    Arc::new(About {
        surface: "group".into(),
        tenant: "acme".into(),
        surface_tag: Tag([1; 16]),
        tenant_tag: Tag([2; 16]),
        principal: None,
        key_hash: [0; 8],
    })
}

const NOW: Stamp = Stamp(1_000_000);

struct Cell {
    group: Option<Group>,
    now: Stamp,
}

impl Cell {
    fn made() -> Self {
        // Its epochs go on from the time when it is made.
        let mut cell = Self { group: None, now: Stamp(1) };
        let made = cell.ask(&GroupCommand::Create { about: about(), parent: None });
        assert_eq!(made, GroupReply::Made { epoch: 1, already: false });
        cell.now = NOW;
        cell
    }

    fn ask(&mut self, command: &GroupCommand) -> GroupReply {
        let step = apply_group(self.group.as_ref(), command, Moment { now: self.now, wall: WallMillis(0) });
        if let Some(mut next) = step.write {
            next.settle(self.now);
            self.group = Some(next);
        }
        step.reply
    }

    fn start(&mut self, member: u8, epoch: u64, effect: Effect) -> GroupReply {
        self.ask(&GroupCommand::Start { member: id(member), attempt: 1, epoch, effect })
    }

    fn raise(&mut self, nonce: u8) -> GroupReply {
        self.ask(&GroupCommand::Inherit { nonce: Nonce([nonce; 16]) })
    }
}

fn id(number: u8) -> Id {
    Id([number; 32])
}

fn raised(reply: &GroupReply) -> (u64, bool, Vec<Id>) {
    let GroupReply::Raised { epoch, already, started } = reply else { panic!("{reply:?}") };
    (*epoch, *already, started.iter().map(|start| start.member).collect())
}

/// The answer to a supersede is lost and it is said again. It must not overtake the turn that it made itself.
#[test]
fn a_repeated_supersede_raises_the_epoch_once() {
    let mut cell = Cell::made();
    assert!(matches!(cell.start(1, 1, Effect::Compensatable), GroupReply::Started { ordinal: 1, already: false }));
    assert_eq!(raised(&cell.raise(7)), (2, false, vec![id(1)]));
    assert_eq!(raised(&cell.raise(7)), (2, true, vec![id(1)]));
    // Also after others came in between, with the report that it had.
    assert!(matches!(cell.start(2, 2, Effect::Compensatable), GroupReply::Started { ordinal: 2, .. }));
    assert_eq!(raised(&cell.raise(8)), (3, false, vec![id(1), id(2)]));
    assert_eq!(raised(&cell.raise(7)), (2, true, vec![id(1)]));
    assert_eq!(cell.group.as_ref().unwrap().epoch, 3);
    for nonce in 20..20 + u8::try_from(RAISES_KEPT).unwrap() {
        assert!(!raised(&cell.raise(nonce)).1);
    }
    assert_eq!(cell.group.as_ref().unwrap().raises.len(), RAISES_KEPT);
}

/// Said again after a lost answer, a start that was let through stays let through, whatever the epoch is by then: it may
/// have run.
#[test]
fn a_listed_start_stays_listed_when_it_is_said_again() {
    let mut cell = Cell::made();
    let first = cell.start(1, 1, Effect::Compensatable);
    assert_eq!(first, GroupReply::Started { ordinal: 1, already: false });
    assert_eq!(raised(&cell.raise(7)).0, 2);
    assert_eq!(cell.start(1, 1, Effect::Compensatable), GroupReply::Started { ordinal: 1, already: true });
    assert_eq!(cell.start(2, 1, Effect::Compensatable), GroupReply::Refused(WhyNot::Superseded { current: 2 }));
}

/// A message that comes for a turn that was superseded meanwhile belongs to the newer one.
#[test]
fn nothing_is_absorbed_into_a_superseded_turn() {
    let mut cell = Cell::made();
    assert_eq!(raised(&cell.raise(7)).0, 2);
    let superseded = WhyNot::Superseded { current: 2 };
    assert_eq!(cell.ask(&GroupCommand::Absorb { epoch: 1 }), GroupReply::Refused(superseded));
    assert_eq!(cell.ask(&GroupCommand::Absorb { epoch: 2 }), GroupReply::Done { already: false });
}

#[test]
fn an_irreversible_start_commits_for_good_and_says_so() {
    let mut cell = Cell::made();
    assert_eq!(may_supersede(cell.group.as_ref(), NOW), Ok(()));
    assert!(matches!(cell.start(9, 1, Effect::Irreversible), GroupReply::Started { .. }));
    let committed = WhyNot::Committed { by: Some(id(9)) };
    assert_eq!(may_supersede(cell.group.as_ref(), NOW), Err(committed));
    assert_eq!(cell.raise(1), GroupReply::Refused(committed));
    assert_eq!(cell.ask(&GroupCommand::Absorb { epoch: 1 }), GroupReply::Refused(committed));
    // Later starts are fine.
    assert!(matches!(cell.start(10, 1, Effect::Compensatable), GroupReply::Started { .. }));
    assert!(committed.to_string().contains("irreversible"), "{committed}");
}

/// G4 of the accidents: a member starts after unwind has looked, and its effect is outside the plan.
#[test]
fn g4_unwinding_refuses_starts_and_committed_does_not() {
    for effect in Effect::ALL {
        let mut cell = Cell::made();
        assert_eq!(cell.ask(&GroupCommand::Commit), GroupReply::Done { already: false });
        assert_eq!(may_start(cell.group.as_ref(), 1, NOW), Ok(()));
        assert!(matches!(cell.start(1, 1, effect), GroupReply::Started { .. }));
        assert_eq!(cell.ask(&GroupCommand::Unwind), GroupReply::Done { already: false });
        assert_eq!(cell.ask(&GroupCommand::Unwind), GroupReply::Done { already: true });
        assert_eq!(may_start(cell.group.as_ref(), 1, NOW), Err(WhyNot::Unwinding));
        assert_eq!(cell.start(2, 1, effect), GroupReply::Refused(WhyNot::Unwinding));
        assert_eq!(cell.raise(1), GroupReply::Refused(WhyNot::Unwinding));
    }
}

#[test]
fn a_closed_group_is_kept_as_long_as_was_said_and_starts_nothing() {
    let mut cell = Cell::made();
    assert_eq!(cell.ask(&GroupCommand::Close), GroupReply::Done { already: false });
    assert_eq!(cell.start(1, 1, Effect::Pure), GroupReply::Refused(WhyNot::Closed));
    assert_eq!(cell.raise(1), GroupReply::Refused(WhyNot::Closed));
    assert_eq!(cell.ask(&GroupCommand::Unwind), GroupReply::Refused(WhyNot::Closed));
    let settle = GroupCommand::Settle { keep: Span::For(Millis(100)) };
    assert_eq!(cell.ask(&settle), GroupReply::Done { already: false });
    assert_eq!(cell.ask(&settle), GroupReply::Done { already: true });
    let create = GroupCommand::Create { about: about(), parent: None };
    cell.now = NOW.plus(Millis(99));
    assert_eq!(cell.ask(&create), GroupReply::Refused(WhyNot::Closed));
    cell.now = NOW.plus(Millis(100));
    assert!(group_as_read(cell.group.as_ref().unwrap(), cell.now).is_none());
    // No epoch of its earlier life is one of the new.
    assert_eq!(cell.ask(&create), GroupReply::Made { epoch: NOW.0 + 100, already: false });
    assert_eq!(may_start(cell.group.as_ref(), 1, cell.now), Err(WhyNot::Superseded { current: NOW.0 + 100 }));
}

/// The newer turn takes up what an older one had started. Asked again, the supersede tells of the older start as before;
/// one turn that starts a member again has still one start of it.
#[test]
fn a_report_said_again_is_the_same_although_the_member_was_taken_up() {
    let mut cell = Cell::made();
    let started = cell.start(1, 1, Effect::Compensatable);
    assert_eq!(started, GroupReply::Started { ordinal: 1, already: false });
    let first = cell.raise(7);
    for attempt in [2, 3] {
        let start = GroupCommand::Start { member: id(1), attempt, epoch: 2, effect: Effect::Compensatable };
        assert!(matches!(cell.ask(&start), GroupReply::Started { already: false, .. }));
    }
    let again = cell.raise(7);
    let reports = [first, again].map(|reply| {
        let GroupReply::Raised { epoch, started, .. } = reply else { panic!("{reply:?}") };
        (epoch, started)
    });
    assert_eq!(reports[0], reports[1]);
    assert_eq!(cell.group.as_ref().unwrap().starts.len(), 2);
}

/// Without a bound the record of a busy group would grow until no store took it.
#[test]
fn a_group_lists_so_many_starts_and_no_more() {
    let mut cell = Cell::made();
    for number in 0..MOST_STARTS as u64 {
        let member = Id::derived("member", &[&number.to_be_bytes()]);
        let start = GroupCommand::Start { member, attempt: 1, epoch: 1, effect: Effect::Compensatable };
        assert!(matches!(cell.ask(&start), GroupReply::Started { .. }));
    }
    assert_eq!(cell.start(1, 1, Effect::Compensatable), GroupReply::Refused(WhyNot::Full));
    assert_eq!(may_start_as(cell.group.as_ref(), 1, Effect::Compensatable, NOW), Err(WhyNot::Full));
    assert_eq!(may_start_as(cell.group.as_ref(), 1, Effect::Unsafe, NOW), Ok(()), "it is not listed");
}

/// Every order of starts, supersedes, a commit, an unwind and a close, six long: a start is let through or refused, what
/// was let through is in every later report, and what was refused in none.
#[test]
fn in_every_order_a_start_is_reported_or_refused_and_never_both() {
    let alphabet: Vec<(&str, GroupCommand)> = vec![
        ("start a", GroupCommand::Start { member: id(1), attempt: 1, epoch: 1, effect: Effect::Compensatable }),
        ("start b", GroupCommand::Start { member: id(2), attempt: 1, epoch: 1, effect: Effect::Irreversible }),
        ("start c", GroupCommand::Start { member: id(3), attempt: 1, epoch: 2, effect: Effect::Compensatable }),
        ("supersede", GroupCommand::Inherit { nonce: Nonce([1; 16]) }),
        ("supersede again", GroupCommand::Inherit { nonce: Nonce([2; 16]) }),
        ("commit", GroupCommand::Commit),
        ("unwind", GroupCommand::Unwind),
        ("close", GroupCommand::Close),
    ];
    let mut checked = 0_u32;
    let mut path = Vec::new();
    walk(&Cell::made(), &alphabet, 6, &mut path, &mut checked);
    assert!(checked > 250_000, "{checked}");
}

fn walk(
    cell: &Cell,
    alphabet: &[(&'static str, GroupCommand)],
    left: u32,
    path: &mut Vec<(&'static str, GroupReply)>,
    checked: &mut u32,
) {
    if left == 0 {
        *checked += 1;
        return;
    }
    for (name, command) in alphabet {
        let mut next = Cell { group: cell.group.clone(), now: cell.now };
        let reply = next.ask(command);
        path.push((name, reply));
        check(cell, &next, command, path);
        walk(&next, alphabet, left - 1, path, checked);
        path.pop();
    }
}

fn check(before: &Cell, after: &Cell, command: &GroupCommand, path: &[(&'static str, GroupReply)]) {
    let (old, new) = (before.group.as_ref().unwrap(), after.group.as_ref().unwrap());
    assert!(new.epoch >= old.epoch, "{path:?}");
    assert!(new.committed.is_some() || old.committed.is_none(), "a commit point was taken back: {path:?}");
    assert!(new.unwinding || !old.unwinding, "{path:?}");
    let reply = &path.last().unwrap().1;
    if let (GroupCommand::Start { member, epoch, .. }, GroupReply::Refused(_)) = (command, reply) {
        assert!(new.starts.iter().all(|start| start.member != *member), "refused and listed: {path:?}");
        assert!(
            *epoch != old.epoch
                || old.unwinding
                || matches!(path.last(), Some((_, GroupReply::Refused(WhyNot::Closed))))
        );
    }
    if let GroupReply::Raised { epoch, started, already } = reply {
        let let_through: Vec<Id> =
            old.starts.iter().filter(|start| start.epoch < *epoch).map(|start| start.member).collect();
        let reported: Vec<Id> = started.iter().map(|start| start.member).collect();
        assert_eq!(reported, let_through, "{path:?}");
        assert!(*already || (old.committed.is_none() && !old.unwinding), "{path:?}");
    }
    // Ordinals are never given twice.
    let mut ordinals: Vec<u64> = new.starts.iter().map(|start| start.ordinal).collect();
    ordinals.sort_unstable();
    ordinals.dedup();
    assert_eq!(ordinals.len(), new.starts.len(), "{path:?}");
}
