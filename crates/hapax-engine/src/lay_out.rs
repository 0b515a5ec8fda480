//! Bodies beside their records: an outcome is laid out before the command that names it is sent.

use hapax_core::{BodyId, Command, Id, Outcome, OutcomeClass, Policy, Token};

use crate::{engine::Inner, error::EngineError};

impl Inner {
    /// Lays out the outcome of whichever command ends the attempt.
    pub(crate) async fn laid_out_ending(
        &self,
        policy: &Policy,
        id: &Id,
        ending: Command,
    ) -> Result<Command, EngineError> {
        Ok(match ending {
            Command::Complete { token, outcome } => {
                Command::Complete { token, outcome: self.laid_out(policy, id, token, outcome).await? }
            }
            Command::Reject { token, outcome } => {
                Command::Reject { token, outcome: self.laid_out(policy, id, token, outcome).await? }
            }
            Command::Fail { token, outcome } => {
                Command::Fail { token, outcome: self.laid_out_failure(policy, id, token, outcome).await? }
            }
            other @ (Command::Begin(_)
            | Command::Start { .. }
            | Command::Renew { .. }
            | Command::Release { .. }
            | Command::Unstart { .. }
            | Command::Disown { .. }
            | Command::Resolve(_)
            | Command::ClaimProbe { .. }
            | Command::Expire
            | Command::LetGo
            | Command::Evict { .. }) => other,
        })
    }

    /// As [`Inner::laid_out`]. Of an end that nobody can judge no record keeps anything.
    pub(crate) async fn laid_out_failure(
        &self,
        policy: &Policy,
        id: &Id,
        token: Token,
        outcome: Outcome,
    ) -> Result<Outcome, EngineError> {
        match outcome.class {
            OutcomeClass::Unknown => Ok(outcome),
            OutcomeClass::Success
            | OutcomeClass::FinalFailure
            | OutcomeClass::RetryableFailure
            | OutcomeClass::NotRecordable
            | OutcomeClass::NotAdmitted
            | OutcomeClass::Cancelled => self.laid_out(policy, id, token, outcome).await,
        }
    }

    /// Puts a long body beside the record, durable before anything names it; one that is too long leaves its digest.
    ///
    /// Its name follows from what it is: whoever comes with another outcome, and is refused, overwrites nothing.
    pub(crate) async fn laid_out(
        &self,
        policy: &Policy,
        id: &Id,
        token: Token,
        mut outcome: Outcome,
    ) -> Result<Outcome, EngineError> {
        outcome.drop_body_above(policy.capture.max_body);
        let inline = policy.capture.inline as usize;
        if !outcome.body_is_longer_than(inline) {
            return Ok(outcome);
        }
        Box::pin(self.laid_beside(id, token, outcome, inline)).await
    }

    async fn laid_beside(
        &self,
        id: &Id,
        token: Token,
        mut outcome: Outcome,
        inline: usize,
    ) -> Result<Outcome, EngineError> {
        let parts: [&[u8]; 4] = [&id.0, &token.attempt.to_be_bytes(), &token.nonce.0, &outcome.digest()];
        let body = BodyId(Id::derived("hapax.body.v1", &parts).0);
        if let Some((body, bytes)) = outcome.put_out_of_line(body, inline) {
            self.put_body(id, body, bytes).await?;
        }
        Ok(outcome)
    }
}
