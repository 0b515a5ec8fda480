//! Compensation: effects of a group are undone, the last start first, each once.
//!
//! An inverse is declared with its effect and stored with its start. *Unwind* marks the group, so that nothing starts
//! any more, waits for what is under way, writes the plan down, and only then runs the first inverse. After a crash the
//! plan is resumed, never built again.

mod declare;
mod next;
mod plan;
mod pointed;
mod run;

use std::{collections::HashMap, fmt, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{
    Effect, Id,
    plan::{Plan, Unwinding},
};
use hapax_store::BoxFuture;
use serde::de::DeserializeOwned;

use crate::{
    classify::Classified,
    error::EngineError,
    group::{GroupError, Progress},
    ticket::Ticket,
};

pub(crate) use declare::undoable;
pub use next::NextInverse;
pub(crate) use plan::plan_id;

/// One inverse that is to be run.
#[derive(Clone, Debug)]
pub struct Undo {
    pub name: Arc<str>,
    /// The effect that it undoes.
    pub member: Id,
    pub ordinal: u64,
    input: Bytes,
    ticket: Ticket,
}

impl Undo {
    /// What the effect said its inverse needs.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, UndoError> {
        // The reader's own words would show what is recorded.
        serde_json::from_slice(&self.input).map_err(|error| {
            Classified::lasting(format!(
                "the input of `{}` cannot be read, from column {} on",
                self.name,
                error.column()
            ))
        })
    }

    /// The same over all attempts of this inverse; forward it.
    #[must_use]
    pub fn downstream_key(&self) -> String {
        self.ticket.downstream_key()
    }
}

/// How an inverse failed, and what that means.
pub type UndoError = Classified<String>;

type Inverter = dyn Fn(Undo) -> BoxFuture<'static, Result<(), UndoError>> + Send + Sync;

/// What knows how to undo, by name.
#[derive(Clone, Default)]
pub struct Compensations {
    by_name: HashMap<String, (Effect, Arc<Inverter>)>,
}

impl fmt::Debug for Compensations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.by_name.keys()).finish()
    }
}

impl Compensations {
    /// Registers an inverse. The effect class says what a crash in the middle of it means: an idempotent one is run
    /// again, any other waits for a person.
    #[must_use]
    pub fn on<F, Fut>(mut self, name: &str, effect: Effect, undo: F) -> Self
    where
        F: Fn(Undo) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), UndoError>> + Send + 'static,
    {
        let undo: Arc<Inverter> = Arc::new(move |what| Box::pin(undo(what)));
        self.by_name.insert(name.to_owned(), (effect, undo));
        self
    }
}

/// How patient an unwinding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnwindOptions {
    /// How long members that are under way are waited for.
    pub wait: Duration,
    /// How often an inverse that fails retryably is tried in one call, and how long is waited in between at first.
    pub tries: u32,
    pub back_off: Duration,
}

impl Default for UnwindOptions {
    fn default() -> Self {
        Self { wait: Duration::from_secs(60), tries: 5, back_off: Duration::from_millis(200) }
    }
}

/// How the undoing of a group stands.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Unwound {
    /// Nothing was planned yet: these members are under way or in doubt. Say it again once they are settled.
    NotYet(Vec<(Id, Progress)>),
    /// As far as it has come.
    Plan { state: Unwinding, plan: Plan },
}

impl Unwound {
    #[must_use]
    pub const fn is_over(&self) -> bool {
        match self {
            Self::NotYet(_) => false,
            Self::Plan { state, .. } => match state {
                Unwinding::None | Unwinding::Completed | Unwinding::Partial | Unwinding::Failed => true,
                Unwinding::Pending | Unwinding::Running | Unwinding::Manual => false,
            },
        }
    }
}

/// Why an unwinding could not go on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnwindError {
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("group {group} has no plan; unwind it first [HX0094]")]
    NoPlan { group: Id },
}
