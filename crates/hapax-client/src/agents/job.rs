use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    client::Client,
    error::Error,
    operation::Operation,
    wanted::Wanted,
    wire::{Outcome, Stepped, Ticket},
};

/// How a submission ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// It was accepted.
    Committed,
    /// It was refused for good.
    Rejected,
}

/// A job as it stands. Its answer is for whoever submits it again under its key.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct JobView {
    pub operation: String,
    /// pending, committed, rejected, open, in_doubt or tombstone.
    pub state: String,
    pub attempt: u32,
    pub begun_at: u64,
    pub ends_in_ms: Option<u64>,
    /// Without its body and headers.
    pub outcome: Option<Outcome>,
}

impl Client {
    /// A job, submitted under the key that this client gave it: `client:sequence:nonce`. Accepting it is what happens once.
    pub fn job(&self, key: &str, job: &(impl Serialize + ?Sized)) -> Operation {
        Operation::at(self.clone(), "/v1/jobs:submit", Wanted::default().with("key", key).with("job", job))
    }

    /// Whether the job was accepted, and the answer to whoever submits it again.
    pub async fn report_job(&self, ticket: &Ticket, ended: JobEnd, outcome: &Outcome) -> Result<Stepped, Error> {
        let said = json!({ "token": ticket.token, "ended": ended, "outcome": outcome });
        self.post(&format!("/v1/jobs/{}:report", ticket.operation), &said).await
    }

    /// A job by the operation that its ticket or its answer names.
    pub async fn job_by_id(&self, operation: &str) -> Result<JobView, Error> {
        self.get(&format!("/v1/jobs/{operation}")).await
    }
}
