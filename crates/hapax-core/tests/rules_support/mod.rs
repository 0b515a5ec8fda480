//! One record in the plainest of stores, so that a test reads as a history.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::panic, clippy::wildcard_enum_match_arm, reason = "a test that was told something else stops there")]

use std::sync::Arc;

use hapax_core::{
    Command, Current, Effect, Fingerprint, Grant, Millis, Moment, Nonce, Outcome, OutcomeClass, Policy, Preset, Record,
    Reply, Span, Stamp, StateName, Step, Tag, Token, Verdict, Version, WallMillis, Write, apply, as_read,
    command::{Admit, Begin, Done, Epochs, Posture, Release, Resolution, Resolve},
    identity::Scheme,
    policy::{AfterWindow, OnLapse, Treatment},
    record::About,
};

pub const LEASE: u64 = 10;
pub const OPEN: u64 = 40;
pub const FAILURE: u64 = 60;
pub const SUCCESS: u64 = 100;
pub const TOMBSTONE: u64 = 200;

/// A policy with small round windows.
pub fn policy() -> Policy {
    Policy {
        lease: Millis(LEASE),
        success: Span::For(Millis(SUCCESS)),
        final_failure: Treatment::Replay(Span::For(Millis(FAILURE))),
        open_retention: Some(Span::For(Millis(OPEN))),
        tombstone_retention: Span::For(Millis(TOMBSTONE)),
        after_window: Some(AfterWindow::New),
        ..Preset::Standard.policy()
    }
}

pub fn stale() -> Policy {
    Policy { on_lapse: [Some(OnLapse::Stale); 5], ..policy() }
}

pub fn refusing() -> Policy {
    Policy { after_window: Some(AfterWindow::Refuse), ..policy() }
}

pub const fn nonce(number: u8) -> Nonce {
    Nonce([number; 16])
}

pub const fn token(attempt: u32, number: u8) -> Token {
    Token { attempt, nonce: nonce(number) }
}

pub fn print(number: u8) -> Fingerprint {
    Fingerprint::of(Scheme::RAW_V1, [number; 32])
}

pub fn success(what: u8) -> Outcome {
    Outcome::success(vec![what])
}

pub fn refusal(what: u8) -> Outcome {
    Outcome::refusal(vec![what])
}

pub fn failure(class: OutcomeClass, what: u8) -> Outcome {
    Outcome { class, ..success(what) }
}

pub fn about() -> Arc<About> {
    Arc::new(About {
        surface: Arc::from("payments"),
        tenant: Arc::from("acme"),
        surface_tag: Tag([1; 16]),
        tenant_tag: Tag([2; 16]),
        principal: None,
        key_hash: [0; 8],
    })
}

/// A begin with print 1 that starts at once; change what the test is about.
pub fn begin(number: u8, effect: Effect) -> Begin {
    Begin {
        nonce: nonce(number),
        fingerprint: Some(print(1)),
        effect,
        lease: None,
        owner: Arc::from("owner"),
        started: true,
        epoch: None,
        admit: Admit::Yes,
        room: Admit::Yes,
        about: about(),
        ties: None,
    }
}

pub fn not_started(number: u8, effect: Effect) -> Begin {
    Begin { started: false, ..begin(number, effect) }
}

pub fn in_epoch(begin: Begin, caller: u64, current: u64) -> Begin {
    Begin { epoch: Some(Epochs { caller, current }), ..begin }
}

pub fn complete(token: Token, what: u8) -> Command {
    Command::Complete { token, outcome: success(what) }
}

pub fn reject(token: Token, what: u8) -> Command {
    Command::Reject { token, outcome: refusal(what) }
}

pub fn fail(token: Token, what: u8) -> Command {
    Command::Fail { token, outcome: failure(OutcomeClass::RetryableFailure, what) }
}

pub fn fail_unknown(token: Token) -> Command {
    Command::Fail { token, outcome: failure(OutcomeClass::Unknown, 0) }
}

pub fn release(token: Token) -> Command {
    Command::Release { token, why: Release::BeforeStart }
}

pub fn no_effect(token: Token) -> Command {
    Command::Release { token, why: Release::NoEffect }
}

pub fn resolve(version: Version, resolution: Resolution) -> Command {
    Command::Resolve(Resolve { version, resolution, actor: Arc::from("ops"), reason: Arc::from("looked it up") })
}

pub fn run_again(version: Version) -> Command {
    resolve(version, Resolution::Open(Posture::OperatorAccepted))
}

pub const OK: Reply = Reply::Done(Done { already: false, late: false });
pub const ALREADY: Reply = Reply::Done(Done { already: true, late: false });
pub const LATE: Reply = Reply::Done(Done { already: false, late: true });

/// A swap that was decided and sent, and has not arrived.
#[derive(Clone, Debug)]
pub struct InFlight {
    expected: Version,
    write: Write,
}

#[derive(Clone, Debug)]
pub struct Cell {
    pub policy: Policy,
    pub record: Option<Record>,
    pub version: Version,
    pub now: u64,
}

impl Cell {
    pub fn new(policy: Policy) -> Self {
        Self { policy, record: None, version: Version::NEVER, now: 1_000 }
    }

    pub fn moment(&self) -> Moment {
        Moment { now: Stamp(self.now), wall: WallMillis(7) }
    }

    pub fn current(&self) -> Current<'_> {
        Current { record: self.record.as_ref(), version: self.version }
    }

    pub fn decide(&self, command: Command) -> Step {
        apply(&self.policy, self.current(), command, self.moment())
    }

    /// Decides and stores in one go.
    pub fn ask(&mut self, command: Command) -> Reply {
        let step = self.decide(command);
        self.store(step.write);
        step.reply
    }

    pub fn begin(&mut self, begin: Begin) -> Verdict {
        match self.ask(Command::Begin(begin)) {
            Reply::Verdict(verdict) => *verdict,
            other => panic!("a begin was told {other:?}"),
        }
    }

    pub fn granted(&mut self, begin: Begin) -> Token {
        match self.begin(begin) {
            Verdict::Execute(Grant { token, .. }) => token,
            other => panic!("expected a ticket, was told {other:?}"),
        }
    }

    /// Decides, and leaves the write on its way.
    pub fn send(&self, command: Command) -> InFlight {
        InFlight { expected: self.version, write: self.decide(command).write }
    }

    /// The write arrives; true if it was taken.
    pub fn land(&mut self, flight: InFlight) -> bool {
        let taken = flight.expected == self.version && flight.write != Write::Nothing;
        if taken {
            self.store(flight.write);
        }
        taken
    }

    pub fn store(&mut self, write: Write) {
        match write {
            Write::Nothing => {}
            Write::Put(record) => {
                self.version.0 += 1;
                self.record = Some(std::sync::Arc::unwrap_or_clone(record).settled(self.version, Stamp(self.now)));
            }
            Write::Remove => {
                self.version.0 += 1;
                self.record = None;
            }
        }
    }

    pub fn wait(&mut self, time: u64) {
        self.now += time;
    }

    pub fn sweep(&mut self) {
        let _ = self.ask(Command::Expire);
    }

    pub fn read(&self) -> Option<Record> {
        self.record.as_ref().and_then(|record| as_read(record, Stamp(self.now))).map(std::borrow::Cow::into_owned)
    }

    pub fn state(&self) -> StateName {
        self.read().map_or(StateName::Absent, |record| record.state.name())
    }
}
