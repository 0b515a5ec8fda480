//! What happens between a program and its store, acted out on a real server. Each function is one accident; the store
//! under test is opened through a port, so that a [`Proxy`] can stand in between.

mod crew;
mod failover;
mod late;
mod listening;
mod network;
mod outage;
mod soak;
mod trips;
mod words;

use std::{sync::Arc, time::Duration};

use hapax_core::Preset;
use hapax_engine::{Call, Engine, Policies, Settings};
use hapax_store::{BoxFuture, Store};

use crate::{Nats, Postgres, Redis, server};

pub use crew::{count_together, share_keys, skewed, skewed_clocks_change_nothing};
pub use failover::{Toll, fail_over, judge};
pub use late::{a_begin_that_lands_after_it_was_disowned_conflicts, a_begin_that_lands_after_its_release_conflicts};
pub use listening::{a_subscription_that_is_away_is_made_up_for, a_subscription_that_is_back_wakes_at_once};
pub use network::{
    a_cut_connection_comes_back, a_lost_answer_is_unknown_and_can_be_recognised, a_watch_outlives_its_connection,
    wakes_reach_other_processes,
};
pub use outage::{a_pause_past_the_lease_runs_nothing_twice, what_was_acknowledged_survives_kill_9};
pub use soak::soak;
pub use trips::{each_step_is_one_round_trip, each_step_is_one_round_trip_but_a_duplicate};
pub use words::{SECRET, every_error_names_the_server_and_a_next_step};

/// Opens a store on the same data each time, through this port. Where answers are lost or held up, it should wait for them
/// no longer than [`HASTY`]; else for [`ANSWER`], so that a slow disk is no accident.
pub type Open<'a> = &'a (dyn Fn(u16) -> BoxFuture<'static, Arc<dyn Store>> + Sync);

/// The longest that a store under test waits for an answer that will come.
pub const ANSWER: Duration = Duration::from_secs(5);
/// The same for one that will not.
pub const HASTY: Duration = Duration::from_secs(1);

/// For a wake-up that has to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that can be treated badly.
pub trait Server {
    fn port(&self) -> u16;
    fn kill(&mut self);
    /// In order, as an operator stops it.
    fn stop(&mut self);
    fn restart(&mut self);
    fn pause(&self);
    fn resume(&self);
}

macro_rules! server {
    ($($name:ty),+) => {$(
        impl Server for $name {
            fn port(&self) -> u16 {
                Self::port(self)
            }
            fn kill(&mut self) {
                Self::kill(self);
            }
            fn stop(&mut self) {
                Self::stop(self);
            }
            fn restart(&mut self) {
                Self::restart(self);
            }
            fn pause(&self) {
                Self::pause(self);
            }
            fn resume(&self) {
                Self::resume(self);
            }
        }
    )+};
}

server!(Redis, Postgres, Nats);

impl Postgres {
    /// The fast shutdown, which does not wait until all have gone: they are told to.
    pub fn stop(&mut self) {
        let first_line = self.say("SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)");
        server::stop("INT", first_line.trim().parse().unwrap());
    }
}

/// An engine that waits for its store as long as that waits for its server.
pub fn engine(store: Arc<dyn Store>) -> Engine {
    let settings = Settings { store_timeout: ANSWER * 2, store_retries: 2, ..Settings::default() };
    // Most servers of tests forget when they are told to stop; these accidents are about other things.
    let mut policy = Preset::Standard.policy();
    policy.best_effort = [true; 5];
    let mut policies = Policies::default();
    policies.set_standard(policy).unwrap();
    Engine::builder(store).settings(settings).policies(policies).build().unwrap()
}

/// An engine that does not wait long for its store.
pub(crate) fn hasty_engine(store: Arc<dyn Store>) -> Engine {
    let settings = Settings { store_timeout: HASTY, store_retries: 1, ..Settings::default() };
    Engine::builder(store).settings(settings).build().unwrap()
}

pub fn call(engine: &Engine, key: &str) -> Call {
    engine.surface("pay").tenant("acme").key(key)
}

/// Waits for something that becomes true by itself.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let patience = tokio::time::Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(tokio::time::Instant::now() < patience, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
