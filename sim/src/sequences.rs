//! Random sequences of commands, through the whole engine and through the naive model: the same answers, the same states.

use std::sync::Arc;

use hapax_core::{
    Anchor, Effect, Honoured, Id, Millis, OutcomeClass, Stamp,
    command::{Posture, Release, Resolution, Resolve},
    policy::Policy,
};
use hapax_engine::{Begun, Engine, EngineError, SeededEntropy, Stepped, Wait};
use hapax_store::{ManualClock, MemoryStore, Seeded, Store};

use crate::{
    bridge::{self, LEASE},
    model::{Begin, Cmd, Knobs, Model, Resolution as How, Said, Token},
};

/// How many commands one sequence has.
const LENGTH: usize = 60;
const START: i64 = 1_000_000;

/// Walks one sequence; the error says where the two parted ways.
///
/// # Errors
/// As said.
pub fn run(seed: u64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(Walk::new(seed)?.walk())
}

struct Walk {
    dice: Seeded,
    engine: Engine,
    clock: Arc<ManualClock>,
    model: Model,
    class: Effect,
    honoured: Option<i64>,
    id: Id,
    now: i64,
    /// What each nonce was given last.
    held: Vec<Token>,
    nonces: u8,
    path: Vec<String>,
}

impl Walk {
    fn new(seed: u64) -> Result<Self, String> {
        let mut dice = Seeded::new(seed);
        let (stale, refuse) = (dice.chance(200), dice.chance(300));
        let knobs = Knobs { lease: LEASE, success: 100, failure: 60, open: 40, tombstone: 200, stale, refuse };
        let clock = Arc::new(ManualClock::new(Stamp(START.unsigned_abs())));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn hapax_store::Clock>));
        let policy = Policy { name: "walk".into(), ..bridge::policy(knobs) };
        let engine = Engine::builder(store)
            .entropy(Arc::new(SeededEntropy::new(dice.next())))
            .policy("pay", policy)
            .build()
            .map_err(|error| error.to_string())?;
        let class = dice.pick(&Effect::ALL).copied().unwrap_or_default();
        let id = engine.surface("pay").tenant("acme").key("order").id().map_err(|error| error.to_string())?;
        let model = Model::new(knobs);
        let honoured = dice.chance(400).then_some(25);
        Ok(Self {
            dice,
            engine,
            clock,
            model,
            class,
            honoured,
            id,
            now: START,
            held: Vec::new(),
            nonces: 0,
            path: Vec::new(),
        })
    }

    async fn walk(mut self) -> Result<(), String> {
        for _ in 0..LENGTH {
            if self.dice.chance(300) {
                let time = *self.dice.pick(&[1, LEASE - 1, LEASE, 39, 61, 100]).unwrap_or(&1);
                self.now += time;
                self.clock.advance(Millis(time.unsigned_abs()));
                self.path.push(format!("wait {time}"));
            }
            let cmd = self.draw();
            self.path.push(format!("{cmd:?}"));
            let expected = self.model.step(cmd, self.now);
            let got = self.carry(cmd).await.map_err(|error| format!("{error} after {:#?}", self.path))?;
            let explained = self.engine.explain(&self.id).await.map_err(|error| error.to_string())?;
            let state = format!("{:?}", explained.state);
            let same = got == expected || cmd == Cmd::Expire;
            if !same || state != self.model.name() {
                let model = self.model.name();
                return Err(format!(
                    "engine and model part ways after {:#?}\nmodel: {expected:?}, {model}\nengine: {got:?}, {state}",
                    self.path
                ));
            }
            if let Said::Execute(token) = got {
                self.held.push(token);
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Cmd {
        let recent = self.held.len().saturating_sub(3);
        let held = self.dice.pick(&self.held[recent..]).copied().unwrap_or((1, 250));
        let what = 1 + self.dice.below(2) as u8;
        match self.dice.below(24) {
            0..=6 => {
                // Now and then a nonce again.
                let again = self.dice.chance(200) && self.nonces > 0;
                if !again {
                    self.nonces += 1;
                }
                Cmd::Begin(Begin {
                    nonce: self.nonces,
                    print: if self.dice.chance(850) { 1 } else { 2 },
                    class: self.class,
                    started: self.dice.chance(500),
                    epoch: self.dice.chance(200).then(|| {
                        let current = 2 + self.dice.below(2);
                        (current - self.dice.below(2), current)
                    }),
                    admitted: true,
                    room: true,
                    honoured: self.honoured,
                })
            }
            7..=8 => Cmd::Start(held),
            9..=10 => Cmd::Renew(held),
            11..=12 => Cmd::Complete(held, what),
            13 => Cmd::Reject(held, what),
            14..=15 => Cmd::Fail(held, what),
            16 => Cmd::FailUnknown(held),
            17 => Cmd::Release(held),
            18..=19 => Cmd::ReleaseNoEffect(held),
            20 => Cmd::Resolve(How::Committed(what)),
            21 => Cmd::Resolve(How::Open),
            22 => Cmd::ResolveMoved(How::Open),
            23.. => Cmd::Expire,
        }
    }

    async fn carry(&self, cmd: Cmd) -> Result<Said, EngineError> {
        let (engine, id) = (&self.engine, &self.id);
        let success = |what| bridge::outcome(OutcomeClass::Success, what);
        let stepped = match cmd {
            Cmd::Begin(begin) => {
                let call = engine.surface("pay").tenant("acme").key("order").effect(begin.class).wait(Wait::No);
                let mut call = call.fingerprinted(bridge::print(begin.print));
                if !begin.started {
                    call = call.not_started();
                }
                if let Some(window) = begin.honoured {
                    let window = Millis(window.unsigned_abs());
                    call = call.honoured(Honoured { from: Anchor::Write, window });
                }
                if let Some((mine, group)) = begin.epoch {
                    call = call.epoch(mine, group);
                }
                return call.begin_with(bridge::nonce(begin.nonce)).await.map(said);
            }
            Cmd::Start(held) => engine.start(id, bridge::token(held)).await?,
            Cmd::Renew(held) => engine.renew(id, bridge::token(held), Millis(LEASE.unsigned_abs())).await?,
            Cmd::Complete(held, what) => engine.complete(id, bridge::token(held), success(what)).await?,
            Cmd::Reject(held, what) => {
                engine.reject(id, bridge::token(held), bridge::outcome(OutcomeClass::FinalFailure, what)).await?
            }
            Cmd::Fail(held, what) => {
                engine.fail(id, bridge::token(held), bridge::outcome(OutcomeClass::RetryableFailure, what)).await?
            }
            Cmd::FailUnknown(held) => {
                engine.fail(id, bridge::token(held), bridge::outcome(OutcomeClass::Unknown, 0)).await?
            }
            Cmd::Release(held) => engine.release(id, bridge::token(held), Release::BeforeStart).await?,
            Cmd::ReleaseNoEffect(held) => engine.release(id, bridge::token(held), Release::NoEffect).await?,
            Cmd::Resolve(how) => self.resolve(how, 0).await?,
            Cmd::ResolveMoved(how) => self.resolve(how, 1).await?,
            Cmd::Expire => {
                engine.sweep().await?;
                return Ok(Said::Ok);
            }
            // Not to be had from outside the engine, and so never drawn.
            Cmd::Unstart(_) | Cmd::Disown(_) | Cmd::ClaimProbe(_) | Cmd::Evict { .. } => return Ok(Said::Ok),
        };
        Ok(match stepped {
            Stepped::Done(done) if done.already => Said::OkAlready,
            Stepped::Done(done) if done.late => Said::OkLate,
            Stepped::Done(_) => Said::Ok,
            Stepped::Fenced => Said::Fenced,
            Stepped::Conflict(_) => Said::Conflict,
            Stepped::Refused(_) => Said::NotAllowed,
        })
    }

    async fn resolve(&self, how: How, ahead: u64) -> Result<Stepped, EngineError> {
        let resolution = match how {
            How::Committed(what) => Resolution::Committed(bridge::outcome(OutcomeClass::Success, what)),
            How::Rejected(what) => Resolution::Rejected(bridge::outcome(OutcomeClass::FinalFailure, what)),
            How::Open => Resolution::Open(Posture::OperatorAccepted),
        };
        let mut version = self.engine.version(&self.id).await?;
        version.0 += ahead;
        let resolve = Resolve { version, resolution, actor: "operator".into(), reason: "a walk".into() };
        match self.engine.resolve(&self.id, resolve).await {
            // Where there is no record there is nothing to resolve; the model calls that a conflict.
            Err(EngineError::NotFound(_)) => {
                Ok(Stepped::Conflict(hapax_core::command::Conflict::WrongState(hapax_core::StateName::Absent)))
            }
            other => other,
        }
    }
}

fn said(begun: Begun) -> Said {
    use hapax_core::{Recorded, Reply, Verdict};
    let verdict = match begun {
        Begun::Execute(ticket) => return Said::Execute((ticket.attempt(), ticket.token().nonce.0[0])),
        Begun::Replay(replayed) => Verdict::Replay(replayed.replay),
        Begun::JoinedFailure(_) => return Said::Conflict,
        Begun::Told(verdict) => verdict,
    };
    // An answer of which only the digest is left is not taken apart here.
    if let Verdict::Replay(replay) = &verdict
        && let Recorded::DigestOnly { digest, .. } = &replay.answer
    {
        let what = bridge::what_of_digest(digest);
        return Said::Replay { what, whole: false, rejected: replay.rejected, attempt: replay.attempt };
    }
    bridge::said(&Reply::Verdict(Box::new(verdict)))
}
