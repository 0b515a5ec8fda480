//! What the engine says, as an answer.

use hapax_core::{Id, Millis, NextAction, RefusalReason, Verdict};
use hapax_engine::{Begun, EngineError};

use super::{Answer, Guard};
use crate::{
    problem::{Code, NextStep, Problem},
    replay,
};

impl Guard {
    pub(super) fn told(&self, operation: Id, begun: Begun) -> Answer {
        let verdict = match begun {
            Begun::Replay(replayed) => return self.replayed(operation, &replayed.replay),
            // It was waited for, so it is this request's answer too; but it is no recorded one, and so has no marks.
            Begun::JoinedFailure(failure) => match replay::response_of(&failure) {
                Some(answer) => return answer,
                None => Verdict::InFlight { retry_after: Millis::ZERO, attempt: 0 },
            },
            Begun::Told(verdict) => verdict,
            Begun::Execute(_) => Verdict::Fenced,
        };
        self.problem(&self.refused(operation, verdict))
    }

    fn replayed(&self, operation: Id, replay: &hapax_core::Replay) -> Answer {
        replay::answer(&self.inner.engine, self.inner.rules.dialect, operation, replay)
    }

    fn refused(&self, operation: Id, verdict: Verdict) -> Problem {
        let most = self.inner.rules.limits.retry_after;
        let problem = match verdict {
            Verdict::WindowClosed { status, decided_wall, .. } => {
                let detail = "it was decided long ago, and the retry came after its window; a new key is only for a \
                              new intent";
                Problem::new(Code::WindowClosed, NextStep::AskOperator, detail)
                    .with("answered", status)
                    .with("decided_ms", decided_wall.0)
            }
            Verdict::Mismatch => Problem::new(
                Code::Mismatch,
                NextStep::FixRequest,
                "this idempotency key was used for another request; send that request again as it was, or use a new \
                 key for a new intent",
            ),
            // Whoever waited for it does not run it in its place, but need not wait either.
            Verdict::InFlight { retry_after: Millis::ZERO, .. } => Problem::new(
                Code::InFlight,
                NextStep::RetrySameKey,
                "the request with this idempotency key that was waited for has ended; send it again with the same key",
            )
            .retry_after(Millis::ZERO),
            Verdict::InFlight { retry_after, .. } => Problem::new(
                Code::InFlight,
                NextStep::Wait,
                "a request with this idempotency key is being processed; send it again with the same key in a moment",
            )
            .retry_after(retry_after.min(most)),
            Verdict::InDoubt { next, .. } => self.in_doubt(next),
            Verdict::Refused(refusal) => match refusal.reason {
                // Only a request without a record is refused for want of room.
                RefusalReason::Quota => Problem::new(
                    Code::OverQuota,
                    NextStep::RetrySameKey,
                    "as many requests are kept as may be; send it again later with the same key",
                )
                .nothing_happened()
                .retry_after(refusal.retry_after),
                // An earlier attempt may have run, and another one has no room for its answer.
                RefusalReason::Bytes => Problem::new(
                    Code::OverQuota,
                    NextStep::RetrySameKey,
                    "what is kept of requests takes as many bytes as it may; send it again later with the same key",
                )
                .retry_after(refusal.retry_after),
                RefusalReason::Admission => Problem::new(
                    Code::NotAdmitted,
                    NextStep::RetrySameKey,
                    "as many requests are being processed as may be; send it again later with the same key",
                )
                .retry_after(refusal.retry_after),
                RefusalReason::Forgetful => Problem::new(
                    Code::Unavailable,
                    NextStep::AskOperator,
                    "the store may forget what it acknowledged, and the policy does not allow that for this effect \
                     [HX0134]",
                )
                .retry_after(refusal.retry_after),
            },
            // A replay and a ticket are answered elsewhere.
            Verdict::Fenced | Verdict::Replay(_) | Verdict::Execute(_) => Problem::new(
                Code::Fenced,
                NextStep::RetrySameKey,
                "somebody else has taken this request over; the same key says what became of it",
            ),
        };
        problem.about(operation)
    }

    fn in_doubt(&self, next: NextAction) -> Problem {
        let detail = "whether this request took effect is unknown, so it is not run again; a new key could make it \
                      happen twice";
        match next {
            NextAction::WaitForProbe { at } => {
                Problem::new(Code::InDoubt, NextStep::Wait, detail).retry_after(self.inner.engine.until(at))
            }
            NextAction::AskOperator => Problem::new(Code::InDoubt, NextStep::AskOperator, detail),
        }
    }

    pub(super) fn not_authorized(&self, operation: Id) -> Answer {
        // No advice to take another key: what was asked under this one may have happened, and the caller may be the one
        // that asked, with a right that was taken away.
        let detail = "the answer under this idempotency key is not this caller's to see; whoever runs the service can \
                      say what became of it";
        self.problem(&Problem::new(Code::NotAuthorized, NextStep::AskOperator, detail).about(operation))
    }

    /// It was done, and whether for this caller nobody can say any more.
    pub(super) fn done_unseen(&self, operation: Id) -> Answer {
        let detail = "a request like this one was completed under this idempotency key when callers were told apart otherwise, so its \
                      answer is not shown; it was not run again. Whoever runs the service can say what became of it";
        self.problem(&Problem::new(Code::AlreadyCompleted, NextStep::AskOperator, detail).about(operation))
    }

    /// There is an answer, and nobody can say right now whether this caller may see it.
    pub(super) fn not_asked(&self, operation: Id) -> Answer {
        let detail = "whether this caller may see the recorded answer cannot be found out right now; send the request \
                      again with the same key";
        let problem = Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail);
        self.problem(&problem.about(operation).retry_after(Millis::from_secs(1)))
    }

    /// Tells whoever runs the service.
    pub(super) fn trouble(&self, error: &EngineError) {
        if let Some(hear) = &self.inner.rules.on_trouble {
            hear(error);
        }
    }

    /// Nobody can say what is recorded. Nothing ran because of this request.
    pub(super) fn unavailable(&self, error: &EngineError, operation: Option<Id>) -> Answer {
        // What the store says of itself is for its operator, not for the caller.
        let detail = match error {
            EngineError::Name(_) | EngineError::Key(_) => error.to_string(),
            EngineError::Store(_)
            | EngineError::Entropy(_)
            | EngineError::Fingerprint(_)
            | EngineError::NotFound(_)
            | _ => {
                self.trouble(error);
                "the request cannot be recorded right now, so it was not run; send it again with the same key"
                    .to_owned()
            }
        };
        let problem = Problem::new(Code::Unavailable, NextStep::RetrySameKey, detail).retry_after(Millis::from_secs(1));
        self.problem(&match operation {
            Some(operation) => problem.about(operation),
            None => problem,
        })
    }
}
