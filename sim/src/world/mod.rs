//! A whole world from one number: processes, callers, a provider, an operator, and everything that can go wrong.
//!
//! Time is simulated and all chance follows from the seed, so that one seed is one history, byte for byte. Underneath
//! the engines lies one store that writes down every accepted write; what the callers were told and what the provider
//! did is held against it afterwards.

mod attend;
mod check;
mod client;
mod clock;
mod history;
pub(crate) mod line;
mod process;
mod provider;
mod scenario;
pub mod schedule;
mod told;
mod trouble;
mod truth;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hapax_core::{
    Outcome, Tag,
    identity::{Surface, Tenant},
};
use hapax_engine::{Certainty, Doubt, Engine, Found, Settings};
use hapax_store::{FaultyStore, Plan, Seeded, Store};

use crate::pump::Pump;
use clock::WorldClock;
use history::{History, What};
use line::{Line, Mood};
use process::{Death, KnownEntropy, Process};
use provider::Provider;
use scenario::{SURFACES, Scenario, TENANTS};
use truth::Truth;

pub use history::Entry;

/// What came of one seed.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<String>,
    pub history: Vec<Entry>,
    /// What happened how often.
    pub covered: BTreeMap<String, u64>,
}

impl Report {
    /// The last lines of the history, which is mostly where it went wrong.
    #[must_use]
    pub fn tail(&self, lines: usize) -> String {
        let from = self.history.len().saturating_sub(lines);
        self.history[from..].iter().map(|entry| format!("{entry}\n")).collect()
    }

    #[must_use]
    pub fn trace(&self) -> String {
        self.history.iter().map(|entry| format!("{entry}\n")).collect()
    }
}

/// Lives through one world.
///
/// # Errors
/// Where no runtime can be built on this machine.
pub fn run(seed: u64) -> std::io::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let world = runtime.block_on(async { World::new(seed) });
    let (history, jumps) = (Arc::clone(&world.history), world.scenario.jumps);
    let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(world.live())));
    if lived.is_err() {
        history.violation("something panicked that nobody was to see");
    }
    drop(runtime);
    check::check(&history, jumps);
    Ok(Report { seed, violations: history.violations(), covered: history.covered(), history: history.entries() })
}

#[derive(Debug)]
pub(crate) struct World {
    scenario: Scenario,
    clock: Arc<WorldClock>,
    history: Arc<History>,
    truth: Arc<Truth>,
    provider: Arc<Provider>,
    processes: RefCell<Vec<Arc<Process>>>,
    seeds: RefCell<Seeded>,
    born: Cell<u32>,
    /// Owners that are known to be dead.
    buried: Arc<Mutex<Vec<String>>>,
    epoch: Cell<u64>,
    over: Cell<bool>,
}

/// How long after the last call everything that goes on in the background has come to its end.
const QUIET: Duration = Duration::from_secs(1_500);

impl World {
    fn new(seed: u64) -> Rc<Self> {
        let mut dice = Seeded::new(seed);
        let scenario = Scenario::draw(&mut dice);
        let clock = Arc::new(WorldClock::new());
        let history = Arc::new(History::new(Arc::clone(&clock)));
        let truth = Arc::new(Truth::new(Arc::clone(&clock), Arc::clone(&history)));
        let world = Rc::new(Self {
            provider: Arc::new(Provider::new(Arc::clone(&history))),
            processes: RefCell::default(),
            seeds: RefCell::new(dice),
            born: Cell::new(0),
            buried: Arc::default(),
            epoch: Cell::new(2),
            over: Cell::new(false),
            scenario,
            clock,
            history,
            truth,
        });
        world.set_limits();
        for _ in 0..world.scenario.processes {
            let process = world.start();
            world.processes.borrow_mut().push(process);
        }
        world
    }

    fn seed(&self) -> u64 {
        self.seeds.borrow_mut().next()
    }

    /// Quotas are exact where one process writes, and no write of unknown fate lands behind its back.
    fn set_limits(&self) {
        let scenario = &self.scenario;
        if !scenario.local || scenario.odds.late > 0 || scenario.partitions || scenario.crashes {
            return;
        }
        for (name, policy) in SURFACES.iter().zip(&scenario.policies) {
            let Ok(surface) = Surface::new(name) else { continue };
            self.truth.limit(Tag::surface(&surface), policy.capacity.max_records);
            for tenant in TENANTS {
                if let Ok(tenant) = Tenant::new(tenant) {
                    self.truth.limit(Tag::tenant(&surface, &tenant), policy.capacity.per_tenant);
                }
            }
        }
    }

    fn start(&self) -> Arc<Process> {
        let scenario = &self.scenario;
        self.born.set(self.born.get() + 1);
        let name = format!("p{}", self.born.get());
        let plan = Plan::seeded(self.seed(), scenario.odds).landing(scenario.landing).slow(scenario.slow);
        let truth: Arc<dyn Store> = Arc::clone(&self.truth) as Arc<dyn Store>;
        let faulty = Arc::new(FaultyStore::new(truth, plan));
        let line = Arc::new(Line::new(faulty, self.seed(), scenario.local, scenario.delays));
        let entropy = Arc::new(KnownEntropy::new(self.seed()));
        let settings = Settings { owner: name.clone(), ..scenario.settings.clone() };
        let store: Arc<dyn Store> = Arc::clone(&line) as Arc<dyn Store>;
        let mut builder = Engine::builder(store)
            .entropy(Arc::clone(&entropy) as Arc<dyn hapax_engine::Entropy>)
            .wall_clock(Arc::clone(&self.clock) as Arc<dyn hapax_engine::WallClock>)
            .settings(settings.clone());
        let death = Arc::new(Death::default());
        for (surface, policy) in SURFACES.iter().zip(&scenario.policies) {
            builder = builder.policy(surface, policy.clone());
            if scenario.probes {
                builder = builder.probe(surface, self.probe(&death));
            }
        }
        let engine = match builder.build() {
            Ok(engine) => engine,
            Err(error) => {
                self.history.violation(format!("an engine could not be built: {error}"));
                Engine::builder(Arc::clone(&self.truth) as Arc<dyn Store>).build().unwrap_or_else(|_| unreachable!())
            }
        };
        let sweeper = Mutex::new(Some(engine.sweep_in_background()));
        Arc::new(Process { name, engine, line, entropy, death, settings, sweeper })
    }

    /// Asks the provider, and now and then makes the effect impossible.
    fn probe(&self, death: &Arc<Death>) -> impl hapax_engine::Probe + use<> {
        let (provider, truth, buried) = (Arc::clone(&self.provider), Arc::clone(&self.truth), Arc::clone(&self.buried));
        let (death, history) = (Arc::clone(death), Arc::clone(&self.history));
        let dice = Arc::new(Mutex::new(Seeded::new(self.seed())));
        move |doubt: Doubt| {
            let (provider, truth, buried) = (Arc::clone(&provider), Arc::clone(&truth), Arc::clone(&buried));
            let (death, history, dice) = (Arc::clone(&death), Arc::clone(&history), Arc::clone(&dice));
            async move {
                let (wait, choice) = {
                    let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
                    (dice.below(4_000), dice.below(5))
                };
                death.until(tokio::time::sleep(Duration::from_millis(wait))).await;
                let (id, token) = (doubt.id, doubt.token);
                if let Some(text) = provider.find(&id, token) {
                    history.cover("probe found it applied");
                    return Found::Applied(Outcome::success(text));
                }
                let owner = truth.all().into_iter().find_map(|(other, record)| {
                    record.filter(|_| other == id).map(|record| record.attempt.owner.to_string())
                });
                let dead =
                    owner.is_some_and(|owner| buried.lock().unwrap_or_else(PoisonError::into_inner).contains(&owner));
                match choice {
                    0 => Found::Unknown,
                    1 => Found::NotAppliedYet,
                    2 if dead && !provider.is_under_way(&id, token) => {
                        history.cover("probe found the owner gone");
                        Found::NotApplied(Certainty::OwnerGone)
                    }
                    2.. => {
                        history.cover("probe prevented it");
                        provider.void(&id, token);
                        Found::NotApplied(Certainty::Prevented)
                    }
                }
            }
        }
    }

    /// One of the processes that are alive.
    fn process(&self, drawn: u64) -> Arc<Process> {
        let processes = self.processes.borrow();
        let index = usize::try_from(drawn % processes.len() as u64).unwrap_or(0);
        Arc::clone(&processes[index])
    }

    /// A process dies in the middle of whatever it does, and another takes its place.
    fn crash(&self, drawn: u64) {
        let dying = self.process(drawn);
        self.history.cover("crash");
        self.history.log(What::Crash { process: dying.name.clone() });
        self.bury(&dying);
        let next = self.start();
        for place in self.processes.borrow_mut().iter_mut() {
            if Arc::ptr_eq(place, &dying) {
                *place = Arc::clone(&next);
            }
        }
    }

    fn bury(&self, dying: &Process) {
        dying.line.set(Mood::Dead);
        *dying.sweeper.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // What it had begun and not been answered may be there, and nobody is left to take it back.
        self.history.loose(dying.entropy.nonces());
        self.buried.lock().unwrap_or_else(PoisonError::into_inner).push(dying.name.clone());
        dying.report(&self.history);
        dying.death.come();
        if !self.scenario.local {
            // What it had sent is still on the wire.
            let (line, wait) = (Arc::clone(&dying.line), self.seed() % 30_000);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                let _nobody_hears = line.faulty().release_late().await;
            });
        }
    }

    async fn live(self: Rc<Self>) {
        let mut clients = Pump::new(self.seed());
        for _ in 0..self.scenario.clients {
            clients.add(client::live(Rc::clone(&self), self.seed()));
        }
        let mut around = Pump::new(self.seed());
        around.add(trouble::brew(Rc::clone(&self), self.seed()));
        around.add(watch_bounds(Rc::clone(&self)));
        if self.scenario.operator {
            around.add(trouble::operate(Rc::clone(&self), self.seed()));
        }
        let mut all = Pump::new(self.seed());
        let over = Rc::clone(&self);
        all.add(async move {
            clients.await;
            over.over.set(true);
        });
        all.add(around);
        all.await;
        self.come_to_rest().await;
        check::at_rest(&self).await;
        for process in self.processes.borrow().iter() {
            process.report(&self.history);
        }
    }

    /// No more trouble: what was on its way arrives, what goes on in the background comes to its end.
    async fn come_to_rest(&self) {
        self.history.note("no more trouble");
        let processes = self.processes.borrow().clone();
        for process in &processes {
            process.line.faulty().calm();
            process.line.set(Mood::Up);
            *process.sweeper.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        for process in &processes {
            if let Err(error) = process.line.faulty().release_late().await {
                self.history.violation(format!("a late write could not be applied: {error}"));
            }
        }
        tokio::time::sleep(QUIET).await;
    }
}

async fn watch_bounds(world: Rc<World>) {
    while !world.over.get() {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let processes = world.processes.borrow().clone();
        for process in processes {
            process.check_bounds(&world.history);
        }
    }
}
