use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::SeqCst},
};

use hapax_core::{Id, Policy, Stamp};
use hapax_engine::{Engine, EngineBuilder};
use hapax_store::{BoxFuture, Clock, MemoryStore, Snapshot, Store};
use tokio::time::Instant;

use super::{Observed, Shifted, settings};

/// The memory store's time: the runtime's own, paused or not, and an offset that a test moves.
#[derive(Debug)]
pub struct TestClock {
    started: Instant,
    offset: AtomicI64,
}

/// Well away from zero, so that it can also go back.
const START: i64 = 1_000_000_000_000;

impl TestClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), offset: AtomicI64::new(START) })
    }

    pub fn jump(&self, millis: i64) {
        self.offset.fetch_add(millis, SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Stamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap();
        Stamp(u64::try_from(self.offset.load(SeqCst) + elapsed).unwrap_or(0))
    }
}

type Open = Box<dyn Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync>;

/// Where stories are acted out: what gives a fresh store for each.
pub struct Stage {
    /// `None`: in memory, where time can be moved.
    open: Option<Open>,
}

impl Stage {
    pub fn memory() -> Self {
        Self { open: None }
    }

    pub fn on(open: impl Fn() -> BoxFuture<'static, Arc<dyn Store>> + Send + Sync + 'static) -> Self {
        Self { open: Some(Box::new(open)) }
    }

    pub async fn world(&self) -> World {
        match &self.open {
            Some(open) => World::over(open().await),
            None => {
                let clock = TestClock::new();
                let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
                World { store: Observed::over(Arc::new(memory)), time: Time::Clock(clock) }
            }
        }
    }

    /// A new engine on a store of its own.
    pub async fn engine(&self) -> Engine {
        self.world().await.engine()
    }
}

enum Time {
    Clock(Arc<TestClock>),
    Shifted(Arc<Shifted>),
}

/// One store, and everything that happens to it.
pub struct World {
    pub store: Arc<Observed>,
    time: Time,
}

impl World {
    /// A store of which others know as well, or knew.
    pub fn over(store: Arc<dyn Store>) -> Self {
        let shifted = Shifted::over(store);
        let store = Observed::over(Arc::clone(&shifted) as Arc<dyn Store>);
        Self { store, time: Time::Shifted(shifted) }
    }

    pub async fn jump(&self, by_ms: u64) {
        match &self.time {
            Time::Clock(clock) => clock.jump(i64::try_from(by_ms).unwrap()),
            Time::Shifted(shifted) => shifted.jump(by_ms).await,
        }
    }

    /// Until all that is left waits for something that a test holds back.
    pub async fn settle(&self) {
        self.store.settle().await;
    }

    pub fn builder(&self) -> EngineBuilder {
        Engine::builder(Arc::clone(&self.store) as Arc<dyn Store>).settings(settings())
    }

    pub fn engine(&self) -> Engine {
        self.builder().build().unwrap()
    }

    pub fn engine_with(&self, policy: Policy) -> Engine {
        self.builder().policy("pay", policy).build().unwrap()
    }

    /// What is stored under this id, as it stands.
    pub async fn stored(&self, id: &Id) -> Snapshot {
        self.store.get(id).await.unwrap()
    }
}
