//! One total function decides what becomes of a group: [`apply_group`].

use crate::{Anchor, Effect, Id, Moment, Nonce, Record, Span, Stamp, State, record::End};

use super::{
    CommitPoint, Group, GroupCommand, GroupPhase, GroupReply, GroupStep, MOST_STARTS, RAISES_KEPT, Raise, Started,
    WhyNot, is_listed,
};

/// The group as it reads now, or `None` once its time is over.
#[must_use]
pub fn group_as_read(group: &Group, now: Stamp) -> Option<&Group> {
    match group.phase {
        GroupPhase::Open | GroupPhase::Closing => Some(group),
        GroupPhase::Closed { since, keep } => {
            let over = keep.end(since.resolve(Stamp(0)));
            over.is_none_or(|over| now < over).then_some(group)
        }
    }
}

/// Whether a start of this epoch may go on, as far as a read can tell.
pub fn may_start(group: Option<&Group>, epoch: u64, now: Stamp) -> Result<(), WhyNot> {
    let group = group.and_then(|group| group_as_read(group, now)).ok_or(WhyNot::Absent)?;
    if group.epoch != epoch {
        return Err(WhyNot::Superseded { current: group.epoch });
    }
    still_open(group)
}

/// As [`may_start`], for an effect of this class: one that has to be listed needs a place in the list as well.
pub fn may_start_as(group: Option<&Group>, epoch: u64, effect: Effect, now: Stamp) -> Result<(), WhyNot> {
    may_start(group, epoch, now)?;
    let full = group.is_some_and(|group| group.starts.len() >= MOST_STARTS);
    if full && is_listed(effect) { Err(WhyNot::Full) } else { Ok(()) }
}

/// Whether the group may be superseded, and if not, why.
pub fn may_supersede(group: Option<&Group>, now: Stamp) -> Result<(), WhyNot> {
    let group = group.and_then(|group| group_as_read(group, now)).ok_or(WhyNot::Absent)?;
    still_open(group)?;
    match group.committed {
        Some(CommitPoint { by, .. }) => Err(WhyNot::Committed { by }),
        None => Ok(()),
    }
}

/// Whether a member, as it reads, may have had its effect: what a supersede has to report. Open is no proof that it has
/// not: an attempt that vanished, or whose owner could not say, may have come to its effect and be open to the next.
#[must_use]
pub fn may_have_started(record: &Record) -> bool {
    match &record.state {
        State::Pending(pending) if pending.started => true,
        State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => true,
        State::Pending(_) | State::Open(_) => vague(record.attempt.end) || was_vague(record),
    }
}

/// As [`may_have_started`], of what was begun before this epoch: the epoch it was begun in. That is recorded of the latest
/// attempt only. Where a newer turn has taken the member up, an earlier attempt counts as one of the turn before.
#[must_use]
pub fn started_before(record: &Record, epoch: u64) -> Option<u64> {
    match record.attempt.epoch {
        Some(begun) if begun < epoch => may_have_started(record).then_some(begun),
        Some(_) | None => was_vague(record).then(|| epoch.saturating_sub(1)),
    }
}

fn was_vague(record: &Record) -> bool {
    record.earlier_doubt.is_some() || record.past.iter().any(|past| vague(past.end))
}

/// Whether an attempt that ended so may have had its effect, although it is open to the next.
const fn vague(end: End) -> bool {
    match end {
        End::Lapsed { started } => started,
        End::FailedUnknown | End::Resolved => true,
        // Its owner's word that nothing happened, or it was never let start.
        End::Running | End::Completed | End::Rejected | End::Failed | End::Released | End::TakenOver => false,
    }
}

fn still_open(group: &Group) -> Result<(), WhyNot> {
    match group.phase {
        GroupPhase::Closing | GroupPhase::Closed { .. } => Err(WhyNot::Closed),
        GroupPhase::Open if group.unwinding => Err(WhyNot::Unwinding),
        GroupPhase::Open => Ok(()),
    }
}

/// The one place where it is decided what becomes of a group.
pub fn apply_group(current: Option<&Group>, command: &GroupCommand, moment: Moment) -> GroupStep {
    let read = current.and_then(|group| group_as_read(group, moment.now));
    let Some(group) = read else {
        return match command {
            GroupCommand::Create { about, parent } => {
                // Epochs go on from the store's time, so that none is given twice although a group was forgotten: a turn
                // of its earlier life must not be taken for one of this.
                let epoch = moment.now.0.max(1);
                let made = Group {
                    about: about.clone(),
                    parent: *parent,
                    epoch,
                    raises: Vec::new(),
                    committed: None,
                    unwinding: false,
                    phase: GroupPhase::Open,
                    starts: Vec::new(),
                    next_ordinal: 1,
                    absorbed: 0,
                    created_wall: moment.wall,
                };
                GroupStep { write: Some(made), reply: GroupReply::Made { epoch, already: false } }
            }
            GroupCommand::Inherit { .. }
            | GroupCommand::Absorb { .. }
            | GroupCommand::Start { .. }
            | GroupCommand::Commit
            | GroupCommand::Unwind
            | GroupCommand::Close
            | GroupCommand::Settle { .. } => refused(WhyNot::Absent),
        };
    };
    match command {
        GroupCommand::Create { .. } => match group.phase {
            GroupPhase::Open => answer(GroupReply::Made { epoch: group.epoch, already: true }),
            GroupPhase::Closing | GroupPhase::Closed { .. } => refused(WhyNot::Closed),
        },
        GroupCommand::Inherit { nonce } => inherit(group, *nonce, moment),
        GroupCommand::Absorb { epoch } => absorb(group, *epoch, moment),
        GroupCommand::Start { member, attempt, epoch, effect } => {
            start(group, *member, *attempt, *epoch, *effect, moment)
        }
        GroupCommand::Commit => commit(group, moment),
        GroupCommand::Unwind => unwind(group),
        GroupCommand::Close => match group.phase {
            GroupPhase::Open => put(Group { phase: GroupPhase::Closing, ..group.clone() }, DONE),
            GroupPhase::Closing | GroupPhase::Closed { .. } => answer(ALREADY),
        },
        GroupCommand::Settle { keep } => settle(group, *keep),
    }
}

fn inherit(group: &Group, nonce: Nonce, moment: Moment) -> GroupStep {
    if let Some(raise) = group.raises.iter().find(|raise| raise.nonce == nonce) {
        let started = older(&group.starts, raise.epoch);
        return answer(GroupReply::Raised { epoch: raise.epoch, already: true, started });
    }
    if let Err(why) = may_supersede(Some(group), moment.now) {
        return refused(why);
    }
    let mut next = group.clone();
    next.epoch += 1;
    if next.raises.len() == RAISES_KEPT {
        next.raises.remove(0);
    }
    next.raises.push(Raise { nonce, epoch: next.epoch });
    let reply = GroupReply::Raised { epoch: next.epoch, already: false, started: older(&group.starts, next.epoch) };
    put(next, reply)
}

/// A start of an older epoch is neither added nor dropped once the epoch was raised, so this list is the same whenever it
/// is asked.
fn older(starts: &[Started], epoch: u64) -> Vec<Started> {
    starts.iter().filter(|start| start.epoch < epoch).copied().collect()
}

fn absorb(group: &Group, epoch: u64, moment: Moment) -> GroupStep {
    if let Err(why) = may_supersede(Some(group), moment.now) {
        return refused(why);
    }
    if group.epoch != epoch {
        return refused(WhyNot::Superseded { current: group.epoch });
    }
    // Counted, so that absorbing and committing are put in an order by the record's version.
    put(Group { absorbed: group.absorbed.saturating_add(1), ..group.clone() }, DONE)
}

fn start(group: &Group, member: Id, attempt: u32, epoch: u64, effect: Effect, moment: Moment) -> GroupStep {
    // Its own earlier write: it was let through then, whatever has happened to the epoch since.
    if let Some(known) = group.starts.iter().find(|start| start.member == member && start.attempt == attempt) {
        return answer(GroupReply::Started { ordinal: known.ordinal, already: true });
    }
    if let Err(why) = may_start(Some(group), epoch, moment.now) {
        return refused(why);
    }
    let mut next = group.clone();
    // An earlier attempt of the same operation has ended, or is known to its provider by the same key. What an older
    // turn has started stays: it was reported, and is reported again when that is asked again.
    next.starts.retain(|start| start.member != member || start.epoch != epoch);
    if next.starts.len() >= MOST_STARTS {
        return refused(WhyNot::Full);
    }
    let ordinal = next.next_ordinal;
    next.next_ordinal += 1;
    next.starts.push(Started { member, attempt, epoch, effect, ordinal });
    if effect == Effect::Irreversible && next.committed.is_none() {
        next.committed = Some(CommitPoint { by: Some(member), wall: moment.wall });
    }
    put(next, GroupReply::Started { ordinal, already: false })
}

fn commit(group: &Group, moment: Moment) -> GroupStep {
    if let Err(why) = still_open(group) {
        return refused(why);
    }
    if group.committed.is_some() {
        return answer(ALREADY);
    }
    put(Group { committed: Some(CommitPoint { by: None, wall: moment.wall }), ..group.clone() }, DONE)
}

fn unwind(group: &Group) -> GroupStep {
    if group.unwinding {
        return answer(ALREADY);
    }
    match group.phase {
        GroupPhase::Open => put(Group { unwinding: true, ..group.clone() }, DONE),
        // Its members were let go, or are being: what they did may no longer be known.
        GroupPhase::Closing | GroupPhase::Closed { .. } => refused(WhyNot::Closed),
    }
}

fn settle(group: &Group, keep: Span) -> GroupStep {
    match group.phase {
        // Asked too early: its members were not let go, so it only closes.
        GroupPhase::Open => put(Group { phase: GroupPhase::Closing, ..group.clone() }, DONE),
        GroupPhase::Closing => {
            put(Group { phase: GroupPhase::Closed { since: Anchor::Write, keep }, ..group.clone() }, DONE)
        }
        GroupPhase::Closed { .. } => answer(ALREADY),
    }
}

const DONE: GroupReply = GroupReply::Done { already: false };
const ALREADY: GroupReply = GroupReply::Done { already: true };

const fn put(next: Group, reply: GroupReply) -> GroupStep {
    GroupStep { write: Some(next), reply }
}

const fn answer(reply: GroupReply) -> GroupStep {
    GroupStep { write: None, reply }
}

const fn refused(why: WhyNot) -> GroupStep {
    answer(GroupReply::Refused(why))
}
