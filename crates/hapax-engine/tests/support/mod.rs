//! What every test of the engine stands on: time that follows the runtime's clock and can jump, a store in front of
//! which things go wrong, and one that counts and holds up what passes through it.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use hapax_core::{Id, Millis, Policy};
use hapax_engine::{Engine, EngineBuilder};
use hapax_store::{Clock, FaultyStore, MemoryStore, Plan, Snapshot, Store};

pub use hapax_testkit::stories::{
    Failed, Given, Mood, Observed, SECOND, TestClock, UNSAFE, begin, call, done, id, never, pay, policy, refused,
    retryable, seeded, settings, sleep, soon, state, ticket,
};

/// One store with all its layers.
pub struct World {
    pub clock: Arc<TestClock>,
    pub memory: Arc<MemoryStore>,
    pub faulty: Arc<FaultyStore>,
    pub store: Arc<Observed>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Plan::quiet())
    }

    pub fn with(plan: Plan) -> Self {
        Self::remembering(plan, MemoryStore::LATE_WRITE_WINDOW)
    }

    /// A store that remembers removals for so long.
    pub fn remembering(plan: Plan, window: Millis) -> Self {
        let clock = TestClock::new();
        let memory = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>).with_late_write_window(window);
        let memory = Arc::new(memory);
        let faulty = Arc::new(FaultyStore::new(Arc::clone(&memory) as Arc<dyn Store>, plan));
        let store = Observed::over(Arc::clone(&faulty) as Arc<dyn Store>);
        Self { clock, memory, faulty, store }
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
        self.memory.get(id).await.unwrap()
    }
}

/// Lets everything that can run do so.
pub async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
