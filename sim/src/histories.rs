//! Histories of one key from real threads, over a store that loses answers, for the question whether they can be told
//! as one thing after the other.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering::SeqCst},
    },
};

use hapax_core::{
    Effect, Id, Millis, OutcomeClass, Recorded, Verdict,
    command::{Posture, Release, Resolution, Resolve},
};
use hapax_engine::{Begun, Engine, EngineError, SeededEntropy, Settings, Stepped, Wait};
use hapax_store::{FaultyStore, MemoryStore, Odds, Plan, Seeded, Store};

use crate::{
    bridge,
    linear::{Heard, KNOBS, LONG, Op},
    model::{Begin, Cmd, Resolution as How, Token},
    world::line::Line,
};

/// The most operations of one history.
const MOST: u64 = 56;

/// Records one history. The threads are real, so the same seed may give another one.
///
/// # Errors
/// Where no runtime or engine can be built.
pub fn record(seed: u64) -> Result<Vec<Op>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let shared = Arc::new(Shared::default());
    let mut dice = Seeded::new(seed);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let rough = dice.chance(800);
    let odds = if rough { Odds { slow: 0, landing: 300, ..Odds::ROUGH } } else { Odds::default() };
    let mut engines = Vec::new();
    for number in 0..=dice.below(2) {
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&store), Plan::seeded(dice.next(), odds)));
        let line = Arc::new(Line::new(faulty, dice.next(), false, 0));
        let settings = Settings {
            owner: format!("p{number}"),
            store_retries: dice.below(3) as u32,
            store_backoff: std::time::Duration::from_micros(100),
            ..Settings::default()
        };
        let built = Engine::builder(line as Arc<dyn Store>)
            .entropy(Arc::new(SeededEntropy::new(dice.next())))
            .settings(settings)
            .policy("pay", bridge::policy(KNOBS))
            .build();
        engines.push(built.map_err(|error| error.to_string())?);
    }
    let clients = 2 + dice.below(7);
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..clients {
            let client = Client {
                shared: Arc::clone(&shared),
                engines: engines.clone(),
                dice: Seeded::new(dice.next()),
                held: Vec::new(),
            };
            tasks.spawn(client.live());
        }
        while tasks.join_next().await.is_some() {}
    });
    runtime.shutdown_background();
    let ops = std::mem::take(&mut *shared.ops.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(ops)
}

#[derive(Default)]
struct Shared {
    moment: AtomicU64,
    begun: AtomicU8,
    count: AtomicU64,
    ops: Mutex<Vec<Op>>,
}

impl Shared {
    fn now(&self) -> u64 {
        self.moment.fetch_add(1, SeqCst)
    }
}

struct Client {
    shared: Arc<Shared>,
    engines: Vec<Engine>,
    dice: Seeded,
    /// Tokens that this client was given, the last one last.
    held: Vec<(Id, Token)>,
}

impl Client {
    fn engine(&mut self) -> Engine {
        let index = usize::try_from(self.dice.below(self.engines.len() as u64)).unwrap_or(0);
        self.engines[index].clone()
    }

    async fn live(mut self) {
        for _ in 0..2 + self.dice.below(5) {
            self.begin().await;
            if self.dice.chance(150) {
                self.resolve().await;
            }
            for _ in 0..1 + self.dice.below(2) {
                self.end().await;
            }
        }
    }

    /// Asks, and notes what was told.
    async fn ask(&mut self, cmd: Cmd, work: impl Future<Output = Option<Heard>>) -> Option<Heard> {
        if self.shared.count.fetch_add(1, SeqCst) >= MOST {
            return None;
        }
        let called = self.shared.now();
        let heard = work.await;
        let answered = heard.map(|heard| (self.shared.now(), heard));
        self.shared.ops.lock().unwrap_or_else(PoisonError::into_inner).push(Op { cmd, called, answered });
        heard
    }

    async fn begin(&mut self) {
        let nonce = self.shared.begun.fetch_add(1, SeqCst).wrapping_add(1);
        let begin = Begin {
            nonce,
            print: if self.dice.chance(900) { 1 } else { 2 },
            class: Effect::Unsafe,
            started: self.dice.chance(600),
            epoch: None,
            admitted: true,
            room: true,
            honoured: None,
        };
        // Repeated with the same nonce as long as there is no answer.
        for _ in 0..3 {
            let engine = self.engine();
            let call = engine.surface("pay").tenant("acme").key("order").effect(begin.class).wait(Wait::No);
            let call = call.fingerprinted(bridge::print(begin.print));
            let call = if begin.started { call } else { call.not_started() };
            let Ok(id) = call.id() else { return };
            let work = async { call.begin_with(bridge::nonce(nonce)).await.ok().map(|begun| heard(&begun)) };
            match self.ask(Cmd::Begin(begin), work).await {
                Some(Heard::Execute(token)) => {
                    self.held.push((id, token));
                    return;
                }
                Some(_) => return,
                None => {}
            }
        }
    }

    async fn end(&mut self) {
        // Mostly the latest token; now and then an old one.
        let index = if self.dice.chance(850) {
            self.held.len().checked_sub(1)
        } else {
            usize::try_from(self.dice.below(self.held.len() as u64)).ok()
        };
        let Some((id, held)) = index.and_then(|index| self.held.get(index).copied()) else { return };
        let engine = self.engine();
        let token = bridge::token(held);
        // What an attempt says follows from who it is, so that saying it again is saying the same.
        let what = held.1;
        let outcome = |class| bridge::outcome(class, what);
        let verb = self.dice.below(9);
        let cmd = match verb {
            0 => Cmd::Start(held),
            1 => Cmd::Renew(held),
            2 => Cmd::Reject(held, what),
            3 => Cmd::Fail(held, what),
            4 => Cmd::FailUnknown(held),
            5 => Cmd::Release(held),
            6 => Cmd::ReleaseNoEffect(held),
            7.. => Cmd::Complete(held, what),
        };
        let work = async {
            let stepped = match verb {
                0 => engine.start(&id, token).await,
                1 => engine.renew(&id, token, Millis(LONG.unsigned_abs())).await,
                2 => engine.reject(&id, token, outcome(OutcomeClass::FinalFailure)).await,
                3 => engine.fail(&id, token, outcome(OutcomeClass::RetryableFailure)).await,
                4 => engine.fail(&id, token, outcome(OutcomeClass::Unknown)).await,
                5 => engine.release(&id, token, Release::BeforeStart).await,
                6 => engine.release(&id, token, Release::NoEffect).await,
                7.. => engine.complete(&id, token, outcome(OutcomeClass::Success)).await,
            };
            stepped.ok().map(|stepped| match stepped {
                Stepped::Done(_) => Heard::Done,
                Stepped::Fenced => Heard::Fenced,
                Stepped::Conflict(_) => Heard::Conflict,
                Stepped::Refused(_) => Heard::NotAllowed,
            })
        };
        self.ask(cmd, work).await;
    }

    async fn resolve(&mut self) {
        // What is not noted must not happen either.
        if self.shared.count.fetch_add(1, SeqCst) >= MOST {
            return;
        }
        let engine = self.engine();
        let Ok(id) = engine.surface("pay").tenant("acme").key("order").id() else { return };
        let Ok(version) = engine.version(&id).await else { return };
        let what = 200 + self.dice.below(20) as u8;
        let (how, resolution) = if self.dice.chance(700) {
            (How::Open, Resolution::Open(Posture::OperatorAccepted))
        } else {
            (How::Committed(what), Resolution::Committed(bridge::outcome(OutcomeClass::Success, what)))
        };
        // Each resolution has words of its own, by which it is recognised when its answer was lost.
        let reason = format!("resolution {}", self.dice.next());
        let resolve = Resolve { version, resolution, actor: "operator".into(), reason: reason.into() };
        let called = self.shared.now();
        let answered = match engine.resolve(&id, resolve).await {
            Ok(stepped) if stepped.is_done() => Some((self.shared.now(), Heard::Done)),
            Err(EngineError::NotFound(_)) => return,
            // The version had moved. It may have been this one that moved it, with its answer lost.
            Ok(_) | Err(_) => None,
        };
        let op = Op { cmd: Cmd::Resolve(how), called, answered };
        self.shared.ops.lock().unwrap_or_else(PoisonError::into_inner).push(op);
    }
}

fn heard(begun: &Begun) -> Heard {
    match begun {
        Begun::Execute(ticket) => Heard::Execute((ticket.attempt(), ticket.token().nonce.0[0])),
        Begun::Replay(replayed) => match &replayed.replay.answer {
            Recorded::Whole(outcome) => {
                Heard::Replay { what: bridge::what_of(outcome), rejected: replayed.replay.rejected }
            }
            Recorded::DigestOnly { .. } => Heard::Odd,
        },
        Begun::JoinedFailure(_) => Heard::Odd,
        Begun::Told(verdict) => match verdict {
            Verdict::Mismatch => Heard::Mismatch,
            Verdict::InFlight { .. } => Heard::InFlight,
            Verdict::InDoubt { .. } => Heard::InDoubt,
            Verdict::WindowClosed { .. }
            | Verdict::Replay(_)
            | Verdict::Refused(_)
            | Verdict::Fenced
            | Verdict::Execute(_) => Heard::Odd,
        },
    }
}
