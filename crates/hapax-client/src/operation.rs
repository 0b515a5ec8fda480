use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    agents::fresh_nonce,
    client::Client,
    error::Error,
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
    path: String,
    wanted: Value,
    problem: Option<String>,
}

impl Operation {
    pub(crate) fn new(client: Client, surface: String, key: String) -> Self {
        let wanted = json!({ "surface": surface, "key": key, "scope": [] });
        Self::at(client, "/v1/operations:begin".to_owned(), wanted)
    }

    /// Something that is begun elsewhere than other operations: a tool, a beat.
    pub(crate) const fn at(client: Client, path: String, wanted: Value) -> Self {
        Self { client, path, wanted, problem: None }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.wanted[name] = value;
        self
    }

    pub(crate) fn wrong(mut self, problem: String) -> Self {
        self.problem = Some(problem);
        self
    }

    /// Narrows the scope: the same key under another value is another operation.
    pub fn within(mut self, label: &str, value: &str) -> Self {
        if let Some(parts) = self.wanted["scope"].as_array_mut() {
            parts.push(json!({ "label": label, "value": value }));
        }
        self
    }

    /// Guards the key by what is asked under it.
    pub fn request(mut self, request: &impl Serialize) -> Self {
        match serde_json::to_value(request) {
            Ok(value) => self.wanted["request"] = value,
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    pub fn effect(mut self, effect: Effect) -> Self {
        self.wanted["effect"] = effect.name().into();
        self
    }

    pub fn lease(mut self, lease: std::time::Duration) -> Self {
        self.wanted["lease_ms"] = json!(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// How long to wait for another's attempt.
    pub fn wait(mut self, most: std::time::Duration) -> Self {
        self.wanted["wait_ms"] = json!(u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Begin without the effect being under way: *start* comes before it.
    pub fn not_started(mut self) -> Self {
        self.wanted["started"] = false.into();
        self
    }

    /// Asks for the right to run it. A lost answer is asked for again with the same nonce, and gives the same ticket.
    pub async fn begin(mut self) -> Result<Begun, Error> {
        if let Some(problem) = self.problem {
            return Err(Error::Unexpected(problem));
        }
        self.wanted["nonce"] = fresh_nonce()?.into();
        Ok(match self.client.post(&self.path, &self.wanted).await? {
            Verdict::Execute(ticket) => Begun::Execute(ticket),
            Verdict::Replay(replay) => Begun::Replay(replay),
            Verdict::JoinedFailure(joined) => Begun::JoinedFailure(joined.outcome),
        })
    }
}
