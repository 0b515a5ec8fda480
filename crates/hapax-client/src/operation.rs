use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    client::Client,
    error::Error,
    wanted::Wanted,
    wire::{Outcome, Replay, Ticket, Verdict},
};

/// What is known about doing it twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effect {
    Pure,
    Idempotent,
    Compensatable,
    Irreversible,
    /// Nothing is known, so nothing is assumed.
    #[default]
    Unsafe,
}

impl Effect {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Compensatable => "compensatable",
            Self::Irreversible => "irreversible",
            Self::Unsafe => "unsafe",
        }
    }
}

/// What a begin came to.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// Run it, then say how it ended.
    Execute(Ticket),
    /// It was decided before.
    Replay(Replay),
    /// The attempt that was waited for failed, and may be tried again with the same key.
    JoinedFailure(Outcome),
}

/// Something to be done once.
#[derive(Clone, Debug)]
#[must_use]
pub struct Operation {
    pub(crate) client: Client,
    /// Where the right to run it is asked for.
    path: &'static str,
    wanted: Wanted,
    scope: Vec<Value>,
}

impl Operation {
    pub(crate) fn new(client: Client, surface: &str, key: &str) -> Self {
        Self::at(client, "/v1/operations:begin", Wanted::default().with("surface", &surface).with("key", &key))
    }

    /// Something that is begun elsewhere than other operations: a tool, a beat, a job.
    pub(crate) const fn at(client: Client, path: &'static str, wanted: Wanted) -> Self {
        Self { client, path, wanted, scope: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &(impl Serialize + ?Sized)) -> Self {
        self.wanted = self.wanted.with(name, value);
        self
    }

    /// Narrows the scope: the same key under another value is another operation.
    pub fn within(mut self, label: &str, value: &str) -> Self {
        self.scope.push(json!({ "label": label, "value": value }));
        self.wanted = self.wanted.with("scope", &self.scope);
        self
    }

    /// Guards the key by what is asked under it, digit by digit: a number longer than the types of this language hold comes
    /// as a `&RawValue`.
    pub fn request(self, request: &(impl Serialize + ?Sized)) -> Self {
        self.with("request", request)
    }

    pub fn effect(self, effect: Effect) -> Self {
        self.with("effect", effect.name())
    }

    pub fn lease(mut self, lease: std::time::Duration) -> Self {
        self.wanted = self.wanted.with_time("lease_ms", lease);
        self
    }

    /// How long to wait for another's attempt.
    pub fn wait(mut self, most: std::time::Duration) -> Self {
        self.wanted = self.wanted.with_time("wait_ms", most);
        self
    }

    /// Begin without the effect being under way: *start* comes before it.
    pub fn not_started(self) -> Self {
        self.with("started", &false)
    }

    /// Asks for the right to run it. A lost answer is asked for again with the same nonce, and gives the same ticket.
    pub async fn begin(self) -> Result<Begun, Error> {
        Ok(match self.client.post(self.path, &self.wanted.asked()?).await? {
            Verdict::Execute(ticket) => Begun::Execute(ticket),
            Verdict::Replay(replay) => Begun::Replay(replay),
            Verdict::JoinedFailure(joined) => Begun::JoinedFailure(joined.outcome),
        })
    }
}
