use std::{fmt, future::Future, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    client::Client,
    error::{Error, OnceError},
    operation::{Begun, Operation},
    wire::{Outcome, Ticket},
};

/// What came of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Done<T> {
    pub value: T,
    /// It had been done before; nothing ran now.
    pub replayed: bool,
    pub attempt: u32,
}

impl Operation {
    /// Runs the closure, unless it was run before; then its recorded value comes back.
    ///
    /// While it runs the lease is renewed at a third of its length. An error of the closure's is recorded as *unknown*:
    /// whether there was an effect only its author can say. Where nothing happened for certain, begin and release
    /// instead.
    pub async fn once<T, E, F>(self, run: impl FnOnce(Ticket) -> F) -> Result<Done<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: fmt::Display,
        F: Future<Output = Result<T, E>>,
    {
        let client = self.client.clone();
        let ticket = match self.begin().await? {
            Begun::Execute(ticket) => ticket,
            Begun::Replay(replay) if replay.rejected => return Err(OnceError::Rejected(replay)),
            Begun::Replay(replay) => {
                let body = replay.outcome.body.as_deref();
                let body = body.ok_or_else(|| OnceError::Unreadable("its body is not kept".to_owned()))?;
                let value = serde_json::from_str(body).map_err(|error| OnceError::Unreadable(error.to_string()))?;
                return Ok(Done { value, replayed: true, attempt: replay.attempt });
            }
            Begun::JoinedFailure(outcome) => return Err(OnceError::JoinedFailure(outcome)),
        };
        let ran = {
            let running = run(ticket.clone());
            tokio::pin!(running);
            tokio::select! {
                ran = &mut running => ran,
                // It never ends; what it renews ends with the closure.
                never = keep(&client, &ticket) => match never {},
            }
        };
        match ran {
            Ok(value) => {
                let body = match serde_json::to_string(&value) {
                    Ok(body) => body,
                    // The effect ran, so nobody may take this for a failure without one.
                    Err(error) => {
                        let _lapses_otherwise = client.fail(&ticket, &unknown()).await;
                        let why = format!("its value cannot be written as JSON: {error}");
                        return Err(OnceError::NotRecorded(Error::Unexpected(why)));
                    }
                };
                client.complete(&ticket, &Outcome::text(body)).await.map_err(OnceError::NotRecorded)?;
                Ok(Done { value, replayed: false, attempt: ticket.attempt })
            }
            Err(error) => {
                // If this does not arrive, the lease lapses, which says the same.
                let _lapses_otherwise: Result<_, Error> = client.fail(&ticket, &unknown()).await;
                Err(OnceError::Failed(error))
            }
        }
    }
}

fn unknown() -> Outcome {
    Outcome { class: Some("unknown".to_owned()), ..Outcome::default() }
}

/// Renews at a third of the lease. A failed renewal is no reason to stop an effect under way: its end may still be told.
pub(crate) async fn keep(client: &Client, ticket: &Ticket) -> std::convert::Infallible {
    let pause = Duration::from_millis((ticket.lease_ms / 3).max(1));
    loop {
        tokio::time::sleep(pause).await;
        let _tried_again = client.renew(ticket).await;
    }
}
