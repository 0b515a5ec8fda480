use hapax_core::{
    Id, Millis, Refusal, WallMillis,
    identity::{ScopeError, SecretError},
    policy::PolicyError,
};
use hapax_store::StoreError;

use crate::ambient::EntropyError;

/// Why the engine could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Name(#[from] ScopeError),
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(
        "{store} promises {promise}, but `durable` was demanded; configure the store for it, or drop the demand [HX0009]"
    )]
    NotDurable { store: String, promise: String },
}

/// Why a call came to no verdict. Nothing ran because of it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    #[error("{0} [HX0008]")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error("{0} [HX0001]")]
    Name(#[from] ScopeError),
    #[error("{0} [HX0001]")]
    Key(#[from] hapax_core::identity::KeyError),
    #[error("the request cannot be written as JSON for its fingerprint: {0} [HX0002]")]
    Fingerprint(String),
    #[error("operation {0} is not known here [HX0010]")]
    NotFound(Id),
    /// Found at the start, before anything runs twice because of it.
    #[error(
        "{store} is used with another secret than this process has; give every process on it the same one, by copying the \
         file `secret` of the first one's data directory [HX0133]"
    )]
    OtherSecret { store: String },
    /// A group fences the work of its own tenant only.
    #[error("the turn belongs to another tenant than the call; take a turn of the tenant that calls [HX0090]")]
    ForeignTurn,
}

/// Why `once` has no value to give.
///
/// Each variant says what may be done next; none of them means that the effect ran twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The closure ran here and failed with this. How it was recorded follows from its [`crate::Classify`].
    #[error("{0}")]
    Failed(E),
    /// The closure ran here and panicked; whether its effect happened is unknown.
    #[error("the effect panicked: {0}; whether it happened is unknown [HX0011]")]
    Panicked(String),
    /// It failed for good before, and that answer stands.
    #[error("it failed before and would again: {message} [HX0003]")]
    Rejected { message: String, attempt: u32, joined: bool },
    /// The attempt that this call waited for failed, and may be tried again with the same key.
    #[error("the attempt under way failed: {message}; try again with the same key")]
    JoinedFailure { message: String },
    /// Another caller has it, and is not done yet.
    #[error("another caller is at it; try again with the same key in {retry_after} [HX0004]")]
    InFlight { retry_after: Millis },
    /// The key was used for another request.
    #[error("this key was used for another request; use a new key, or send the request as it was [HX0005]")]
    Mismatch,
    /// It may have happened. A new key would risk a second effect.
    #[error(
        "whether operation {id} happened is unknown; a new key is not safe, ask an operator or wait for the probe [HX0006]"
    )]
    InDoubt { id: Id },
    #[error("it cannot run now: {}; try again with the same key in {}", .0.reason, .0.retry_after)]
    Refused(Refusal),
    /// The group of the call does not let it start, for another reason than a newer turn.
    #[error(transparent)]
    NotLetStart(crate::group::GroupError),
    /// A newer epoch of the group has overtaken this caller.
    #[error("a newer turn has overtaken this call; do not retry it [HX0012]")]
    Superseded,
    /// It was decided, and the answer is no longer kept.
    #[error(
        "it {} at {decided} and the retry came after its window; use a new key only for a new intent [HX0013]",
        if *.rejected { "failed for good" } else { "was done" }
    )]
    WindowClosed { decided: WallMillis, rejected: bool },
    /// It was done; the answer was not kept, or cannot be read as this type.
    #[error("it was done before, but its answer is not kept whole: {reason} [HX0014]")]
    AlreadyCompleted { digest: [u8; 32], reason: String },
    /// The lease was lost while a repeatable closure ran; it was stopped.
    #[error("the lease was lost and the work stopped; try again with the same key")]
    LeaseLost,
    /// It happened, but recording it failed. Its value is lost to later callers, not its effect.
    #[error("the effect ran, but its outcome could not be recorded: {0}; do not run it again under a new key [HX0015]")]
    NotRecorded(EngineError),
    /// Somebody else decided while the closure ran: its outcome was refused and kept as evidence.
    #[error("the outcome came too late and was refused; it is kept as evidence with the operation [HX0016]")]
    Overtaken,
    #[error(transparent)]
    Engine(#[from] EngineError),
}
