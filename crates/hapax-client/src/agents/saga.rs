use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use super::{fresh_nonce, group::Group};
use crate::{
    error::Error,
    operation::Effect,
    wire::{Outcome, Ticket},
};

/// One inverse of a plan.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct PlanStep {
    pub ordinal: u64,
    pub name: String,
    pub operation: String,
    pub state: String,
    pub note: Option<String>,
}

/// How the undoing of a group stands.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// not_yet, none, pending, running, completed, partial, failed or manual.
    pub state: String,
    pub over: bool,
    pub steps: Vec<PlanStep>,
    pub without: u32,
}

/// An inverse to run.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Inverse {
    #[serde(flatten)]
    pub ticket: Ticket,
    pub ordinal: u64,
    pub name: String,
    /// As its effect wrote it, digit by digit; [`Inverse::input_as`] reads it.
    #[serde(skip)]
    pub input: Box<RawValue>,
    /// The effect that it undoes.
    pub undoes: String,
}

impl Inverse {
    pub fn input_as<T: DeserializeOwned>(&self) -> Result<T, Error> {
        read(self.input.get())
    }
}

/// Apart from the rest: what is sorted by its tag is read as numbers, and those round.
#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    input: Box<RawValue>,
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::Unexpected(error.to_string()))
}

/// What is to be done next.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "next", rename_all = "snake_case")]
#[must_use]
pub enum Next {
    /// Run it, say how it ended, and ask again.
    Run(Inverse),
    /// Another process is at it.
    Later { retry_after_ms: u64 },
    /// It is over, or a person has to look.
    Nothing(Plan),
}

impl Group {
    /// Marks the group, waits for what is under way and writes the plan down.
    pub async fn plan_unwinding(&self, wait: Duration) -> Result<Plan, Error> {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(60_000);
        self.undo("unwind", json!({ "wait_ms": wait })).await
    }

    /// Claims the next inverse. `known` names what this process knows how to do, with its class.
    pub async fn next_inverse(&self, known: &[(&str, Effect)]) -> Result<Next, Error> {
        let inverses: BTreeMap<&str, &str> = known.iter().map(|(name, effect)| (*name, effect.name())).collect();
        let told: Box<RawValue> = self.undo("next", json!({ "inverses": inverses, "nonce": fresh_nonce()? })).await?;
        let mut next: Next = read(told.get())?;
        if let Next::Run(inverse) = &mut next {
            inverse.input = read::<Input>(told.get())?.input;
        }
        Ok(next)
    }

    /// Undoes what the group has done, the last start first. It can be said again, by any process, until it is over.
    ///
    /// An error of the closure's is *unknown*: unless its class allows a second run, a person looks.
    pub async fn unwind<F>(&self, known: &[(&str, Effect)], mut run: impl FnMut(Inverse) -> F) -> Result<Plan, Error>
    where
        F: Future<Output = Result<(), String>>,
    {
        let plan = self.plan_unwinding(Duration::from_secs(60)).await?;
        if plan.state == "not_yet" {
            return Ok(plan);
        }
        loop {
            let inverse = match self.next_inverse(known).await? {
                Next::Run(inverse) => inverse,
                Next::Later { retry_after_ms } => {
                    tokio::time::sleep(Duration::from_millis(retry_after_ms.clamp(10, 5_000))).await;
                    continue;
                }
                Next::Nothing(plan) => return Ok(plan),
            };
            let ticket = inverse.ticket.clone();
            let _said = match run(inverse).await {
                Ok(()) => self.client.complete(&ticket, &Outcome::default()).await?,
                Err(why) => {
                    let unknown = Outcome { class: Some("unknown".to_owned()), ..Outcome::text(why) };
                    self.client.fail(&ticket, &unknown).await?
                }
            };
        }
    }

    /// The plan as it stands.
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.client.get(&format!("/v1/compensations/{}", self.id)).await
    }

    /// A person has undone this effect by other means; needs the capability `resolve`.
    pub async fn seen_to(&self, ordinal: u64, note: &str) -> Result<Plan, Error> {
        self.undo("seen_to", json!({ "ordinal": ordinal, "note": note })).await
    }

    /// A person has found that this inverse may be tried again; needs the capability `resolve`.
    pub async fn retry_inverse(&self, ordinal: u64, note: &str) -> Result<Plan, Error> {
        self.undo("retry", json!({ "ordinal": ordinal, "note": note })).await
    }

    async fn undo<T: DeserializeOwned>(&self, verb: &str, said: Value) -> Result<T, Error> {
        self.client.post(&format!("/v1/compensations/{}:{verb}", self.id), &said).await
    }
}
