use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use hapax_core::{
    Id, Millis, Policy, Preset, Stamp, StateName, Step, WallMillis,
    claim::Claimant,
    identity::{Key, Printer, Secret, Surface, Tenant},
    record::About,
};
use hapax_store::{Durability, Store, StoreError};
use parking_lot::RwLock;
use std::collections::HashMap;
use tokio::{runtime::Handle, sync::Semaphore, time::Instant};

use crate::{
    ambient::{Entropy, SystemEntropy, SystemWallClock, WallClock},
    call::OnSurface,
    error::{BuildError, EngineError},
    events::Events,
    gate::Gate,
    house::claimant,
    hunt::Hunts,
    join::Joins,
    leased::Offering,
    presets,
    probe::{PROBES_AT_ONCE, Probe, Probes},
    quota::Quotas,
    scopes::Scopes,
    settings::Settings,
    shadow::ShadowLog,
    stats::{Counters, Stats},
    told::Tally,
};

/// The idempotency engine over one store. Cloning it gives another handle to the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) store_name: String,
    /// The store lives in this process, so it can be asked for its time whenever that is needed.
    pub(crate) store_is_here: bool,
    /// No other process writes to the store, and what it promises does not change while it is open.
    alone: bool,
    /// How many store calls had failed when the store was last asked what it promises.
    failures_known: AtomicU64,
    pub(crate) tally: Tally,
    /// What other processes on the store know this one by.
    pub(crate) claimant: Claimant,
    wall: Arc<dyn WallClock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) settings: Settings,
    pub(crate) secret: Secret,
    pub(crate) printer: Printer,
    pub(crate) owner: Arc<str>,
    policies: RwLock<Arc<Policies>>,
    /// How often others were put in force.
    reloads: AtomicU64,
    pub(crate) scopes: Scopes,
    pub(crate) gate: Gate,
    pub(crate) joins: Joins,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) hunts: Hunts,
    pub(crate) events: Events,
    pub(crate) counters: Counters,
    pub(crate) probes: Probes,
    /// Places for probes that run right now.
    pub(crate) probing: Arc<Semaphore>,
    pub(crate) offering: Offering,
    pub(crate) shadow: ShadowLog,
    /// How many begins are being taken back right now.
    pub(crate) disowning: Arc<AtomicUsize>,
    /// Where the engine was first used.
    pub(crate) runtime: OnceLock<Handle>,
    /// To be swept in the background, and nobody does so far.
    pub(crate) sweeping: AtomicBool,
    /// What the store last said about its time, for gates in front of stores that live elsewhere.
    heard: RwLock<(Stamp, Instant)>,
}

/// One policy per surface, and one for all others.
#[derive(Clone, Debug)]
pub struct Policies {
    by_surface: HashMap<Surface, Arc<Policy>>,
    standard: Arc<Policy>,
    /// Somebody said what holds for all others.
    standard_is_said: bool,
}

impl Default for Policies {
    fn default() -> Self {
        Self { by_surface: HashMap::new(), standard: Arc::new(Preset::Standard.policy()), standard_is_said: false }
    }
}

impl Policies {
    /// Puts a surface under a policy, if the policy can be used.
    pub fn set(&mut self, surface: Surface, policy: Policy) -> Result<(), BuildError> {
        policy.check()?;
        self.by_surface.insert(surface, Arc::new(policy.revised()));
        Ok(())
    }

    /// The policy of all surfaces that have none of their own.
    pub fn set_standard(&mut self, policy: Policy) -> Result<(), BuildError> {
        policy.check()?;
        self.standard = Arc::new(policy.revised());
        self.standard_is_said = true;
        Ok(())
    }

    #[must_use]
    pub fn of(&self, surface: &Surface) -> &Arc<Policy> {
        self.named(surface.as_str())
    }

    /// What was said for the surface; else what was said for all others; else, where nobody said anything, the preset of
    /// its name if it is one of ours. A preset never overrides what somebody said.
    fn named(&self, surface: &str) -> &Arc<Policy> {
        // What is said for all others does not speak of the queue: its leases never lapse by themselves, and a default that
        // lets them would only take the queue out of use.
        let own = self.by_surface.get(surface).or_else(|| presets::of_the_queue(surface));
        let said = own.or_else(|| self.standard_is_said.then_some(&self.standard));
        said.or_else(|| presets::of(surface)).unwrap_or(&self.standard)
    }

    /// The policy of all surfaces that have none of their own.
    #[must_use]
    pub const fn standard(&self) -> &Arc<Policy> {
        &self.standard
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Surface, &Arc<Policy>)> {
        self.by_surface.iter()
    }
}

/// Puts an engine together.
#[derive(Debug)]
pub struct EngineBuilder {
    store: Arc<dyn Store>,
    wall: Arc<dyn WallClock>,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    secret: Option<Secret>,
    policies: Policies,
    probes: Probes,
    problem: Option<BuildError>,
    sweeping: bool,
}

impl EngineBuilder {
    /// Lets the engine sweep by itself from its first call on, on the runtime of that call. Without it nobody writes down
    /// lapses and expiries until somebody calls [`Engine::sweep`] or [`Engine::sweep_in_background`].
    #[must_use]
    pub const fn sweeping(mut self, sweeping: bool) -> Self {
        self.sweeping = sweeping;
        self
    }

    /// Puts a surface under a policy. A policy that cannot be used is reported by [`EngineBuilder::build`].
    #[must_use]
    pub fn policy(mut self, surface: &str, policy: Policy) -> Self {
        let set = Surface::new(surface).map_err(BuildError::from).and_then(|name| self.policies.set(name, policy));
        self.problem = self.problem.or(set.err());
        self
    }

    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Asks the world what became of operations on this surface whose end is unknown.
    #[must_use]
    pub fn probe(mut self, surface: &str, probe: impl Probe) -> Self {
        match Surface::new(surface) {
            Ok(name) => self.probes.set(name, Arc::new(probe)),
            Err(error) => self.problem = self.problem.or(Some(error.into())),
        }
        self
    }

    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    #[must_use]
    pub fn wall_clock(mut self, wall: Arc<dyn WallClock>) -> Self {
        self.wall = wall;
        self
    }

    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// The secret under which keys are hashed for logs and requests for their fingerprints.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    pub fn build(self) -> Result<Engine, BuildError> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let promise = self.store.durability();
        if self.settings.demand_durable && promise != Durability::Durable {
            return Err(BuildError::NotDurable { store: self.store.name(), promise: promise.to_string() });
        }
        let alone = self.store.single_writer();
        // Prints outlive the process, so only a secret that does may key them.
        let printer = self.secret.clone().map_or_else(Printer::plain, Printer::keyed);
        let secret = match self.secret {
            Some(secret) => secret,
            None => process_secret(&*self.entropy)?,
        };
        Ok(Engine {
            inner: Arc::new(Inner {
                store_name: self.store.name(),
                store_is_here: self.store.now().is_some(),
                scopes: Scopes::default(),
                alone,
                failures_known: AtomicU64::new(0),
                tally: Tally::default(),
                claimant: if alone { Claimant([0; 16]) } else { claimant(&*self.entropy)? },
                gate: Gate::new(self.settings.gate),
                joins: Joins::new(&self.settings),
                quotas: Arc::default(),
                hunts: Hunts::default(),
                events: Events::with_room(self.settings.events),
                counters: Counters::default(),
                probes: self.probes,
                probing: Arc::new(Semaphore::new(PROBES_AT_ONCE)),
                offering: Offering::new(),
                shadow: ShadowLog::default(),
                disowning: Arc::default(),
                runtime: OnceLock::new(),
                sweeping: self.sweeping.into(),
                heard: RwLock::new((Stamp(0), Instant::now())),
                owner: self.settings.owner.as_str().into(),
                store: self.store,
                wall: self.wall,
                entropy: self.entropy,
                settings: self.settings,
                secret,
                printer,
                policies: RwLock::new(Arc::new(self.policies)),
                reloads: AtomicU64::new(0),
            }),
        })
    }
}

/// Without a secret of the user's, key hashes in logs hold for this process only.
fn process_secret(entropy: &dyn Entropy) -> Result<Secret, BuildError> {
    let mut bytes = [0; 32];
    entropy.fill(&mut bytes)?;
    Ok(Secret::new(&bytes)?)
}

impl Engine {
    #[must_use]
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder {
            store,
            wall: Arc::new(SystemWallClock),
            entropy: Arc::new(SystemEntropy::default()),
            settings: Settings::default(),
            secret: None,
            policies: Policies::default(),
            probes: Probes::default(),
            problem: None,
            sweeping: false,
        }
    }

    /// Where a call starts. The tenant comes next: without one it does not compile.
    pub fn surface(&self, name: &str) -> OnSurface {
        OnSurface::new(self.clone(), name)
    }

    /// As [`Engine::surface`], for a name that was checked before.
    pub fn on(&self, surface: &Surface) -> OnSurface {
        OnSurface::known(self.clone(), surface.clone())
    }

    #[must_use]
    pub fn events(&self) -> &Events {
        &self.inner.events
    }

    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.counters.read()
    }

    /// What begins were told so far, and how long that took.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.inner.tally
    }

    /// Asks the store what it promises right now: a server that others look after is set up anew while it runs. What is said
    /// holds from then on, for work that does harm twice too. The sweeper asks at each pass.
    pub async fn ask_promise(&self) -> Result<Durability, StoreError> {
        self.inner.ask_promise().await
    }

    /// Whether this engine was told not to start on less than a store that keeps what it acknowledged.
    #[must_use]
    pub fn demands_durable(&self) -> bool {
        self.inner.settings.demand_durable
    }

    /// How many callers wait for another's attempt right now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.inner.joins.waiting()
    }

    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.inner.gate
    }

    /// A key for one purpose, in hexadecimal, from the engine's secret: the same after a restart where that is kept.
    #[must_use]
    pub fn derived_key(&self, purpose: &str) -> String {
        self.inner.secret.digest_of(purpose, &[])
    }

    /// Takes fingerprints as this engine does: keyed where it has a secret.
    #[must_use]
    pub fn printer(&self) -> &Printer {
        &self.inner.printer
    }

    /// The policy in force on a surface.
    #[must_use]
    pub fn policy(&self, surface: &Surface) -> Arc<Policy> {
        self.inner.policy(surface)
    }

    /// How often policies were put in force since the start: as long as it is the same, so are they.
    #[must_use]
    pub fn reloads(&self) -> u64 {
        self.inner.reloads.load(Acquire)
    }

    /// When a moment of the store's clock comes, as people tell the time.
    #[must_use]
    pub fn wall_of(&self, moment: Stamp) -> WallMillis {
        WallMillis(self.inner.wall_now().0.saturating_add(self.until(moment).0))
    }

    /// How long it is until a moment of the store's clock; nothing where that has passed.
    #[must_use]
    pub fn until(&self, moment: Stamp) -> Millis {
        moment.since(self.inner.store_now())
    }

    /// Who asked first, for whoever decides whether an answer may be shown. `None`: there is no record.
    pub async fn asked_first(&self, id: &Id) -> Result<Option<Option<Arc<str>>>, EngineError> {
        let seen = self.inner.read(id).await?;
        Ok(seen.record.as_deref().map(|record| record.about.principal.clone()))
    }

    /// What shadow mode would have stopped, newest last.
    #[must_use]
    pub fn shadow(&self) -> &ShadowLog {
        &self.inner.shadow
    }

    /// Notes what a layer above would have stopped, had its surface not been in shadow mode.
    pub fn would_stop(&self, id: Id, because: &'static str) {
        crate::stats::count(&self.inner.counters.shadow_stops);
        self.inner.shadow.note(crate::shadow::WouldStop { id, wall: self.inner.wall_now(), because });
    }

    #[must_use]
    pub fn policies(&self) -> Arc<Policies> {
        self.inner.policies()
    }

    /// The surfaces that calls were made on since the start, with a policy of their own or without; a bounded number.
    #[must_use]
    pub fn surfaces_used(&self) -> Vec<Surface> {
        self.inner.scopes.surfaces()
    }

    /// Puts new policies in force. Records that exist keep what they were begun under; the gate is emptied.
    pub fn reload(&self, policies: Policies) {
        let mut in_force = self.inner.policies.write();
        *in_force = Arc::new(policies);
        self.inner.reloads.fetch_add(1, Release);
        drop(in_force);
        self.inner.gate.clear();
        self.inner.quotas.ask_anew();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("store", &self.inner.store_name).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.policies.read())
    }

    pub(crate) fn policy(&self, surface: &Surface) -> Arc<Policy> {
        Arc::clone(self.policies.read().of(surface))
    }

    /// The policy of a stored record's surface, its shadow included.
    pub(crate) fn policy_of(&self, about: &About) -> Arc<Policy> {
        let policies = self.policies.read();
        let plain = about.surface.strip_suffix(Surface::SHADOW).unwrap_or(&about.surface);
        Arc::clone(policies.named(plain))
    }

    /// What records say of a thing that this tenant knows by a key.
    pub(crate) fn about(&self, surface: &Surface, tenant: &Tenant, key: &Key) -> Arc<About> {
        let about = About::clone(&self.scopes.about(surface, tenant));
        Arc::new(About { key_hash: self.secret.short_digest(key), ..about })
    }

    pub(crate) fn wall_now(&self) -> WallMillis {
        self.wall.now()
    }

    /// The store's time as well as it can be told without a round trip.
    pub(crate) fn store_now(&self) -> Stamp {
        if let Some(now) = self.store.now() {
            return now;
        }
        let (heard, at) = *self.heard.read();
        heard.plus(hapax_core::Millis::from_std(at.elapsed()))
    }

    pub(crate) fn heard(&self, now: Stamp) {
        *self.heard.write() = (now, Instant::now());
    }

    pub(crate) async fn ask_promise(&self) -> Result<Durability, StoreError> {
        if self.alone {
            return Ok(self.store.durability());
        }
        self.in_time("durability", self.store.ask_durability()).await
    }

    /// Whether the store is shared and may forget what it acknowledged. One that goes with its process is chosen for that.
    pub(crate) async fn is_forgetful(&self) -> bool {
        if self.alone {
            return false;
        }
        // After a failure it may be another server, or the same one after a restart with another file.
        let failures = self.counters.store_retries.load(Relaxed);
        if self.failures_known.swap(failures, Relaxed) != failures {
            // If it does not answer, neither does it to the begin that follows.
            let _as_before = Box::pin(self.ask_promise()).await;
        }
        matches!(self.store.durability(), Durability::BestEffort(_))
    }

    /// Tells of a step once it is settled: events and counters.
    pub(crate) fn tell(&self, id: &Id, about: &Arc<About>, step: &Step, wall: WallMillis, actor: Option<Arc<str>>) {
        if let Some(event) = &step.event {
            self.counters.event(event);
            if matches!(event.to, StateName::Committed | StateName::Rejected) {
                self.hunts.ended(about.tenant_tag);
            }
            self.events.log(wall, *id, Arc::clone(about), event.clone(), actor);
        }
    }
}
