use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::group::Turn;
use crate::{
    client::Client,
    error::Error,
    operation::Effect,
    wanted::Wanted,
    wire::{Stepped, Ticket},
};

/// What a provider answered.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default)]
    pub body: String,
}

/// The right to make one call.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Outgoing {
    #[serde(flatten)]
    pub ticket: Ticket,
    /// What the provider is to see: the same over all attempts.
    pub key: String,
    /// The header to set to the key on the call that has the effect.
    pub header: Option<String>,
    /// Instead of a header: the member of the JSON body, by its pointer.
    pub field: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Replayed {
    pub(super) answer: Answer,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
enum Verdict {
    Execute(Outgoing),
    Replay(Replayed),
    JoinedFailure(Replayed),
}

/// What came of claiming an activity.
#[derive(Clone, Debug)]
#[must_use]
pub enum Claimed {
    /// Make the call, then say what the provider answered.
    Call(Outgoing),
    /// It was made before; a final refusal is an answer like any other.
    Answered(Answer),
    /// The call that was waited for failed, and may be made again.
    JoinedFailure(Answer),
}

/// One effect of a run.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct RunEffect {
    pub operation: String,
    /// claimed, completed, released or escaped.
    pub state: String,
    pub effect: String,
    pub attempt: u32,
    pub begun_at: u64,
}

#[derive(Deserialize)]
struct RunEffects {
    effects: Vec<RunEffect>,
}

/// A call that a run makes to a provider, once.
#[derive(Clone, Debug)]
#[must_use]
pub struct Activity {
    pub(super) client: Client,
    pub(super) wanted: Wanted,
    pub(super) provider: String,
}

impl Client {
    pub fn activity(&self, run: &str, node: &str, ordinal: u64, provider: &str) -> Activity {
        let wanted = Wanted::default().with("run", run).with("node", node);
        let wanted = wanted.with("ordinal", &ordinal).with("provider", provider);
        Activity { client: self.clone(), wanted, provider: provider.to_owned() }
    }

    /// What a run did outside, the oldest first.
    pub async fn effects_of_run(&self, run: &str) -> Result<Vec<RunEffect>, Error> {
        let encoded: String = run
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'~' | b'-' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        Ok(self.get::<RunEffects>(&format!("/v1/runs/{encoded}/effects")).await?.effects)
    }
}

impl Activity {
    /// Knows the call by what it does for the business, wherever it is asked for.
    pub fn business_key(self, key: &str) -> Self {
        self.with("business_key", key)
    }

    /// Guards the call by what is asked of the provider.
    pub fn request(self, request: &(impl Serialize + ?Sized)) -> Self {
        self.with("request", request)
    }

    pub fn effect(self, effect: Effect) -> Self {
        self.with("effect", effect.name())
    }

    pub fn in_turn(self, turn: &Turn) -> Self {
        self.with("turn", turn)
    }

    pub fn lease(mut self, lease: Duration) -> Self {
        self.wanted = self.wanted.with_time("lease_ms", lease);
        self
    }

    /// How long to wait for another's call.
    pub fn wait(mut self, most: Duration) -> Self {
        self.wanted = self.wanted.with_time("wait_ms", most);
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: &(impl Serialize + ?Sized)) -> Self {
        self.wanted = self.wanted.with(name, value);
        self
    }

    /// Asks for the right to make the call.
    pub async fn claim(self) -> Result<Claimed, Error> {
        Ok(match self.client.post("/v1/activities:claim", &self.wanted.asked()?).await? {
            Verdict::Execute(outgoing) => Claimed::Call(outgoing),
            Verdict::Replay(replayed) => Claimed::Answered(replayed.answer),
            Verdict::JoinedFailure(replayed) => Claimed::JoinedFailure(replayed.answer),
        })
    }

    /// Records what the provider answered; its status decides whether that is final.
    pub async fn answered(&self, outgoing: &Outgoing, answer: &Answer) -> Result<Stepped, Error> {
        answered(&self.client, &self.provider, outgoing, answer).await
    }
}

pub(super) async fn answered(
    client: &Client,
    provider: &str,
    outgoing: &Outgoing,
    answer: &Answer,
) -> Result<Stepped, Error> {
    let said = json!({ "token": outgoing.ticket.token, "provider": provider, "answer": answer });
    client.post(&format!("/v1/activities/{}:answer", outgoing.ticket.operation), &said).await
}
