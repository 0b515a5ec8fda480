//! The engine's answers in the words of the history.

use hapax_core::{Body, Outcome, OutcomeClass, Recorded, Refusal, Replay, Verdict};
use hapax_engine::{Begun, Classified, EngineError, OnceDone, OnceError, Stepped};

use super::history::{Said, Told};

pub(super) fn begun(begun: &Begun) -> Told {
    match begun {
        Begun::Execute(ticket) => Told::Execute(ticket.token()),
        Begun::Replay(replayed) => replay(&replayed.replay, replayed.joined),
        Begun::JoinedFailure(failure) => Told::JoinedFailure(text_of(failure).unwrap_or_default()),
        Begun::Told(told) => verdict(told),
    }
}

fn verdict(verdict: &Verdict) -> Told {
    match verdict {
        Verdict::WindowClosed { .. } => Told::WindowClosed,
        Verdict::Mismatch => Told::Mismatch,
        Verdict::Replay(given) => replay(given, false),
        Verdict::InFlight { .. } => Told::InFlight,
        Verdict::InDoubt { .. } => Told::InDoubt,
        Verdict::Refused(refusal) => refused(refusal),
        Verdict::Fenced => Told::Superseded,
        Verdict::Execute(grant) => Told::Execute(grant.token),
    }
}

fn refused(refusal: &Refusal) -> Told {
    Told::Refused(format!("{:?}", refusal.reason))
}

fn replay(replay: &Replay, joined: bool) -> Told {
    let (digest, text) = match &replay.answer {
        Recorded::Whole(outcome) => (outcome.digest(), text_of(outcome)),
        Recorded::DigestOnly { digest, .. } => (*digest, None),
    };
    Told::Replay { digests: vec![digest], text, joined }
}

fn text_of(outcome: &Outcome) -> Option<String> {
    match &outcome.body {
        Body::Inline(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Body::Handle(handle) => Some(handle.to_string()),
        Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } => None,
    }
}

/// What a value may have been recorded as.
fn digests_of(value: &str) -> Vec<[u8; 32]> {
    let json = serde_json::to_vec(value).unwrap_or_default();
    [Body::Inline(json.into()), Body::Handle(value.into()), Body::Empty]
        .map(|body| Outcome::new(OutcomeClass::Success, body).digest())
        .into()
}

fn digests_of_failure(message: &str) -> Vec<[u8; 32]> {
    [OutcomeClass::FinalFailure, OutcomeClass::RetryableFailure]
        .map(|class| Outcome::new(class, Body::Inline(message.to_owned().into())).digest())
        .into()
}

pub(super) fn once(done: &Result<OnceDone<String>, OnceError<Classified<String>>>) -> Told {
    match done {
        Ok(done) if done.replayed => {
            Told::Replay { digests: digests_of(&done.value), text: Some(done.value.clone()), joined: done.joined }
        }
        Ok(done) => Told::Ran { digests: digests_of(&done.value), unrecorded: done.unrecorded },
        Err(error) => match error {
            OnceError::Failed(_)
            | OnceError::Panicked(_)
            | OnceError::LeaseLost
            | OnceError::NotRecorded(_)
            | OnceError::Overtaken => Told::RanInVain,
            OnceError::Rejected { message, joined, .. } => {
                // An operator's word, or a body that is gone, has another form; those are compared where it is known.
                let digests = digests_of_failure(message);
                Told::Replay { digests, text: Some(message.clone()), joined: *joined }
            }
            OnceError::JoinedFailure { message } => Told::JoinedFailure(message.clone()),
            OnceError::InFlight { .. } => Told::InFlight,
            OnceError::Mismatch => Told::Mismatch,
            OnceError::InDoubt { .. } => Told::InDoubt,
            OnceError::Refused(refusal) => refused(refusal),
            OnceError::Superseded | OnceError::NotLetStart(_) => Told::Superseded,
            OnceError::WindowClosed { .. } => Told::WindowClosed,
            OnceError::AlreadyCompleted { digest, .. } => {
                Told::Replay { digests: vec![*digest], text: None, joined: false }
            }
            OnceError::Engine(error) => Told::Error(error.to_string()),
            _ => Told::Error(error.to_string()),
        },
    }
}

pub(super) fn stepped(stepped: Result<Stepped, EngineError>) -> Said {
    match stepped {
        Ok(Stepped::Done(done)) => Said::Done { already: done.already, late: done.late },
        Ok(Stepped::Fenced) => Said::Fenced,
        Ok(Stepped::Conflict(conflict)) => Said::Conflict(format!("{conflict:?}")),
        Ok(Stepped::Refused(refused)) => Said::Refused(format!("{refused:?}")),
        Err(error) => Said::Error(error.to_string()),
    }
}

impl Told {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Execute(_) => "execute",
            Self::Ran { .. } => "ran",
            Self::RanInVain => "ran in vain",
            Self::Replay { joined: true, .. } => "joined replay",
            Self::Replay { .. } => "replay",
            Self::JoinedFailure(_) => "joined failure",
            Self::InFlight => "in flight",
            Self::InDoubt => "in doubt",
            Self::Mismatch => "mismatch",
            Self::Refused(_) => "refused",
            Self::Superseded => "superseded",
            Self::WindowClosed => "window closed",
            Self::Error(_) => "error",
            Self::Cancelled => "cancelled",
            Self::Crashed => "crashed",
        }
    }
}
