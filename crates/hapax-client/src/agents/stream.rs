//! Calls whose answer is a stream: the daemon records that they were made and how they ended, and not what came.

use std::convert::Infallible;

use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinHandle;

use super::activity::{Activity, Answer, Outgoing, Replayed, answered};
use crate::{client::Client, error::Error, once::keep, wire::Stepped};

/// What is known of a stream that came to its end.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct StreamEnd {
    pub operation: String,
    pub status: u16,
    /// How many bytes it had; 0 where that is not kept any more.
    pub length: u64,
    /// SHA-256 of them, in hexadecimal.
    pub digest: String,
}

/// The key of a call that may be made again for its body, and where it goes.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct StreamAgain {
    pub operation: String,
    pub key: String,
    pub header: Option<String>,
    pub field: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
enum Verdict {
    Execute(Outgoing),
    Replay(Replayed),
    JoinedFailure(Replayed),
    Finished(StreamEnd),
    Again(StreamAgain),
}

/// What came of asking for a stream.
#[derive(Debug)]
#[must_use]
pub enum StreamBegun {
    /// Make the call, and say how it ended.
    Open(Stream),
    /// It was made before and ended; its body is not kept.
    Finished(StreamEnd),
    /// It ended before, and does no harm when it is made again for its body. Nothing is recorded of that.
    Again(StreamAgain),
    /// It was made before, and the provider answered without a stream.
    Answered(Answer),
    /// The call that was waited for failed, and may be made again.
    JoinedFailure(Answer),
}

/// A stream under way. Its lease is renewed while this lives; dropped without an end it lapses, and the class of the effect says
/// what follows, as after a crash.
#[derive(Debug)]
#[must_use]
pub struct Stream {
    client: Client,
    provider: String,
    outgoing: Outgoing,
    keeping: JoinHandle<Infallible>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl Activity {
    /// Asks for the right to make a call whose answer is a stream.
    pub async fn stream(self) -> Result<StreamBegun, Error> {
        let asking = self.with("stream", &true);
        let (client, provider) = (asking.client, asking.provider);
        Ok(match client.post("/v1/activities:claim", &asking.wanted.asked()?).await? {
            Verdict::Execute(outgoing) => {
                let (to, ticket) = (client.clone(), outgoing.ticket.clone());
                let keeping = tokio::spawn(async move { keep(&to, &ticket).await });
                StreamBegun::Open(Stream { client, provider, outgoing, keeping })
            }
            Verdict::Finished(end) => StreamBegun::Finished(end),
            Verdict::Again(again) => StreamBegun::Again(again),
            Verdict::Replay(replayed) => StreamBegun::Answered(replayed.answer),
            Verdict::JoinedFailure(replayed) => StreamBegun::JoinedFailure(replayed.answer),
        })
    }
}

impl Stream {
    /// The key to send along, and where it goes.
    #[must_use]
    pub const fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// All of it came: its length and its SHA-256. Say it before the last bytes are given on.
    pub async fn end(self, status: u16, length: u64, digest: [u8; 32]) -> Result<Stepped, Error> {
        let whole = json!({ "status": status, "length": length, "digest": HEXLOWER.encode(&digest) });
        self.ended(json!({ "token": self.outgoing.ticket.token, "whole": whole })).await
    }

    /// It broke off, and why: what came of the call is unknown.
    pub async fn broken(self, why: &str) -> Result<Stepped, Error> {
        self.ended(json!({ "token": self.outgoing.ticket.token, "broken": why })).await
    }

    /// The provider answered without a stream, as most do who refuse; its status decides whether that is final.
    pub async fn answered(self, answer: &Answer) -> Result<Stepped, Error> {
        answered(&self.client, &self.provider, &self.outgoing, answer).await
    }

    async fn ended(&self, said: serde_json::Value) -> Result<Stepped, Error> {
        self.client.post(&format!("/v1/activities/{}:end", self.outgoing.ticket.operation), &said).await
    }
}
