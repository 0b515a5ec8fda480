use std::sync::Arc;

use hapax_core::{
    Body, Command, Current, Effect, Fingerprint, Millis, Moment, Nonce, Outcome, OutcomeClass, Policy, Preset, Record,
    Recorded, Refusal, RefusalReason, Reply, Span, Stamp, State, StateName, Step, Tag, Token, Verdict, Version,
    WallMillis, Write, apply, as_read,
    command::{Admit, Begin, Epochs, Posture, Refused, Release, Resolution, Resolve},
    identity::Scheme,
    policy::{AfterWindow, MismatchInFlight, OnLapse, OnMismatch, Treatment},
    record::About,
};
use hapax_store::codec;

use super::{Target, must, variant};
use crate::{mutate, runner};

/// First byte: the policy. Then a command and its arguments, byte by byte, on one record.
pub(super) const TARGET: Target = Target {
    name: "rules",
    about: "any sequence of commands on one record: no panic, one owner, answers that stay",
    words: &[&[0, 0], &[0, 1], &[2, 0], &[3, 0], &[9, 255], &[9, 3], &[11, 0], &[8, 2], &[12, 1]],
    seeds: || vec![vec![0, 0, 0, 0, 0, 3, 0, 0, 0], vec![1, 0, 5, 0, 0, 9, 200, 8, 2, 0, 0, 1, 0, 0]],
    make: |random| {
        let mut input = mutate::noise(random);
        for _ in 0..random.below(4) {
            input.extend(mutate::noise(random).iter().map(|byte| byte % 16));
        }
        input
    },
    run,
};

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// The next byte; zero for ever after the last.
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.next() % limit
    }
}

struct World {
    policy: Policy,
    record: Option<Record>,
    version: u64,
    now: u64,
}

fn run(input: &[u8]) -> Result<u64, String> {
    let mut bytes = Bytes(input);
    let mut world = World { policy: policy(bytes.next()), record: None, version: 0, now: 1_000 };
    let mut trail = 0;
    for step in 0..64 {
        if bytes.0.is_empty() {
            break;
        }
        let Some(command) = world.command(&mut bytes) else { continue };
        let kind = world.step(command).map_err(|what| format!("step {step}: {what}"))?;
        trail = if step < 4 { runner::hash((trail, kind)) } else { trail.max(kind) };
    }
    Ok(trail)
}

fn policy(pick: u8) -> Policy {
    let lapse = [None, Some(OnLapse::Stale), Some(OnLapse::InDoubt), None][usize::from(pick & 3)];
    Policy {
        lease: Millis(10),
        max_attempt: (pick & 4 != 0).then_some(Millis(40)),
        success: if pick & 8 != 0 { Span::Forever } else { Span::For(Millis(100)) },
        final_failure: Treatment::Replay(Span::For(Millis(60))),
        open_retention: Some(Span::For(Millis(40))),
        tombstone_retention: Span::For(Millis(200)),
        after_window: (pick & 16 != 0).then_some(AfterWindow::Refuse),
        mismatch_in_flight: (pick & 32 != 0).then_some(MismatchInFlight::InFlight),
        on_mismatch: if pick & 64 != 0 { OnMismatch::Observe } else { OnMismatch::Reject },
        on_lapse: [lapse; 5],
        ..Preset::Standard.policy()
    }
}

impl World {
    fn token(&self, bytes: &mut Bytes<'_>) -> Token {
        let pick = bytes.below(6);
        match (&self.record, pick) {
            (Some(record), 0..=3) => record.token(),
            (Some(_) | None, _) => Token { attempt: u32::from(bytes.below(4)), nonce: Nonce([bytes.below(4); 16]) },
        }
    }

    fn command(&mut self, bytes: &mut Bytes<'_>) -> Option<Command> {
        Some(match bytes.below(14) {
            0 | 1 => Command::Begin(begin(bytes)),
            2 => Command::Start { token: self.token(bytes) },
            3 => Command::Complete { token: self.token(bytes), outcome: outcome(bytes, OutcomeClass::Success) },
            4 => Command::Reject { token: self.token(bytes), outcome: outcome(bytes, OutcomeClass::FinalFailure) },
            5 => {
                let class = if bytes.below(2) == 0 { OutcomeClass::RetryableFailure } else { OutcomeClass::Unknown };
                Command::Fail { token: self.token(bytes), outcome: outcome(bytes, class) }
            }
            6 => Command::Renew { token: self.token(bytes), lease: Millis(u64::from(bytes.next())) },
            7 => {
                let why = if bytes.below(2) == 0 { Release::BeforeStart } else { Release::NoEffect };
                Command::Release { token: self.token(bytes), why }
            }
            8 => match bytes.below(3) {
                0 => Command::Unstart { token: self.token(bytes) },
                1 => Command::Disown { nonce: Nonce([bytes.below(4); 16]), expected: self.near(bytes) },
                _ => Command::ClaimProbe {
                    version: self.near(bytes),
                    next_at: Stamp(self.now).plus(Millis(bytes.next().into())),
                },
            },
            // Time passes, and sometimes the clock is set back.
            9 | 10 => {
                let by = u64::from(bytes.next());
                self.now = match by {
                    250..=255 => self.now.saturating_sub(by * 2),
                    240..=249 => u64::MAX - by,
                    _ => self.now.saturating_add(by),
                };
                return None;
            }
            11 => Command::Expire,
            12 => Command::Evict { tombstones_full: bytes.below(2) == 1 },
            _ => Command::Resolve(Resolve {
                version: self.near(bytes),
                resolution: match bytes.below(3) {
                    0 => Resolution::Committed(outcome(bytes, OutcomeClass::Success)),
                    1 => Resolution::Rejected(outcome(bytes, OutcomeClass::FinalFailure)),
                    _ => Resolution::Open(Posture::OperatorAccepted),
                },
                actor: Arc::from("ops"),
                reason: Arc::from(if bytes.below(4) == 0 { "" } else { "looked it up" }),
            }),
        })
    }

    /// The version, or one that has passed.
    fn near(&self, bytes: &mut Bytes<'_>) -> Version {
        Version(self.version.saturating_sub(u64::from(bytes.below(8) == 0)))
    }

    fn read(&self) -> Option<Record> {
        self.record.as_ref().and_then(|record| as_read(record, Stamp(self.now))).map(std::borrow::Cow::into_owned)
    }

    fn decide(&self, command: Command) -> Step {
        let current = Current { record: self.record.as_ref(), version: Version(self.version) };
        apply(&self.policy, current, command, Moment { now: Stamp(self.now), wall: WallMillis(7) })
    }

    fn step(&mut self, command: Command) -> Result<u64, String> {
        let before = self.read();
        let step = self.decide(command.clone());
        must(step == self.decide(command.clone()), || format!("{command:?} is decided two ways"))?;
        let kind = runner::hash((variant(&command), variant(&step.reply), verdict(&step.reply)));
        self.judge(before.as_ref(), &command, &step)?;
        match step.write {
            Write::Nothing => {}
            Write::Put(record) => {
                self.version += 1;
                let stored =
                    codec::open(&codec::seal(&record)).map_err(|error| format!("cannot be stored: {error}"))?;
                must(stored == *record, || format!("{record:?} is stored as another"))?;
                self.record = Some(stored.settled(Version(self.version), Stamp(self.now)));
            }
            Write::Remove => {
                self.version += 1;
                self.record = None;
            }
        }
        self.stays(before.as_ref(), &command)?;
        Ok(kind)
    }

    /// What the answer may be, given what was read.
    fn judge(&self, before: Option<&Record>, command: &Command, step: &Step) -> Result<(), String> {
        let told = |what: &str| format!("{what}: {command:?} on {before:?} gave {:?}", step.reply);
        let executes = matches!(&step.reply, Reply::Verdict(v) if matches!(**v, Verdict::Execute(_)));
        must(!executes || step.write != Write::Nothing, || told("a ticket that nobody wrote down"))?;
        let Some(record) = before else { return Ok(()) };
        match (&record.state, command) {
            (State::Pending(pending), Command::Begin(begin)) => {
                let taken_over = !pending.started && begin.epoch.is_some();
                let own = begin.nonce == record.attempt.nonce;
                must(!executes || own || taken_over, || told("a second owner"))
            }
            (State::InDoubt(_), Command::Begin(begin)) => {
                must(!executes || begin.nonce == record.attempt.nonce, || told("run again without leave"))
            }
            (State::Committed(done) | State::Rejected(done), Command::Begin(_)) => {
                must(!executes, || told("run again although it was decided"))?;
                match &step.reply {
                    Reply::Verdict(verdict) => match &**verdict {
                        Verdict::Replay(replay) => {
                            must(replay.answer == Recorded::Whole(done.outcome.clone()), || told("another answer"))
                        }
                        Verdict::Mismatch => Ok(()),
                        Verdict::WindowClosed { .. }
                        | Verdict::InFlight { .. }
                        | Verdict::InDoubt { .. }
                        | Verdict::Refused(_)
                        | Verdict::Fenced
                        | Verdict::Execute(_) => Err(told("no replay")),
                    },
                    Reply::Done(_) | Reply::Fenced | Reply::Conflict(_) | Reply::Refused(_) => Err(told("no verdict")),
                }
            }
            (State::Pending(_) | State::Open(_) | State::InDoubt(_), Command::Evict { .. }) => {
                must(step.reply == Reply::Refused(Refused::Live), || told("live work was evicted"))
            }
            (State::Open(_) | State::Tombstone(_), Command::Begin(_)) => Ok(()),
            (
                State::Pending(_)
                | State::Open(_)
                | State::InDoubt(_)
                | State::Committed(_)
                | State::Rejected(_)
                | State::Tombstone(_),
                _,
            ) => Ok(()),
        }
    }

    /// What may not have changed.
    fn stays(&self, before: Option<&Record>, command: &Command) -> Result<(), String> {
        let (Some(before), after) = (before, self.read()) else { return Ok(()) };
        let told = |what: &str| format!("{what}: {command:?} made {before:?} into {after:?}");
        if let (State::Committed(done) | State::Rejected(done), false) =
            (&before.state, matches!(command, Command::Evict { .. }))
        {
            let same = after.as_ref().is_some_and(|after| match &after.state {
                State::Committed(now) | State::Rejected(now) => {
                    now == done && after.state.name() == before.state.name()
                }
                State::Pending(_) | State::Open(_) | State::InDoubt(_) | State::Tombstone(_) => false,
            });
            must(same, || told("a decided operation changed"))?;
        }
        if let Some(after) = &after {
            must(after.attempt.number >= before.attempt.number, || told("attempts count down"))?;
            let next = after.attempt.number > before.attempt.number;
            must(!next || before.state.name() != StateName::InDoubt, || told("a doubt was passed over"))?;
            must(after.past.len() <= 8 && after.evidence.len() <= 4, || told("a list without bound"))?;
        }
        Ok(())
    }
}

fn verdict(reply: &Reply) -> u64 {
    match reply {
        Reply::Verdict(verdict) => variant(verdict),
        Reply::Done(done) => u64::from(done.already) + 2 * u64::from(done.late),
        Reply::Conflict(conflict) => variant(conflict),
        Reply::Refused(refused) => variant(refused),
        Reply::Fenced => 0,
    }
}

fn begin(bytes: &mut Bytes<'_>) -> Begin {
    let flags = bytes.next();
    let refusal = || Admit::No(Refusal { reason: RefusalReason::Quota, retry_after: Millis(5) });
    Begin {
        nonce: Nonce([bytes.below(4); 16]),
        fingerprint: (flags & 1 == 0).then(|| Fingerprint::of(Scheme::RAW_V1, [u8::from(flags & 2 != 0); 32])),
        effect: Effect::ALL[usize::from(flags >> 2 & 7) % 5],
        lease: None,
        owner: Arc::from("owner"),
        started: flags & 32 == 0,
        epoch: (flags & 64 != 0)
            .then(|| Epochs { caller: u64::from(bytes.below(3)), current: u64::from(bytes.below(3)) }),
        admit: if flags & 128 != 0 && bytes.below(2) == 0 { refusal() } else { Admit::Yes },
        room: if flags & 128 != 0 && bytes.below(2) == 0 { refusal() } else { Admit::Yes },
        about: Arc::new(About {
            surface: Arc::from("s"),
            tenant: Arc::from("t"),
            surface_tag: Tag([1; 16]),
            tenant_tag: Tag([2; 16]),
            principal: None,
            key_hash: [0; 8],
        }),
        ties: None,
    }
}

fn outcome(bytes: &mut Bytes<'_>, class: OutcomeClass) -> Outcome {
    let body = match bytes.below(4) {
        0 => Body::Empty,
        1 => Body::Uncaptured { length: 1, digest: [3; 32] },
        2 => Body::Handle(Arc::from("h")),
        _ => Body::Inline(vec![bytes.next(); if bytes.below(8) == 0 { 2_000 } else { 1 }].into()),
    };
    Outcome::new(class, body)
}
