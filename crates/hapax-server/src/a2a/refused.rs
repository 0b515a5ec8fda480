use hapax_core::{
    Millis,
    task::{SURFACE, TASK_SURFACE},
};
use hapax_queue::QueueError;
use http::StatusCode;

use crate::problem::{Next, Problem};

/// What a refusal of the queue is over HTTP.
pub(crate) fn problem(error: &QueueError) -> Problem {
    let detail = error.to_string();
    // The code stands at the end of each message; over HTTP it has a place of its own.
    let detail = detail.split(" [HX").next().unwrap_or_default().to_owned();
    let of = |status, code, title, next| Problem::new(status, code, title, detail.clone(), next);
    match error {
        QueueError::Invalid(_) => of(StatusCode::BAD_REQUEST, "HX0110", "The queue cannot use this", Next::FixRequest),
        QueueError::OtherContent(_) => {
            of(StatusCode::CONFLICT, "HX0111", "The id was used for another task", Next::FixRequest)
        }
        QueueError::KeyMismatch => {
            of(StatusCode::UNPROCESSABLE_ENTITY, "HX0112", "The key was used for another payload", Next::NewKey)
        }
        QueueError::Unknown(_) => Problem::new(
            StatusCode::NOT_FOUND,
            "HX0113",
            "The task is not known here",
            "no task of yours has this id; it may have been compacted long ago",
            Next::FixRequest,
        ),
        QueueError::Fenced(_) => of(StatusCode::CONFLICT, "HX0114", "The lease was taken back", Next::Stop),
        QueueError::OtherResult(_) => of(StatusCode::CONFLICT, "HX0115", "Another result stands", Next::Stop),
        QueueError::NotRepaired { .. } => {
            of(StatusCode::CONFLICT, "HX0116", "The task cannot be repaired like this", Next::FixRequest)
        }
        QueueError::NoResult(_) => of(StatusCode::CONFLICT, "HX0117", "There is no result yet", Next::RetryLater),
        QueueError::Full { .. } => of(StatusCode::SERVICE_UNAVAILABLE, "HX0118", "The queue is full", Next::RetryLater)
            .after(Millis::from_secs(1)),
        QueueError::TenantFull { .. } => {
            of(StatusCode::TOO_MANY_REQUESTS, "HX0118", "The tenant's share of the queue is full", Next::RetryLater)
                .after(Millis::from_secs(1))
        }
        QueueError::UnfitPolicy(_) => {
            of(StatusCode::SERVICE_UNAVAILABLE, "HX0119", "The queue cannot be used", Next::AskOperator)
        }
        QueueError::UnfitStore(_) => {
            of(StatusCode::SERVICE_UNAVAILABLE, "HX0120", "The store keeps no queue", Next::AskOperator)
        }
        QueueError::Busy(_) => {
            of(StatusCode::SERVICE_UNAVAILABLE, "HX0121", "The task keeps changing", Next::RetrySameKey)
                .after(Millis::from_secs(1))
        }
        QueueError::Engine(error) => error.clone().into(),
        // Whatever comes to be added is no fault of the caller's.
        other => crate::problem::store_down(other),
    }
}

/// The key lacks a capability of the queue. It is said which, since the task itself is known to the caller.
pub(crate) fn not_granted(capability: &str) -> Problem {
    let detail = format!("it needs the capability `{capability}`; ask for a key that has it");
    Problem::new(StatusCode::FORBIDDEN, "HX0123", "Not allowed in the queue", detail, Next::AskOperator)
}

/// The operations of the queue are begun and ended by tasks alone: by hand, anybody could put a result into the cache that
/// no worker has given.
pub(crate) fn decided_here(surface: &str) -> Result<(), Problem> {
    if ![SURFACE, TASK_SURFACE].contains(&surface) {
        return Ok(());
    }
    let detail = format!("the surface `{surface}` belongs to the queue; send a task with POST /v1/a2a/send instead");
    Err(Problem::new(StatusCode::FORBIDDEN, "HX0123", "Not allowed in the queue", detail, Next::FixRequest))
}
