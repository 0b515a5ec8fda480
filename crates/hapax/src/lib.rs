//! Say it as often as you like, it happens once.
//!
//! ```
//! use hapax::{Effect, Hapax};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hapax = Hapax::memory();
//! let charge = async || {
//!     hapax
//!         .surface("payments")
//!         .tenant("acme")
//!         .key("order-17")
//!         .fingerprint(&("order-17", 4_200))
//!         .effect(Effect::Irreversible)
//!         .once(|ticket| async move {
//!             // Forward `ticket.downstream_key()` to the provider here.
//!             Ok::<_, std::io::Error>(format!("charged, attempt {}", ticket.attempt()))
//!         })
//!         .await
//! };
//! let first = charge().await?;
//! let again = charge().await?;
//! assert_eq!(first.value, again.value);
//! assert!(!first.replayed && again.replayed);
//! # Ok(())
//! # }
//! ```
//!
//! Leaving out the tenant does not compile:
//!
//! ```compile_fail,E0599
//! let hapax = hapax::Hapax::memory();
//! hapax.surface("payments").key("order-17");
//! ```
//!
//! Nor does a scope without one, since there is none by default:
//!
//! ```compile_fail,E0599
//! let scope = hapax::identity::Scope::default();
//! ```

use std::{ops::Deref, sync::Arc};

/// Tasks between agents: leased, never silently handed out twice.
#[cfg(feature = "queue")]
pub use hapax_queue as queue;

pub use hapax_core::{
    Body, Effect, Honoured, Id, Millis, NextAction, Nonce, Outcome, OutcomeClass, Payload, Policy, Preset, Recorded,
    RefusalReason, Replay, Span, Stamp, StateName, Token, Verdict, Version, command, group, identity, memo, plan,
    policy,
};
pub use hapax_engine::{
    Activity, ActivityError, ActivityStream, Answered, BeatError, BeatSession, Carrier, Compensations, DeadLetter,
    DeadLetters, EffectState, Gathered, GroupError, GroupHandle, GroupView, Guard, GuardConfig, GuardError,
    HandlerError, InProgress, JobError, Jobs, KeyGenerator, KeyGeneratorError, MemoAnswer, MemoError, Memos, Message,
    NoAnswer, NoProgress, Outgoing, Performed, Place, Progress, Provider, ProviderError, Providers, Reported,
    RunEffect, SessionBeat, Settle, StreamBegun, Superseded, Tool, ToolDeclaration, ToolError, Turn, Undo, UndoError,
    UnwindError, UnwindOptions, Unwound, Why,
};
pub use hapax_engine::{
    Advice, Begun, BuildError, Call, Certainty, Classified, Classify, Doubt, Engine, EngineBuilder, EngineError,
    Explanation, Failure, Found, InScope, OnceDone, OnceError, Policies, Probe, Probed, Replayed, Settings, Stepped,
    Sweeper, Swept, Ticket, Wait, Within,
};
pub use hapax_store::{Durability, FaultyStore, MemoryStore, Store, StoreError, conformance};

#[cfg(feature = "http")]
pub use hapax_http::{self as http, Layer};
#[cfg(feature = "ledger")]
pub use hapax_ledger::{self as ledger, Ledger};
#[cfg(feature = "nats")]
pub use hapax_nats::{self as nats, NatsStore};
#[cfg(feature = "postgres")]
pub use hapax_postgres::{self as postgres, PostgresStore};
#[cfg(feature = "redis")]
pub use hapax_redis::{self as redis, RedisStore};

mod apart;
mod store_url;

pub use apart::Apart;
pub use store_url::{StoreUrlError, open_store};

/// Why an engine on the embedded ledger could not be opened.
#[cfg(feature = "ledger")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error(transparent)]
    Ledger(#[from] hapax_ledger::OpenError),
    #[error(transparent)]
    Engine(#[from] BuildError),
}

/// The engine, ready to be used. It can be called as the [`Engine`] it holds.
#[derive(Clone, Debug)]
pub struct Hapax {
    engine: Engine,
}

impl Hapax {
    /// An engine that forgets with the process: for tests, and for work that may be forgotten.
    #[must_use]
    pub fn memory() -> Self {
        Self::with(Self::on(Arc::new(MemoryStore::default())))
    }

    /// An engine on the embedded ledger in this directory, which is made if it is not there. What was acknowledged is
    /// durable.
    #[cfg(feature = "ledger")]
    pub fn open(path: impl Into<std::path::PathBuf>) -> Result<Self, OpenError> {
        let ledger = Ledger::open(path)?;
        Ok(Self { engine: Self::on(Arc::new(ledger)).build()? })
    }

    /// Starts an engine over any store; set policies and probes, then [`EngineBuilder::build`]. It sweeps by itself from
    /// its first call on.
    #[must_use]
    pub fn on(store: Arc<dyn Store>) -> EngineBuilder {
        Engine::builder(store).sweeping(true)
    }

    fn with(builder: EngineBuilder) -> Self {
        match builder.build() {
            Ok(engine) => Self { engine },
            // The default policies are checked by a test, so only a machine without randomness leads here.
            #[allow(clippy::panic, reason = "there is nothing to fall back to, and no caller to tell")]
            Err(error) => panic!("the default engine cannot start: {error}"),
        }
    }
}

impl From<Engine> for Hapax {
    fn from(engine: Engine) -> Self {
        Self { engine }
    }
}

impl From<Hapax> for Engine {
    fn from(hapax: Hapax) -> Self {
        hapax.engine
    }
}

impl Deref for Hapax {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
