//! The one call most users make: run it once, whoever asks and however often.

use std::{
    any::Any,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
};

use hapax_core::{
    Body, Outcome, OutcomeClass, Recorded, Verdict,
    policy::{Keep, Mode},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    begin::{Begun, Replayed},
    call::{Call, Prepared},
    classify::{Classify, Failure},
    decide::{Decision, Unprotected},
    engine::Engine,
    error::{EngineError, OnceError},
    leased::Settled,
    steps::Stepped,
    ticket::Ticket,
};

/// What `once` gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnceDone<T> {
    pub value: T,
    /// The closure did not run for this call: an earlier one's answer is given again.
    pub replayed: bool,
    /// That earlier call was still running when this one came.
    pub joined: bool,
    pub attempt: u32,
    /// The closure ran, but the store was gone and the policy lets pure work go on without it.
    pub unrecorded: bool,
}

impl Call {
    /// Runs the effect unless it has run before, and gives its value either way.
    ///
    /// The effect is spawned: a caller that goes away does not stop it, and its outcome is recorded.
    pub async fn once<T, E, F, Fut>(self, effect: F) -> Result<OnceDone<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Classify + fmt::Display + Send + 'static,
        F: FnOnce(Ticket) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let running = tokio::spawn(self.once_inline(effect));
        match running.await {
            Ok(done) => done,
            // The task was shut down with its runtime. What it had begun lapses.
            Err(error) => Err(OnceError::Panicked(error.to_string())),
        }
    }

    /// As [`Call::once`], inside the caller's own future: what is dropped half-way lapses by its class.
    pub async fn once_inline<T, E, F, Fut>(self, effect: F) -> Result<OnceDone<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
        E: Classify + fmt::Display,
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let engine = self.engine.clone();
        let prepared = self.prepared.clone()?;
        match self.decide().await? {
            Decision::Execute(ticket) => engine.run(&prepared, ticket, effect).await,
            Decision::Unprotected { ticket, why } => {
                let attempt = ticket.attempt();
                let value = effect(ticket).await.map_err(OnceError::Failed)?;
                let unrecorded = why == Unprotected::StoreGone;
                Ok(OnceDone { value, replayed: false, joined: false, attempt, unrecorded })
            }
            Decision::Told(Begun::Replay(replayed)) => given_again(replayed),
            Decision::Told(Begun::JoinedFailure(failure)) => {
                Err(OnceError::JoinedFailure { message: message_of(&failure) })
            }
            Decision::Told(Begun::Told(verdict)) => Err(told(&prepared, verdict)),
            // A ticket is not told, it is given.
            Decision::Told(Begun::Execute(_)) => Err(OnceError::Superseded),
        }
    }
}

impl Engine {
    async fn run<T, E, F, Fut>(
        &self,
        prepared: &Prepared,
        ticket: Ticket,
        effect: F,
    ) -> Result<OnceDone<T>, OnceError<E>>
    where
        T: Serialize,
        E: Classify + fmt::Display,
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let ran = match self.run_leased(prepared, &ticket, effect).await {
            Some(ran) => ran,
            None => return Err(OnceError::LeaseLost),
        };
        let outcome = match &ran {
            Ok(Ok(value)) => recorded_value(prepared, value),
            Ok(Err(error)) => recorded_failure(error),
            Err(panic) => Outcome::new(OutcomeClass::Unknown, Body::Inline(panic_text(panic).into())),
        };
        let settled = ticket.settle(self, outcome).await;
        let value = match ran {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => return Err(OnceError::Failed(error)),
            Err(panic) => return Err(OnceError::Panicked(panic_text(&panic))),
        };
        let given =
            |unrecorded| OnceDone { value, replayed: false, joined: false, attempt: ticket.attempt(), unrecorded };
        match settled {
            Settled::Recorded => Ok(given(false)),
            Settled::Unrecorded => Ok(given(true)),
            Settled::Overtaken => Err(OnceError::Overtaken),
            Settled::NotRecorded(error) => Err(OnceError::NotRecorded(error)),
        }
    }

    /// Runs the effect while its lease is renewed. `None`: the lease was lost, and the effect may be run again, so it
    /// was stopped. An effect that may not be run again goes on to its end, and its late outcome is offered.
    async fn run_leased<T, F, Fut>(
        &self,
        prepared: &Prepared,
        ticket: &Ticket,
        effect: F,
    ) -> Option<Result<T, Box<dyn Any + Send>>>
    where
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = T>,
    {
        let enforced = prepared.policy.mode == Mode::Enforce;
        if !prepared.started && !matches!(ticket.start(self).await, Ok(Stepped::Done(_))) && enforced {
            // The start may have been written all the same, so it takes our word that nothing has happened.
            let released = ticket.release(self, hapax_core::command::Release::NoEffect).await;
            if let Err(EngineError::Store(error)) = &released
                && error.may_pass()
            {
                // A lease that stays when it is over would wait for an operator, for nothing.
                self.offer_later(ticket, Outcome::new(OutcomeClass::Cancelled, Body::Empty));
            }
            return None;
        }
        ticket.during(self, Caught::new(effect, ticket.clone())).await
    }
}

fn told<E>(prepared: &Prepared, verdict: Verdict) -> OnceError<E> {
    match verdict {
        Verdict::InFlight { retry_after, .. } => OnceError::InFlight { retry_after },
        Verdict::Mismatch => OnceError::Mismatch,
        Verdict::InDoubt { .. } => OnceError::InDoubt { id: prepared.id },
        Verdict::Refused(refusal) => OnceError::Refused(refusal),
        Verdict::Fenced | Verdict::Execute(_) => OnceError::Superseded,
        Verdict::WindowClosed { decided_wall, .. } => OnceError::WindowClosed { decided: decided_wall },
        Verdict::Replay(replay) => match given_again::<(), E>(Replayed { replay, joined: false }) {
            Ok(_) => OnceError::Superseded,
            Err(error) => error,
        },
    }
}

/// Turns a recorded answer back into a value.
fn given_again<T: DeserializeOwned, E>(replayed: Replayed) -> Result<OnceDone<T>, OnceError<E>> {
    let Replayed { replay, joined } = replayed;
    let outcome = match replay.answer {
        Recorded::Whole(outcome) => outcome,
        Recorded::DigestOnly { digest, .. } => {
            return Err(OnceError::AlreadyCompleted { digest, reason: "its body was evicted to make room".into() });
        }
    };
    if replay.rejected {
        return Err(OnceError::Rejected { message: message_of(&outcome), attempt: replay.attempt, joined });
    }
    let read = match &outcome.body {
        // The reader's own words would show what is recorded.
        Body::Inline(bytes) => serde_json::from_slice(bytes).map_err(|error| unreadable(&error)),
        // Only that it was done is recorded: enough for a value that says nothing.
        Body::Empty => serde_json::from_slice(b"null").map_err(|_| "only that it was done is recorded".to_owned()),
        Body::Handle(handle) => {
            serde_json::from_value(serde_json::Value::String(handle.to_string())).map_err(|error| unreadable(&error))
        }
        Body::Uncaptured { length, .. } | Body::Stored { length, .. } => {
            Err(format!("its {length} bytes were too many to keep"))
        }
    };
    match read {
        Ok(value) => Ok(OnceDone { value, replayed: true, joined, attempt: replay.attempt, unrecorded: false }),
        Err(reason) => Err(OnceError::AlreadyCompleted { digest: outcome.digest(), reason }),
    }
}

fn unreadable(error: &serde_json::Error) -> String {
    format!("it cannot be read as the type that is asked for, from column {} on", error.column())
}

/// A value as it is recorded. One that cannot be written still is recorded as done.
fn recorded_value<T: Serialize>(prepared: &Prepared, value: &T) -> Outcome {
    let body = match prepared.policy.capture.keep {
        Keep::Marker => Body::Empty,
        Keep::Handle | Keep::Whole => match serde_json::to_vec(value) {
            Ok(bytes) => handle_in(prepared.policy.capture.keep, &bytes).unwrap_or(Body::Inline(bytes.into())),
            Err(_) => Body::Uncaptured { length: 0, digest: [0; 32] },
        },
    };
    Outcome::new(OutcomeClass::Success, body)
}

/// Where only a handle is kept, a value that is a string is one.
fn handle_in(keep: Keep, bytes: &[u8]) -> Option<Body> {
    match keep {
        Keep::Handle => serde_json::from_slice::<String>(bytes).ok().map(|handle| Body::Handle(handle.into())),
        Keep::Whole | Keep::Marker => None,
    }
}

fn recorded_failure<E: Classify + fmt::Display>(error: &E) -> Outcome {
    let class = match error.classify() {
        Failure::Final => OutcomeClass::FinalFailure,
        Failure::Retryable => OutcomeClass::RetryableFailure,
        Failure::NoEffect => OutcomeClass::NotRecordable,
        Failure::Unknown => OutcomeClass::Unknown,
    };
    Outcome::new(class, Body::Inline(error.to_string().into()))
}

pub(crate) fn message_of(outcome: &Outcome) -> String {
    match &outcome.body {
        Body::Inline(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Body::Handle(handle) => handle.to_string(),
        Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } => String::new(),
    }
}

fn panic_text(panic: &Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// A future whose panic is a value, so that a record never stays behind without an owner.
struct Caught<F, Fut> {
    start: Option<(F, Ticket)>,
    running: Option<Pin<Box<Fut>>>,
}

impl<F, Fut> Caught<F, Fut> {
    fn new(start: F, ticket: Ticket) -> Self {
        Self { start: Some((start, ticket)), running: None }
    }
}

// The closure is moved out before it is called and the future is boxed: nothing in here is pinned in place.
impl<F, Fut> Unpin for Caught<F, Fut> {}

impl<F, Fut> Future for Caught<F, Fut>
where
    F: FnOnce(Ticket) -> Fut,
    Fut: Future,
{
    type Output = Result<Fut::Output, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
            if let Some((start, ticket)) = this.start.take() {
                this.running = Some(Box::pin(start(ticket)));
            }
            match &mut this.running {
                Some(running) => running.as_mut().poll(context),
                None => Poll::Pending,
            }
        }));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                this.running = None;
                Poll::Ready(Ok(value))
            }
            Err(panic) => {
                this.running = None;
                Poll::Ready(Err(panic))
            }
        }
    }
}
