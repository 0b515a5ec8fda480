//! Schedules of waiters, gate and cancellation around one key: no wake-up is lost, nobody who waits executes, and what
//! runs runs alone.
//!
//! Every call to the store gives way a random number of times, and which caller goes on next is drawn. Time is
//! simulated: where a wake-up is lost it jumps to the waiter's far deadline, and that is noticed.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use hapax_core::{Effect, Millis, Outcome, OutcomeClass, Preset, command::Release, policy::Policy};
use hapax_engine::{Begun, Classified, Engine, OnceError, Settings, Ticket, Wait};
use hapax_store::{FaultyStore, Plan, Seeded, Store};

use super::{
    attend::{Ended, Marks, Patience, attend},
    clock::WorldClock,
    history::{History, Told},
    line::Line,
    process::{Death, KnownEntropy, Process},
    told,
    truth::Truth,
};
use crate::pump::Pump;

/// Longer than everything else here: nobody comes to wait that long unless a wake-up was lost.
const FAR: u64 = 3_600_000;
const LEASE: u64 = 1_000;

/// What happened in one schedule, for the question whether the schedules see what they were made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Played {
    /// Callers that waited for another's attempt.
    pub joined: u64,
    /// Of these, the ones that were given its answer,
    pub answered: u64,
    /// those that were told that it failed,
    pub failed: u64,
    /// and those whose own time was over, or who are to ask again.
    pub in_flight: u64,
    pub executed: u64,
    pub cancelled: u64,
}

/// Goes through one schedule; the error is the promise that was broken.
///
/// # Errors
/// As said.
pub fn run(seed: u64) -> Result<Played, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async { Scene::new(seed)?.play().await })
}

struct Scene {
    dice: RefCell<Seeded>,
    clock: Arc<WorldClock>,
    history: Arc<History>,
    processes: Vec<Arc<Process>>,
    /// How many run right now, and how many succeeded.
    running: Cell<u32>,
    succeeded: Cell<u32>,
    value: RefCell<Option<String>>,
    broken: RefCell<Vec<String>>,
    played: Cell<Played>,
}

impl Scene {
    fn new(seed: u64) -> Result<Rc<Self>, String> {
        let mut dice = Seeded::new(seed);
        let clock = Arc::new(WorldClock::new());
        let history = Arc::new(History::new(Arc::clone(&clock)));
        let truth: Arc<dyn Store> = Arc::new(Truth::new(Arc::clone(&clock), Arc::clone(&history)));
        let count = 1 + dice.below(2);
        let mut processes = Vec::new();
        for number in 0..count {
            let faulty = Arc::new(FaultyStore::new(Arc::clone(&truth), Plan::quiet()));
            let line = Arc::new(Line::new(faulty, dice.next(), count == 1, 0));
            let entropy = Arc::new(KnownEntropy::new(dice.next()));
            let per_key = *dice.pick(&[1, 2, 100]).unwrap_or(&100);
            let settings =
                Settings { owner: format!("p{number}"), waiters_per_key: per_key, events: 8, ..Settings::default() };
            let policy = Policy { lease: Millis(LEASE), ..Preset::Standard.policy() };
            let engine = Engine::builder(Arc::clone(&line) as Arc<dyn Store>)
                .entropy(Arc::clone(&entropy) as Arc<dyn hapax_engine::Entropy>)
                .wall_clock(Arc::clone(&clock) as Arc<dyn hapax_engine::WallClock>)
                .settings(settings.clone())
                .policy("pay", policy)
                .build()
                .map_err(|error| error.to_string())?;
            let death = Arc::new(Death::default());
            let sweeper = std::sync::Mutex::new(None);
            processes.push(Arc::new(Process {
                name: settings.owner.clone(),
                engine,
                line,
                entropy,
                death,
                settings,
                sweeper,
            }));
        }
        Ok(Rc::new(Self {
            dice: RefCell::new(dice),
            clock,
            history,
            processes,
            running: Cell::new(0),
            succeeded: Cell::new(0),
            value: RefCell::default(),
            broken: RefCell::default(),
            played: Cell::default(),
        }))
    }

    async fn play(self: Rc<Self>) -> Result<Played, String> {
        let mut pump = Pump::new(self.dice.borrow_mut().next());
        let count = 2 + self.dice.borrow_mut().below(6);
        for number in 0..count {
            let seed = self.dice.borrow_mut().next();
            pump.add(caller(Rc::clone(&self), number, Seeded::new(seed)));
        }
        pump.await;
        // An hour has passed only if somebody slept through the end of what it waited for.
        if self.clock.elapsed() > FAR / 2 {
            self.broken.borrow_mut().push("a wake-up was lost: somebody waited to its far deadline".to_owned());
        }
        for process in &self.processes {
            process.check_bounds(&self.history);
            if process.engine.waiting() > 0 {
                self.broken.borrow_mut().push(format!("{} still wait", process.engine.waiting()));
            }
        }
        self.broken.borrow_mut().extend(self.history.violations());
        let broken = self.broken.borrow().join("; ");
        if broken.is_empty() { Ok(self.played.get()) } else { Err(broken) }
    }

    fn note(&self, change: impl FnOnce(&mut Played)) {
        let mut played = self.played.get();
        change(&mut played);
        self.played.set(played);
    }

    /// Counts how a caller's wait ended.
    fn waited<T>(&self, joined: bool, ended: &Ended<T>, told: impl FnOnce(&T) -> Told) {
        let told = match ended {
            Ended::Answered(answer) => told(answer),
            Ended::Cancelled | Ended::Crashed => return self.note(|played| played.cancelled += 1),
        };
        if !joined {
            return;
        }
        self.note(|played| {
            played.joined += 1;
            played.answered += u64::from(matches!(told, Told::Replay { .. }));
            played.failed += u64::from(matches!(told, Told::JoinedFailure(_)));
            played.in_flight += u64::from(matches!(told, Told::InFlight));
        });
    }

    fn break_promise(&self, what: impl Into<String>) {
        self.broken.borrow_mut().push(what.into());
    }

    /// The work itself, which must be alone.
    fn enter(self: &Rc<Self>) -> Inside {
        self.note(|played| played.executed += 1);
        self.running.set(self.running.get() + 1);
        if self.running.get() > 1 {
            self.break_promise("2: two run at once");
        }
        if self.succeeded.get() > 0 {
            self.break_promise("4: it ran again after it had succeeded");
        }
        Inside(Rc::clone(self))
    }

    fn given(&self, value: &str) {
        let known = self.value.borrow().clone();
        match known {
            None => *self.value.borrow_mut() = Some(value.to_owned()),
            Some(known) if known == value => {}
            Some(known) => self.break_promise(format!("4: two answers, {known} and {value}")),
        }
    }
}

/// Somebody is inside until this is dropped.
struct Inside(Rc<Scene>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
    }
}

async fn caller(scene: Rc<Scene>, number: u64, mut dice: Seeded) {
    let index = usize::try_from(dice.below(scene.processes.len() as u64)).unwrap_or(0);
    let process = Arc::clone(&scene.processes[index]);
    for _ in 0..dice.below(12) {
        tokio::task::yield_now().await;
    }
    if dice.chance(200) {
        tokio::time::sleep(Duration::from_millis(dice.below(60))).await;
    }
    let wait = if dice.chance(700) { FAR } else { 1 + dice.below(80) };
    let print = if dice.chance(930) { 0 } else { 1 };
    let call = process.engine.surface("pay").tenant("acme").key("order");
    let call = call.effect(Effect::Unsafe).fingerprinted(crate::bridge::print(print)).wait(Wait::AtMost(Millis(wait)));
    let patience = if dice.chance(150) { Patience::Polls(1 + dice.below(10)) } else { Patience::Endless };
    let works = Works { yields: dice.below(6), sleeps: dice.below(2) * dice.below(120), ends: dice.below(7), number };
    if dice.chance(500) {
        let (inside, ran) = (Rc::clone(&scene), Rc::new(Cell::new(false)));
        let runs = Rc::clone(&ran);
        let once = call.once_inline(move |_ticket: Ticket| async move {
            runs.set(true);
            works.run(&inside).await
        });
        let (ended, Marks { joined, .. }) = attend(&process, patience, once).await;
        scene.waited(joined, &ended, told::once);
        if joined && ran.get() {
            scene.break_promise("7: one who waited executed");
        }
        match ended {
            Ended::Answered(Ok(done)) => {
                if !done.replayed {
                    scene.succeeded.set(scene.succeeded.get() + 1);
                }
                scene.given(&done.value);
            }
            Ended::Answered(Err(OnceError::Engine(error))) => {
                scene.break_promise(format!("a calm store failed: {error}"));
            }
            Ended::Answered(Err(_)) | Ended::Cancelled | Ended::Crashed => {}
        }
        return;
    }
    let (ended, Marks { joined, .. }) = attend(&process, patience, call.begin()).await;
    scene.waited(joined, &ended, |answer| match answer {
        Ok(begun) => told::begun(begun),
        Err(error) => Told::Error(error.to_string()),
    });
    match ended {
        Ended::Answered(Ok(Begun::Execute(ticket))) => {
            if joined {
                scene.break_promise("7: one who waited executed");
            }
            by_hand(&scene, &process, &ticket, works).await;
        }
        Ended::Answered(Ok(Begun::Replay(replayed))) => {
            if let Told::Replay { text: Some(text), .. } = told::begun(&Begun::Replay(replayed)) {
                scene.given(text.trim_matches('"'));
            }
        }
        Ended::Answered(Err(error)) => scene.break_promise(format!("a calm store failed: {error}")),
        Ended::Answered(Ok(Begun::JoinedFailure(_) | Begun::Told(_))) | Ended::Cancelled | Ended::Crashed => {}
    }
}

#[derive(Clone, Copy)]
struct Works {
    yields: u64,
    sleeps: u64,
    ends: u64,
    number: u64,
}

impl Works {
    async fn run(self, scene: &Rc<Scene>) -> Result<String, Classified<String>> {
        let _inside = scene.enter();
        for _ in 0..self.yields {
            tokio::task::yield_now().await;
        }
        if self.sleeps > 0 {
            tokio::time::sleep(Duration::from_millis(self.sleeps)).await;
        }
        let value = format!("by caller {}", self.number);
        match self.ends {
            0 => Err(Classified::retryable(value)),
            1 => Err(Classified::no_effect(value)),
            2 => Err(Classified::unknown(value)),
            3.. => Ok(value),
        }
    }
}

async fn by_hand(scene: &Rc<Scene>, process: &Process, ticket: &Ticket, works: Works) {
    let engine = &process.engine;
    let stepped = match works.run(scene).await {
        // Its owner vanishes: whoever waits is woken by the lease's end.
        Ok(_) if works.ends == 6 => return,
        Ok(value) => {
            let stepped = ticket.complete(engine, Outcome::success(value.clone())).await;
            scene.succeeded.set(scene.succeeded.get() + 1);
            scene.given(&value);
            stepped
        }
        Err(failed) if works.ends == 0 => {
            let body = hapax_core::Body::Inline(failed.error.into());
            ticket.fail(engine, Outcome::new(OutcomeClass::RetryableFailure, body)).await
        }
        Err(_) => ticket.release(engine, Release::NoEffect).await,
    };
    match stepped {
        Ok(stepped) if stepped.is_done() => {}
        other => scene.break_promise(format!("6: an owner inside its lease was told {other:?}")),
    }
}
