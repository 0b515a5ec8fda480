//! The one call most users make: run it once, whoever asks and however often.

use std::{
    any::Any,
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hapax_core::{
    Body, Effect, Outcome, OutcomeClass, Recorded, Verdict,
    policy::{Keep, Mode, OnStoreError},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep_until};

use crate::{
    begin::{Begun, Replayed},
    call::{Call, Prepared, Wait},
    classify::{Classify, Failure},
    engine::Engine,
    error::{EngineError, OnceError},
    shadow::WouldStop,
    stats::count,
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
        let mode = prepared.policy.mode;
        let call = match mode {
            Mode::Enforce => self,
            // Waiting would be the one thing that shadow mode does to a request.
            Mode::Shadow => self.wait(Wait::No),
        };
        match call.begin_or_unsure().await {
            Ok(Begun::Execute(ticket)) => engine.run(&prepared, ticket, effect).await,
            Ok(begun) if mode == Mode::Shadow => engine.run_anyway(&prepared, &begun, effect).await,
            Ok(Begun::Replay(replayed)) => given_again(replayed),
            Ok(Begun::JoinedFailure(failure)) => Err(OnceError::JoinedFailure { message: message_of(&failure) }),
            Ok(Begun::Told(verdict)) => Err(told(&prepared, verdict)),
            Err(unsure) if unsure.waited => Err(OnceError::Engine(unsure.error)),
            Err(unsure) => engine.without_store(&prepared, unsure.error, effect).await,
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
        let stepped = ticket.finish(self, outcome.clone()).await;
        if let Err(EngineError::Store(error)) = &stepped
            && error.may_pass()
        {
            self.offer_later(&ticket, outcome);
        }
        let value = match ran {
            Ok(Ok(value)) => value,
            Ok(Err(error)) => return Err(OnceError::Failed(error)),
            Err(panic) => return Err(OnceError::Panicked(panic_text(&panic))),
        };
        let given =
            |unrecorded| OnceDone { value, replayed: false, joined: false, attempt: ticket.attempt(), unrecorded };
        match stepped {
            Ok(Stepped::Done(_)) => Ok(given(false)),
            // Shadow mode decides and stops nothing, least of all the answer to what has run.
            Ok(_) if prepared.policy.mode == Mode::Shadow => Ok(given(false)),
            Err(_) if may_go_unrecorded(prepared) => {
                count(&self.inner.counters.unrecorded);
                Ok(given(true))
            }
            Ok(Stepped::Fenced | Stepped::Conflict(_) | Stepped::Refused(_)) => Err(OnceError::Overtaken),
            Err(error) => Err(OnceError::NotRecorded(error)),
        }
    }

    /// Goes on offering an outcome that the store could not take. Late it is taken as well, unless somebody has decided.
    fn offer_later(&self, ticket: &Ticket, outcome: Outcome) {
        let (engine, ticket) = (self.clone(), ticket.clone());
        tokio::spawn(async move {
            let mut wait = engine.inner.settings.store_backoff;
            let mut waited = Duration::ZERO;
            while waited < OFFERED_FOR {
                tokio::time::sleep(wait).await;
                waited += wait;
                wait = wait.saturating_mul(2).min(Duration::from_secs(5));
                match ticket.finish(&engine, outcome.clone()).await {
                    Err(EngineError::Store(error)) if error.may_pass() => {}
                    Ok(_) | Err(_) => return,
                }
            }
        });
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
        let mut effect = std::pin::pin!(Caught::new(effect, ticket.clone()));
        let mut keeping = std::pin::pin!(self.keep_lease(ticket));
        tokio::select! {
            biased;
            ran = effect.as_mut() => return Some(ran),
            () = keeping.as_mut() => {}
        }
        if prepared.effect.may_rerun() && enforced {
            return None;
        }
        Some(effect.await)
    }

    /// Renews at a third of the lease; returns when the lease is lost.
    pub(crate) async fn keep_lease(&self, ticket: &Ticket) {
        let lease = ticket.lease.as_std();
        let third = lease / 3;
        let mut next = Instant::now() + third;
        loop {
            let deadline = *ticket.held.deadline.lock();
            if Instant::now() >= deadline {
                return;
            }
            sleep_until(next.min(deadline)).await;
            next = match tokio::time::timeout_at(deadline, ticket.renew(self)).await {
                Ok(Ok(Stepped::Done(_))) => Instant::now() + third,
                Ok(Ok(Stepped::Fenced | Stepped::Conflict(_))) => return,
                // No longer renewed: it runs out.
                Ok(Ok(Stepped::Refused(_))) => {
                    sleep_until(deadline).await;
                    return;
                }
                // Try again soon, while the lease still runs.
                Ok(Err(_)) | Err(_) => Instant::now() + third / 4,
            };
        }
    }

    /// Shadow mode: it runs whatever was decided, and what would have been stopped is noted.
    async fn run_anyway<T, E, F, Fut>(
        &self,
        prepared: &Prepared,
        begun: &Begun,
        effect: F,
    ) -> Result<OnceDone<T>, OnceError<E>>
    where
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let because = match begun {
            Begun::Execute(_) => "nothing",
            Begun::Replay(_) => "replay",
            Begun::JoinedFailure(_) => "joined failure",
            Begun::Told(verdict) => verdict_name(verdict),
        };
        count(&self.inner.counters.shadow_stops);
        self.inner.shadow.note(WouldStop { id: prepared.id, wall: self.inner.wall_now(), because });
        self.unrecorded(prepared, effect, false).await
    }

    /// The store gave no verdict: pure work may go on without it if the policy says so.
    async fn without_store<T, E, F, Fut>(
        &self,
        prepared: &Prepared,
        error: EngineError,
        effect: F,
    ) -> Result<OnceDone<T>, OnceError<E>>
    where
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        if !may_go_unrecorded(prepared) || !matches!(error, EngineError::Store(_)) {
            return Err(OnceError::Engine(error));
        }
        count(&self.inner.counters.unrecorded);
        self.unrecorded(prepared, effect, true).await
    }

    async fn unrecorded<T, E, F, Fut>(
        &self,
        prepared: &Prepared,
        effect: F,
        unrecorded: bool,
    ) -> Result<OnceDone<T>, OnceError<E>>
    where
        F: FnOnce(Ticket) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let ticket = self.inner.ticket_for_nothing(prepared)?;
        let attempt = ticket.attempt();
        let value = effect(ticket).await.map_err(OnceError::Failed)?;
        Ok(OnceDone { value, replayed: false, joined: false, attempt, unrecorded })
    }
}

/// How long an outcome is offered to a store that cannot take it.
const OFFERED_FOR: Duration = Duration::from_secs(600);

/// Whether it may run without a record: pure work where the policy says so, and whatever is only shadowed.
fn may_go_unrecorded(prepared: &Prepared) -> bool {
    prepared.policy.mode == Mode::Shadow
        || (prepared.effect == Effect::Pure && prepared.policy.on_store_error == OnStoreError::FailOpen)
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

const fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::WindowClosed { .. } => "window closed",
        Verdict::Mismatch => "mismatch",
        Verdict::Replay(_) => "replay",
        Verdict::InFlight { .. } => "in flight",
        Verdict::InDoubt { .. } => "in doubt",
        Verdict::Refused(_) => "refused",
        Verdict::Fenced => "superseded",
        Verdict::Execute(_) => "nothing",
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

fn message_of(outcome: &Outcome) -> String {
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
