use serde::Deserialize;
use serde_json::json;

use super::group::Turn;
use crate::{client::Client, error::Error, operation::Operation, wanted::Wanted};

/// One beat of a session.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Beat {
    pub beat: u64,
    pub sealed: bool,
    pub size: usize,
}

/// A message, and the beat that it belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Found {
    pub message: String,
    pub beat: u64,
}

/// What is known of messages that arrived together.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(tag = "gathered", rename_all = "snake_case")]
#[must_use]
pub enum Gathered {
    New(Beat),
    /// Delivered again.
    Known(Beat),
    Overlap {
        found: Vec<Found>,
        beats: Vec<Beat>,
        unanswered: Vec<String>,
    },
}

#[derive(Deserialize)]
struct Absorbed {
    #[serde(flatten)]
    beat: Beat,
    elsewhere: Vec<Found>,
}

/// The beats of one session.
#[derive(Clone, Debug)]
pub struct Session {
    client: Client,
    name: String,
}

impl Client {
    #[must_use]
    pub fn session(&self, name: &str) -> Session {
        Session { client: self.clone(), name: name.to_owned() }
    }
}

impl Session {
    /// These messages arrived together, in any order.
    pub async fn gather(&self, messages: &[&str]) -> Result<Gathered, Error> {
        self.client.post("/v1/beats:gather", &json!({ "session": self.name, "messages": messages })).await
    }

    /// More messages belong to an open beat; those that another one has already are named. `turn`: past its commit point
    /// nothing is absorbed.
    pub async fn absorb(
        &self,
        beat: &Beat,
        messages: &[&str],
        turn: Option<&Turn>,
    ) -> Result<(Beat, Vec<Found>), Error> {
        let said = json!({ "session": self.name, "beat": beat.beat, "messages": messages, "turn": turn });
        let absorbed: Absorbed = self.client.post("/v1/beats:absorb", &said).await?;
        Ok((absorbed.beat, absorbed.elsewhere))
    }

    /// The beat is complete.
    pub async fn seal(&self, beat: &Beat) -> Result<Beat, Error> {
        self.client.post("/v1/beats:seal", &json!({ "session": self.name, "beat": beat.beat })).await
    }

    /// The answer of a sealed beat, to be made once.
    pub fn answer(&self, beat: &Beat) -> Operation {
        let wanted = Wanted::default().with("session", &self.name).with("beat", &beat.beat);
        Operation::at(self.client.clone(), "/v1/beats:begin", wanted)
    }
}
