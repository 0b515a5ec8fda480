//! The epoch fence, exhaustively: the real rules of operations and groups, callers that start and one that supersedes or
//! unwinds, in every order, with crashes, lapses, lost answers and writes that land late.
//!
//! Each step is one read or one compare-and-set: a swap that conflicts is decided again by the engine, so a decision and
//! its write are one moment. What is checked in every state: whoever ran is reported once the report is made, whoever was
//! refused did not run, nobody is both where the effect counts, and nobody is left in doubt who was refused.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use hapax_core::{
    Command, Current, Effect, Id, Moment, Nonce, Policy, Record, Reply, Stamp, State, Ties, Verdict, Version,
    WallMillis, Write, apply, as_read,
    command::{Admit, Begin, Epochs},
    group::{Group, GroupCommand, GroupReply, apply_group, is_listed, may_start, started_before},
    record::{About, End},
};

use crate::bridge;

/// What races with the starts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rival {
    Supersede,
    Unwind,
}

/// One little world.
#[derive(Clone, Debug)]
pub struct Fenced {
    /// The effect of each caller, and whether its begin is a start.
    pub callers: Vec<(Effect, bool)>,
    pub rival: Rival,
    pub faults: u8,
    pub crashes: u8,
    pub lapses: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Begin,
    /// Fenced, although an earlier start of its own has landed: the group is asked whether that was let through.
    AskOfEarlier,
    /// It was: begun again as it was begun then.
    BeginAsThen,
    Start,
    Ask,
    Run,
    /// Refused by the group: the mark is taken back.
    TakeBack,
    /// It was told so.
    Refused,
    Ran,
    /// It was told neither, and did nothing: the store was gone. Its start may be listed.
    GaveUp,
    Crashed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum RivalPhase {
    Mark,
    Look(usize),
    Reported,
}

#[derive(Clone, Debug)]
struct World {
    records: Vec<(Option<Arc<Record>>, u64)>,
    group: Group,
    group_version: u64,
    now: u64,
    phases: Vec<Phase>,
    /// A write to the group that nobody waits for: it lands if the version is still that one.
    late: Vec<(u64, Group)>,
    rival: RivalPhase,
    listed: Vec<bool>,
    found: Vec<bool>,
    ran: Vec<bool>,
    refused: Vec<bool>,
    faults: u8,
    crashes: u8,
    lapses: u8,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Step(usize),
    /// As a step, but the answer is lost and the caller says it again.
    Unanswered(usize),
    /// The answer to a begin that is a start is lost on its way to the caller, who says all of it again.
    Again(usize),
    /// The caller's write to the group is on its way, and the caller gives up.
    GiveUp(usize),
    Crash(usize),
    Rival,
    RivalUnanswered,
    LandLate(usize),
    Lapse,
}

/// What a search has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub states: u64,
    pub steps: BTreeMap<&'static str, u64>,
}

const LEASE: u64 = 100;
/// The time when the group is made, and so its first epoch.
const EPOCH: u64 = 1_000;

fn member(caller: usize) -> Id {
    Id([u8::try_from(caller).unwrap_or(u8::MAX) + 1; 32])
}

fn group_id() -> Id {
    Id([0xee; 32])
}

fn about() -> Arc<About> {
    bridge::about()
}

/// Visits every state.
///
/// # Errors
/// The promise that was broken, and the way to it.
pub fn search(fenced: &Fenced) -> Result<Seen, String> {
    let policy = bridge::policy(crate::model::Knobs {
        lease: LEASE as i64,
        success: 1_000_000,
        failure: 1_000_000,
        open: 1_000_000,
        tombstone: 10,
        stale: false,
        refuse: false,
    });
    let mut seen = Seen::default();
    let mut known = HashSet::new();
    let first = World::new(fenced)?;
    known.insert(first.fingerprint());
    let mut queue = VecDeque::from([(first, Vec::new())]);
    while let Some((world, path)) = queue.pop_front() {
        for action in world.actions(fenced) {
            *seen.steps.entry(action.name()).or_default() += 1;
            let mut next = world.clone();
            let taken = next.take(fenced, &policy, action);
            let mut path = path.clone();
            path.push(action);
            if let Err(promise) = taken.and_then(|()| next.check(fenced)) {
                return Err(format!("{promise}\n  in {fenced:?}\n  by {path:?}"));
            }
            if known.insert(next.fingerprint()) {
                queue.push_back((next, path));
            }
        }
    }
    seen.states = known.len() as u64;
    Ok(seen)
}

impl Action {
    const fn name(self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::Unanswered(_) => "unanswered",
            Self::Again(_) => "again",
            Self::GiveUp(_) => "give up",
            Self::Crash(_) => "crash",
            Self::Rival => "rival",
            Self::RivalUnanswered => "rival unanswered",
            Self::LandLate(_) => "land late",
            Self::Lapse => "lapse",
        }
    }
}

impl World {
    fn new(fenced: &Fenced) -> Result<Self, String> {
        let create = GroupCommand::Create { about: about(), parent: None };
        let made = apply_group(None, &create, moment(EPOCH)).write.ok_or("a group is not made")?;
        let callers = fenced.callers.len();
        Ok(Self {
            records: vec![(None, 0); callers],
            group: made,
            group_version: 1,
            now: EPOCH,
            phases: vec![Phase::Begin; callers],
            late: Vec::new(),
            rival: RivalPhase::Mark,
            listed: vec![false; callers],
            found: vec![false; callers],
            ran: vec![false; callers],
            refused: vec![false; callers],
            faults: fenced.faults,
            crashes: fenced.crashes,
            lapses: fenced.lapses,
        })
    }

    fn fingerprint(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        format!("{:?}{:?}{:?}", self.records, self.group, self.late).hash(&mut hash);
        (self.group_version, self.now, &self.phases, self.rival, &self.listed, &self.found).hash(&mut hash);
        (&self.ran, &self.refused, self.faults, self.crashes, self.lapses).hash(&mut hash);
        hash.finish()
    }

    fn actions(&self, fenced: &Fenced) -> Vec<Action> {
        let mut actions = Vec::new();
        for (caller, phase) in self.phases.iter().enumerate() {
            match phase {
                Phase::Refused | Phase::Ran | Phase::GaveUp | Phase::Crashed => continue,
                Phase::Begin
                | Phase::AskOfEarlier
                | Phase::BeginAsThen
                | Phase::Start
                | Phase::Ask
                | Phase::Run
                | Phase::TakeBack => {}
            }
            actions.push(Action::Step(caller));
            if self.crashes > 0 {
                actions.push(Action::Crash(caller));
            }
            if self.faults > 0 && fenced.callers[caller].1 && matches!(phase, Phase::Ask | Phase::Run) {
                actions.push(Action::Again(caller));
            }
            if self.faults > 0 && !matches!(phase, Phase::Run) {
                actions.push(Action::Unanswered(caller));
                if *phase == Phase::Ask && is_listed(fenced.callers[caller].0) {
                    actions.push(Action::GiveUp(caller));
                }
            }
        }
        if self.rival != RivalPhase::Reported {
            actions.push(Action::Rival);
            if self.faults > 0 && self.rival == RivalPhase::Mark {
                actions.push(Action::RivalUnanswered);
            }
        }
        actions.extend((0..self.late.len()).map(Action::LandLate));
        if self.lapses > 0 {
            actions.push(Action::Lapse);
        }
        actions
    }

    fn take(&mut self, fenced: &Fenced, policy: &Policy, action: Action) -> Result<(), &'static str> {
        match action {
            Action::Step(caller) => self.step(fenced, policy, caller, true),
            Action::Unanswered(caller) => {
                self.faults -= 1;
                self.step(fenced, policy, caller, false)
            }
            Action::Again(caller) => {
                self.faults -= 1;
                self.phases[caller] = Phase::Begin;
                Ok(())
            }
            Action::GiveUp(caller) => {
                self.faults -= 1;
                if let Some(next) = apply_group(Some(&self.group), &self.start(fenced, caller), moment(self.now)).write
                {
                    self.late.push((self.group_version, next));
                }
                // What it had begun is disowned, sooner or later; here at once.
                let nonce = Nonce([u8::try_from(caller).unwrap_or(0); 16]);
                let expected = Version(self.records[caller].1);
                let _disowned = self.decide(policy, caller, &Command::Disown { nonce, expected })?;
                self.phases[caller] = Phase::GaveUp;
                Ok(())
            }
            Action::Crash(caller) => {
                self.crashes -= 1;
                self.phases[caller] = Phase::Crashed;
                Ok(())
            }
            Action::Rival => self.rival(fenced, true),
            Action::RivalUnanswered => {
                self.faults -= 1;
                self.rival(fenced, false)
            }
            Action::LandLate(number) => {
                let (version, next) = self.late.remove(number);
                if version == self.group_version {
                    self.put_group(next);
                }
                Ok(())
            }
            Action::Lapse => {
                self.lapses -= 1;
                self.now += LEASE + 1;
                Ok(())
            }
        }
    }

    fn put_group(&mut self, mut next: Group) {
        next.settle(Stamp(self.now));
        self.group = next;
        self.group_version += 1;
    }

    fn start(&self, fenced: &Fenced, caller: usize) -> GroupCommand {
        let (effect, _) = fenced.callers[caller];
        let attempt = self.records[caller].0.as_ref().map_or(1, |record| record.attempt.number);
        GroupCommand::Start { member: member(caller), attempt, epoch: EPOCH, effect }
    }

    fn decide(&mut self, policy: &Policy, caller: usize, command: &Command) -> Result<Reply, &'static str> {
        let (record, version) = &self.records[caller];
        let current = Current { record: record.as_deref(), version: Version(*version) };
        let step = apply(policy, current, command, moment(self.now));
        let next = match step.write {
            Write::Nothing => return Ok(step.reply),
            Write::Put(record) => {
                let record = Arc::unwrap_or_clone(record);
                Some(Arc::new(record.settled(Version(version + 1), Stamp(self.now))))
            }
            Write::Remove => None,
        };
        self.records[caller] = (next, version + 1);
        Ok(step.reply)
    }

    /// The next thing that a caller does; `heard` says whether it learns what came of it.
    fn step(&mut self, fenced: &Fenced, policy: &Policy, caller: usize, heard: bool) -> Result<(), &'static str> {
        let (effect, started) = fenced.callers[caller];
        let nonce = Nonce([u8::try_from(caller).unwrap_or(0); 16]);
        let token = self.records[caller].0.as_ref().map(|record| record.token());
        let next = match self.phases[caller] {
            phase @ (Phase::Begin | Phase::BeginAsThen) => {
                // The look that saves a write, and decides nothing.
                let open = may_start(Some(&self.group), EPOCH, Stamp(self.now)).is_ok();
                let current = if open || phase == Phase::BeginAsThen { EPOCH } else { u64::MAX };
                let begin = Begin {
                    nonce,
                    fingerprint: None,
                    effect,
                    lease: None,
                    owner: "p".into(),
                    started,
                    epoch: Some(Epochs { caller: EPOCH, current }),
                    admit: Admit::Yes,
                    room: Admit::Yes,
                    about: about(),
                    ties: Some(Arc::new(Ties { group: Some(group_id()), ..Ties::default() })),
                };
                match self.decide(policy, caller, &Command::Begin(begin))? {
                    Reply::Verdict(verdict) => match *verdict {
                        Verdict::Execute(_) if started => Phase::Ask,
                        Verdict::Execute(_) => Phase::Start,
                        // An earlier begin of its own may have landed unheard.
                        Verdict::Fenced if is_listed(effect) && self.is_marked(caller) => Phase::AskOfEarlier,
                        Verdict::Fenced => Phase::TakeBack,
                        Verdict::WindowClosed { .. }
                        | Verdict::Mismatch
                        | Verdict::Replay(_)
                        | Verdict::InFlight { .. }
                        | Verdict::InDoubt { .. }
                        | Verdict::Refused(_) => return Err("a caller that is alone was told something else"),
                    },
                    Reply::Done(_) | Reply::Fenced | Reply::Conflict(_) | Reply::Refused(_) => {
                        return Err("a begin was not answered by a verdict");
                    }
                }
            }
            Phase::Start => {
                let token = token.ok_or("a record went that somebody holds")?;
                match self.decide(policy, caller, &Command::Start { token })? {
                    Reply::Done(_) => Phase::Ask,
                    // It lapsed before its start.
                    Reply::Fenced => Phase::TakeBack,
                    Reply::Verdict(_) | Reply::Conflict(_) | Reply::Refused(_) => {
                        return Err("a start was answered otherwise");
                    }
                }
            }
            phase @ (Phase::Ask | Phase::AskOfEarlier) if is_listed(effect) => {
                let step = apply_group(Some(&self.group), &self.start(fenced, caller), moment(self.now));
                if let Some(next) = step.write {
                    self.put_group(next);
                }
                match step.reply {
                    GroupReply::Started { .. } if phase == Phase::AskOfEarlier => Phase::BeginAsThen,
                    GroupReply::Started { .. } => Phase::Run,
                    GroupReply::Refused(_) => Phase::TakeBack,
                    GroupReply::Made { .. } | GroupReply::Raised { .. } | GroupReply::Done { .. } => {
                        return Err("a group answered a start otherwise");
                    }
                }
            }
            Phase::Ask | Phase::AskOfEarlier => match may_start(Some(&self.group), EPOCH, Stamp(self.now)) {
                Ok(()) => Phase::Run,
                Err(_) => Phase::TakeBack,
            },
            Phase::Run => {
                self.ran[caller] = true;
                Phase::Ran
            }
            Phase::TakeBack => {
                if let Some(token) = token {
                    let _taken_back = self.decide(policy, caller, &Command::Unstart { token })?;
                }
                Phase::Refused
            }
            phase @ (Phase::Refused | Phase::Ran | Phase::GaveUp | Phase::Crashed) => phase,
        };
        if heard {
            self.phases[caller] = next;
            self.refused[caller] |= next == Phase::Refused;
        }
        Ok(())
    }

    /// Whether the latest attempt of this caller was marked as started.
    fn is_marked(&self, caller: usize) -> bool {
        self.records[caller].0.as_deref().is_some_and(|record| match &record.state {
            State::Pending(pending) => pending.started,
            State::Open(_) | State::InDoubt(_) => matches!(record.attempt.end, End::Lapsed { started: true }),
            State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => false,
        })
    }

    fn rival(&mut self, fenced: &Fenced, heard: bool) -> Result<(), &'static str> {
        let next = match self.rival {
            RivalPhase::Mark => {
                let command = match fenced.rival {
                    Rival::Supersede => GroupCommand::Inherit { nonce: Nonce([0xaa; 16]) },
                    Rival::Unwind => GroupCommand::Unwind,
                };
                let step = apply_group(Some(&self.group), &command, moment(self.now));
                if let Some(next) = step.write {
                    self.put_group(next);
                }
                let listed = match step.reply {
                    GroupReply::Raised { started, .. } => started,
                    // Unwinding reads the list once nothing can be added to it.
                    GroupReply::Done { .. } => self.group.starts.clone(),
                    // Committed: nobody is superseded, so nothing has to be reported.
                    GroupReply::Refused(_) => {
                        self.rival = RivalPhase::Reported;
                        self.listed.fill(true);
                        self.found.fill(true);
                        return Ok(());
                    }
                    GroupReply::Made { .. } | GroupReply::Started { .. } => {
                        return Err("a group answered its rival otherwise");
                    }
                };
                if heard {
                    for caller in 0..self.listed.len() {
                        self.listed[caller] = listed.iter().any(|start| start.member == member(caller));
                    }
                }
                RivalPhase::Look(0)
            }
            RivalPhase::Look(caller) => {
                let read = self.records[caller].0.as_deref().and_then(|record| as_read(record, Stamp(self.now)));
                self.found[caller] = read.is_some_and(|record| started_before(&record, EPOCH + 1).is_some());
                if caller + 1 == self.records.len() { RivalPhase::Reported } else { RivalPhase::Look(caller + 1) }
            }
            RivalPhase::Reported => RivalPhase::Reported,
        };
        if heard {
            self.rival = next;
        }
        Ok(())
    }

    fn check(&self, fenced: &Fenced) -> Result<(), &'static str> {
        for (caller, (effect, _)) in fenced.callers.iter().enumerate() {
            let committed = self.group.committed.is_some() && fenced.rival == Rival::Supersede;
            let reported = if is_listed(*effect) { self.listed[caller] } else { self.found[caller] };
            if self.ran[caller] && self.refused[caller] {
                return Err("refused, and ran");
            }
            if self.rival == RivalPhase::Reported && self.ran[caller] && !reported {
                return Err("started, and neither reported nor refused");
            }
            let counts = is_listed(*effect) && !committed && self.rival == RivalPhase::Reported;
            if counts && self.refused[caller] && reported {
                return Err("reported and refused");
            }
            if self.phases[caller] == Phase::Refused {
                let read = self.records[caller].0.as_deref().and_then(|record| as_read(record, Stamp(self.now)));
                if read.is_some_and(|record| matches!(record.state, State::InDoubt(_) | State::Pending(_))) {
                    return Err("refused, and left behind as if it might have happened");
                }
            }
        }
        Ok(())
    }
}

const fn moment(now: u64) -> Moment {
    Moment { now: Stamp(now), wall: WallMillis(0) }
}
