//! One state of everything, and every step out of it.

use std::sync::Arc;

use hapax_core::{
    Command, Current, Policy, Record, Stamp, State, Step, Version, Write, apply, as_read, lease_end, window_end,
};

use super::{
    config::{Budget, Config, Outcome},
    ghost::{Ghost, bit},
};
use crate::{
    bridge,
    model::{Begin, Cmd, Resolution, Said, Token},
};

/// What an operator decides, told apart from what owners say.
const OPERATOR: u8 = 60;

/// A write that was decided and sent. All that are kept could still land: their version is the current one.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub cmd: Cmd,
    pub said: Said,
    pub write: Arc<Write>,
    /// When it was decided. A write may take its time; a provider's window is left with more room than that.
    pub decided: i64,
}

/// What a client is about to ask, or to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    Idle,
    Begin,
    /// Holds a ticket; `checked` once the group has been asked, if there is one.
    Hold {
        started: bool,
        checked: bool,
    },
    Start,
    Renew {
        started: bool,
        checked: bool,
    },
    Report(Outcome),
    Release,
    Unstart,
    Disown,
    Done,
    Crashed,
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub phase: Phase,
    /// The swap that it waits for.
    pub sent: Option<Flight>,
    /// A begin of unknown fate: the version that the last one was sent against.
    pub unsure: Option<Version>,
    /// A start of unknown fate.
    pub unsure_start: bool,
    pub begun: u8,
    pub renews: u8,
    pub attempt: u32,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub record: Option<Arc<Record>>,
    pub version: Version,
    pub now: i64,
    pub clients: Vec<Client>,
    /// Writes that nobody waits for any more.
    pub late: Vec<Flight>,
    pub budget: Budget,
    pub group: u64,
    pub ghost: Ghost,
}

/// What becomes of a swap on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Answered,
    ReplyLost,
    WriteLost,
    /// Nobody waits any longer; it may land later.
    Late,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    /// Begin with a fresh nonce.
    Call(usize),
    /// Read, decide, and send the swap that follows, if one does.
    Ask(usize),
    AskToStart(usize),
    AskToRenew(usize),
    GiveBackUnstarted(usize),
    CheckGroup(usize),
    Run(usize, Outcome),
    Swap(usize, Fate),
    /// Give the unknown begin up.
    Disown(usize),
    /// Give up after a start of unknown fate.
    GiveUpStart(usize),
    /// For good. What was on its way arrives late, or not at all.
    Crash(usize, Fate),
    LandLate(usize),
    LoseLate(usize),
    Sweep,
    Evict {
        tombstones_full: bool,
    },
    Resolve(Resolution),
    ClaimProbe,
    /// The probe found nothing and made the effect impossible.
    ProbePrevents,
    /// The probe found nothing and the owner is known to be gone.
    ProbeOwnerGone,
    Supersede,
    Wait,
}

impl Action {
    /// What kind of step this is, so that a world in which it never happens can be noticed.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Call(_) => "call",
            Self::Ask(_) => "ask",
            Self::AskToStart(_) => "start",
            Self::AskToRenew(_) => "renew",
            Self::GiveBackUnstarted(_) => "give back",
            Self::CheckGroup(_) => "check the group",
            Self::Run(_, _) => "run",
            Self::Swap(_, Fate::Answered) => "answered",
            Self::Swap(_, Fate::ReplyLost) => "reply lost",
            Self::Swap(_, Fate::WriteLost) => "write lost",
            Self::Swap(_, Fate::Late) => "time-out in flight",
            Self::Disown(_) => "disown",
            Self::GiveUpStart(_) => "give up a start",
            Self::Crash(_, _) => "crash",
            Self::LandLate(_) => "land late",
            Self::LoseLate(_) => "lose late",
            Self::Sweep => "sweep",
            Self::Evict { .. } => "evict",
            Self::Resolve(_) => "resolve",
            Self::ClaimProbe => "claim a probe",
            Self::ProbePrevents => "probe prevents",
            Self::ProbeOwnerGone => "probe finds the owner gone",
            Self::Supersede => "supersede",
            Self::Wait => "wait",
        }
    }
}

/// A step that must not have been possible.
pub(super) type Broken = &'static str;

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let client = |renews| Client {
            phase: Phase::Idle,
            sent: None,
            unsure: None,
            unsure_start: false,
            begun: 0,
            renews,
            attempt: 0,
        };
        Self {
            record: None,
            version: Version::NEVER,
            now: 1_000,
            clients: config.clients.iter().map(|program| client(program.renews)).collect(),
            late: Vec::new(),
            budget: config.budget,
            group: 1,
            ghost: Ghost::default(),
        }
    }

    /// The nonce of a client's latest begin; each client has its own few.
    pub(super) fn nonce(&self, client: usize) -> u8 {
        nonce_of(client, self.clients[client].begun)
    }

    pub(super) fn token(&self, client: usize) -> Token {
        (self.clients[client].attempt, self.nonce(client))
    }

    pub(super) fn current(&self) -> Current<'_> {
        Current { record: self.record.as_deref(), version: self.version }
    }

    pub(super) fn decide(&self, policy: &Policy, cmd: Cmd) -> Step {
        apply(policy, self.current(), bridge::command(cmd, self.version), bridge::moment(self.now))
    }

    pub(super) fn read(&self) -> Option<std::borrow::Cow<'_, Record>> {
        self.record.as_deref().and_then(|record| as_read(record, bridge::stamp(self.now)))
    }

    /// Every step that is possible here, always in the same order.
    pub(super) fn actions(&self, config: &Config, policy: &Policy) -> Vec<Action> {
        let mut actions = Vec::with_capacity(16);
        for (number, client) in self.clients.iter().enumerate() {
            self.actions_of(config, number, client, &mut actions);
        }
        for number in 0..self.late.len() {
            actions.push(Action::LandLate(number));
            actions.push(Action::LoseLate(number));
        }
        self.actions_of_others(policy, &mut actions);
        actions
    }

    fn actions_of(&self, config: &Config, number: usize, client: &Client, actions: &mut Vec<Action>) {
        let program = &config.clients[number];
        if client.sent.is_some() {
            actions.push(Action::Swap(number, Fate::Answered));
            if self.budget.time_outs > 0 {
                actions.extend([Fate::ReplyLost, Fate::WriteLost, Fate::Late].map(|fate| Action::Swap(number, fate)));
            }
            if self.budget.crashes > 0 {
                actions.extend([Fate::WriteLost, Fate::Late].map(|fate| Action::Crash(number, fate)));
            }
            return;
        }
        match client.phase {
            Phase::Idle => {
                // Nobody asks in the name of an epoch that has not begun.
                if client.begun < program.begins && program.epoch.is_none_or(|epoch| epoch <= self.group) {
                    actions.push(Action::Call(number));
                }
                return;
            }
            Phase::Done | Phase::Crashed => return,
            Phase::Begin => {
                actions.push(Action::Ask(number));
                if client.unsure.is_some() {
                    actions.push(Action::Disown(number));
                }
            }
            Phase::Start => {
                actions.push(Action::Ask(number));
                if client.unsure_start {
                    actions.push(Action::GiveUpStart(number));
                }
            }
            Phase::Hold { started: false, .. } => {
                actions.push(Action::AskToStart(number));
                if program.outcomes.contains(&Outcome::NoEffect) {
                    actions.push(Action::GiveBackUnstarted(number));
                }
            }
            Phase::Hold { started: true, checked: false } => actions.push(Action::CheckGroup(number)),
            Phase::Hold { started: true, checked: true } => {
                actions.extend(program.outcomes.iter().map(|outcome| Action::Run(number, *outcome)));
            }
            Phase::Renew { .. } | Phase::Report(_) | Phase::Release | Phase::Unstart | Phase::Disown => {
                actions.push(Action::Ask(number));
            }
        }
        if matches!(client.phase, Phase::Hold { .. }) && client.renews > 0 {
            actions.push(Action::AskToRenew(number));
        }
        if self.budget.crashes > 0 {
            actions.push(Action::Crash(number, Fate::WriteLost));
        }
    }

    fn actions_of_others(&self, policy: &Policy, actions: &mut Vec<Action>) {
        let read = self.read();
        if self.decide(policy, Cmd::Expire).write != Write::Nothing {
            actions.push(Action::Sweep);
        }
        let state = read.as_deref().map(|record| &record.state);
        if self.budget.evictions > 0 && matches!(state, Some(State::Committed(_) | State::Rejected(_))) {
            actions.push(Action::Evict { tombstones_full: false });
            actions.push(Action::Evict { tombstones_full: true });
        }
        let unclear = matches!(state, Some(State::InDoubt(_) | State::Pending(_)));
        if self.budget.resolves > 0 && unclear {
            actions.push(Action::Resolve(Resolution::Committed(OPERATOR)));
            actions.push(Action::Resolve(Resolution::Rejected(OPERATOR + 1)));
            actions.push(Action::Resolve(Resolution::Open));
        }
        if self.budget.probes > 0
            && let Some(State::InDoubt(doubt)) = state
        {
            if doubt.next_probe.is_none() {
                actions.push(Action::ClaimProbe);
            } else if let Some(holder) = self.ghost.holder
                && self.ghost.took_effect & bit(holder.token.1) == 0
            {
                actions.push(Action::ProbePrevents);
                if self.clients[client_of(holder.token.1)].phase == Phase::Crashed {
                    actions.push(Action::ProbeOwnerGone);
                }
            }
        }
        if self.budget.supersedes > 0 {
            actions.push(Action::Supersede);
        }
        if self.next_moment().is_some() {
            actions.push(Action::Wait);
        }
    }

    /// The next moment at which anything reads differently, or the last one before that.
    fn next_moment(&self) -> Option<i64> {
        let mut moments = [None; 4];
        if let Some(record) = self.record.as_deref() {
            if let State::Pending(pending) = &record.state {
                moments[0] = Some(lease_end(&pending.lease));
            }
            moments[1] = window_end(record);
            moments[3] = honoured_end(record);
        }
        moments[2] = self.read().as_deref().and_then(window_end);
        moments
            .into_iter()
            .flatten()
            .filter_map(|at| i64::try_from(at.0).ok())
            .flat_map(|at| [at - 1, at])
            .filter(|at| *at > self.now)
            .min()
    }

    /// Takes one step.
    pub(super) fn take(&mut self, config: &Config, policy: &Policy, action: Action) -> Result<(), Broken> {
        match action {
            Action::Call(client) => {
                self.clients[client].begun += 1;
                self.clients[client].phase = Phase::Begin;
                self.ask(config, policy, client)?;
            }
            Action::Ask(client) => self.ask(config, policy, client)?,
            Action::AskToStart(client) => {
                self.clients[client].phase = Phase::Start;
                self.ask(config, policy, client)?;
            }
            Action::AskToRenew(client) => {
                let Phase::Hold { started, checked } = self.clients[client].phase else { return Ok(()) };
                self.clients[client].renews -= 1;
                self.clients[client].phase = Phase::Renew { started, checked };
                self.ask(config, policy, client)?;
            }
            Action::GiveBackUnstarted(client) | Action::GiveUpStart(client) => {
                self.clients[client].phase = Phase::Release;
            }
            Action::Disown(client) => self.clients[client].phase = Phase::Disown,
            Action::CheckGroup(client) => {
                let superseded = config.clients[client].epoch.is_some_and(|epoch| epoch < self.group);
                self.clients[client].phase =
                    if superseded { Phase::Unstart } else { Phase::Hold { started: true, checked: true } };
            }
            Action::Run(client, outcome) => {
                if matches!(outcome, Outcome::Complete | Outcome::Unknown) {
                    self.ghost.effect(self.nonce(client), config.class)?;
                }
                self.clients[client].phase = Phase::Report(outcome);
            }
            Action::Swap(client, fate) => self.swap(config, client, fate)?,
            Action::Crash(client, fate) => {
                self.budget.crashes -= 1;
                let sent = self.clients[client].sent.take();
                self.clients[client].phase = Phase::Crashed;
                self.clients[client].unsure = None;
                self.clients[client].unsure_start = false;
                if fate == Fate::Late {
                    self.late.extend(sent);
                }
            }
            Action::LandLate(number) => {
                let flight = self.late.swap_remove(number);
                self.store(config, &flight)?;
            }
            Action::LoseLate(number) => {
                self.late.swap_remove(number);
            }
            Action::Sweep => self.at_once(config, policy, Cmd::Expire)?,
            Action::Evict { tombstones_full } => {
                self.budget.evictions -= 1;
                self.at_once(config, policy, Cmd::Evict { tombstones_full })?;
            }
            Action::Resolve(resolution) => {
                self.budget.resolves -= 1;
                if resolution == Resolution::Open {
                    self.ghost.leaves += 1;
                }
                self.at_once(config, policy, Cmd::Resolve(resolution))?;
            }
            Action::ClaimProbe => self.at_once(config, policy, Cmd::ClaimProbe(self.now + 1_000))?,
            Action::ProbePrevents | Action::ProbeOwnerGone => {
                self.budget.probes -= 1;
                if let Some(holder) = self.ghost.holder {
                    self.ghost.prevented |= bit(holder.token.1);
                }
                self.at_once(config, policy, Cmd::Resolve(Resolution::Open))?;
            }
            Action::Supersede => {
                self.budget.supersedes -= 1;
                self.group += 1;
            }
            Action::Wait => self.now = self.next_moment().unwrap_or(self.now),
        }
        Ok(())
    }

    /// Somebody who is not a client reads, decides and swaps in one go.
    fn at_once(&mut self, config: &Config, policy: &Policy, cmd: Cmd) -> Result<(), Broken> {
        let step = self.decide(policy, cmd);
        let said = bridge::said(&step.reply);
        if step.write == Write::Nothing {
            return Ok(());
        }
        self.store(config, &Flight { cmd, said, write: Arc::new(step.write), decided: self.now })
    }

    fn command_of(&self, config: &Config, client: usize) -> Cmd {
        let program = &config.clients[client];
        let token = self.token(client);
        let what = 1 + self.nonce(client);
        match self.clients[client].phase {
            Phase::Begin => Cmd::Begin(Begin {
                nonce: self.nonce(client),
                print: program.print,
                class: config.class,
                started: program.started,
                epoch: program.epoch.map(|epoch| (epoch, self.group)),
                admitted: true,
                room: true,
                honoured: config.honoured,
            }),
            Phase::Start => Cmd::Start(token),
            Phase::Renew { .. } => Cmd::Renew(token),
            Phase::Report(Outcome::Complete) => Cmd::Complete(token, what),
            Phase::Report(Outcome::Reject) => Cmd::Reject(token, what),
            Phase::Report(Outcome::Fail) => Cmd::Fail(token, what),
            Phase::Report(Outcome::Unknown) => Cmd::FailUnknown(token),
            Phase::Report(Outcome::NoEffect) | Phase::Release => Cmd::ReleaseNoEffect(token),
            Phase::Unstart => Cmd::Unstart(token),
            Phase::Disown => Cmd::Disown(self.nonce(client)),
            Phase::Idle | Phase::Hold { .. } | Phase::Done | Phase::Crashed => Cmd::Expire,
        }
    }

    fn ask(&mut self, config: &Config, policy: &Policy, client: usize) -> Result<(), Broken> {
        let cmd = self.command_of(config, client);
        let mut command = bridge::command(cmd, self.version);
        if let Command::Disown { expected, .. } = &mut command {
            *expected = self.clients[client].unsure.unwrap_or(self.version);
        }
        let step = apply(policy, self.current(), command, bridge::moment(self.now));
        let said = bridge::said(&step.reply);
        if matches!(cmd, Cmd::Begin(_)) && !matches!(said, Said::Execute(_)) && step.write != Write::Nothing {
            return Err("11: a begin that was not let through wrote something");
        }
        if step.write == Write::Nothing {
            return self.told(config, client, said);
        }
        self.clients[client].sent = Some(Flight { cmd, said, write: Arc::new(step.write), decided: self.now });
        Ok(())
    }

    fn swap(&mut self, config: &Config, client: usize, fate: Fate) -> Result<(), Broken> {
        let Some(flight) = self.clients[client].sent.take() else { return Ok(()) };
        let against = self.version;
        if matches!(fate, Fate::Answered | Fate::ReplyLost) {
            self.store(config, &flight)?;
        }
        if fate == Fate::Answered {
            return self.told(config, client, flight.said);
        }
        self.budget.time_outs -= 1;
        let phase = self.clients[client].phase;
        if phase == Phase::Begin {
            self.clients[client].unsure = Some(against);
        }
        self.clients[client].unsure_start |= phase == Phase::Start;
        if fate == Fate::Late {
            self.late.push(flight);
        }
        Ok(())
    }

    /// The store takes a write whose version matches. Every other write on its way has lost its version with that: its
    /// sender, if it still waits, is told of the conflict and asks again.
    fn store(&mut self, config: &Config, flight: &Flight) -> Result<(), Broken> {
        self.version.0 += 1;
        self.record = match &*flight.write {
            Write::Put(record) => {
                let mut settled =
                    std::sync::Arc::unwrap_or_clone(record.clone()).settled(self.version, bridge::stamp(self.now));
                // For people only: no rule looks at them.
                settled.past = Vec::new();
                settled.attempt.lease = None;
                Some(Arc::new(settled))
            }
            Write::Remove | Write::Nothing => None,
        };
        self.late.clear();
        for client in &mut self.clients {
            client.sent = None;
        }
        self.ghost.stored(flight.cmd, flight.said, flight.decided, self.now, config)
    }

    /// A client is answered.
    fn told(&mut self, config: &Config, client: usize, said: Said) -> Result<(), Broken> {
        let nonce = self.nonce(client);
        let program = &config.clients[client];
        let more = self.clients[client].begun < program.begins;
        let over = if more { Phase::Idle } else { Phase::Done };
        let was_unsure = self.clients[client].unsure.is_some();
        let phase = self.clients[client].phase;
        let next = match (phase, said) {
            (Phase::Begin, Said::Execute(token)) => {
                self.clients[client].attempt = token.0;
                self.clients[client].unsure = None;
                Phase::Hold { started: program.started, checked: program.epoch.is_none() }
            }
            // Nothing but a ticket says where the earlier write went.
            (Phase::Begin, _) if was_unsure => Phase::Disown,
            (Phase::Begin, _) => over,
            (Phase::Start, Said::Ok | Said::OkAlready) => {
                Phase::Hold { started: true, checked: program.epoch.is_none() }
            }
            (Phase::Start, Said::Fenced) => Phase::Release,
            (Phase::Renew { started, checked }, Said::Ok | Said::Fenced) => Phase::Hold { started, checked },
            (Phase::Report(Outcome::NoEffect) | Phase::Release | Phase::Unstart, said) => {
                if !matches!(said, Said::Ok | Said::OkLate | Said::OkAlready | Said::Fenced) {
                    return Err("C6: an owner could not say that nothing happened");
                }
                self.ghost.settled |= bit(nonce);
                over
            }
            (Phase::Report(_), Said::Ok | Said::OkLate | Said::OkAlready) => over,
            (Phase::Report(_), Said::Fenced) => {
                let ended = self.ghost.holder.is_none_or(|holder| holder.token != self.token(client));
                let cut_off = ended && self.ghost.dead & bit(nonce) != 0;
                let gone = self.record.is_none() || self.read().is_none();
                if !cut_off && !gone {
                    return Err("6: the latest attempt was refused although nothing ended it");
                }
                over
            }
            (Phase::Disown, Said::Ok | Said::OkAlready) => {
                self.ghost.settled |= bit(nonce);
                self.clients[client].unsure = None;
                over
            }
            (
                Phase::Start
                | Phase::Renew { .. }
                | Phase::Report(_)
                | Phase::Disown
                | Phase::Idle
                | Phase::Hold { .. }
                | Phase::Done
                | Phase::Crashed,
                _,
            ) => return Err("an owner was given an answer that does not fit what it asked"),
        };
        if !matches!(next, Phase::Start) {
            self.clients[client].unsure_start = false;
        }
        if matches!(next, Phase::Idle | Phase::Done) {
            self.clients[client].attempt = 0;
        }
        self.clients[client].phase = next;
        Ok(())
    }
}

/// When the provider forgets the key.
fn honoured_end(record: &Record) -> Option<Stamp> {
    let honoured = record.ties.as_ref().and_then(|ties| ties.honoured)?;
    Some(honoured.from.resolve(Stamp(0)).plus(honoured.window))
}

/// Nonces are told apart by client, four for each.
pub(super) const fn nonce_of(client: usize, begun: u8) -> u8 {
    (client as u8) * 4 + begun
}

pub(super) const fn client_of(nonce: u8) -> usize {
    (nonce / 4) as usize
}
