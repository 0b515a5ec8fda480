use hapax_core::task::{NotNow, TaskId};
use hapax_engine::EngineError;

/// What is wrong with what was asked, before anything was done.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("`{0}` is blank; say something")]
    Blank(&'static str),
    #[error("`{what}` has {length} bytes and may have at most {most}")]
    TooLong { what: &'static str, length: usize, most: usize },
    #[error("`{0}` has a character that is not allowed: no control characters")]
    BadCharacter(&'static str),
    #[error("the payload is said to be JSON and is not: {0}")]
    NotJson(String),
    #[error("`{what}` is {given} and may be from {least} to {most}")]
    OutOfRange { what: &'static str, given: u64, least: u64, most: u64 },
    #[error("line {line} of the log cannot be used: {what}")]
    BadLine { line: u64, what: String },
}

/// Why the queue did not do as it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    #[error("{0} [HX0110]")]
    Invalid(#[from] Refused),
    #[error("task {0} was sent before with other content; take a new id, or send the task as it was [HX0111]")]
    OtherContent(TaskId),
    #[error(
        "this idempotency key was used for another payload; take a new key for new work, or send the payload as it was [HX0112]"
    )]
    KeyMismatch,
    #[error("task {0} is not known here [HX0113]")]
    Unknown(TaskId),
    #[error("the lease of task {0} was taken back; its result was refused and is kept as evidence [HX0114]")]
    Fenced(TaskId),
    #[error("another result was posted for task {0} under this lease; that one stands [HX0115]")]
    OtherResult(TaskId),
    #[error("task {task} cannot be repaired: {why} [HX0116]")]
    NotRepaired { task: TaskId, why: NotNow },
    #[error("task {0} has no result to acknowledge yet [HX0117]")]
    NoResult(TaskId),
    #[error(
        "there are {most} tasks and no room for more; acknowledge results and compact, or raise the limit [HX0118]"
    )]
    Full { most: u64 },
    #[error(
        "this tenant has {most} tasks and no room for more; acknowledge results and compact, or raise its share [HX0118]"
    )]
    TenantFull { most: u64 },
    #[error(
        "the policy of surface `a2a` lets leased work run again by itself ({0}); leave `on_lapse = stale` [HX0119]"
    )]
    UnfitPolicy(&'static str),
    #[error("{0} keeps no lists, and a queue needs them; use memory, file, redis or postgres [HX0120]")]
    UnfitStore(String),
    #[error("task {0} keeps changing under this call; try again [HX0121]")]
    Busy(TaskId),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl QueueError {
    /// Whether asking again may help.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Busy(_) | Self::Full { .. } | Self::TenantFull { .. } => true,
            Self::Engine(EngineError::Store(error)) => error.may_pass(),
            Self::Engine(_)
            | Self::Invalid(_)
            | Self::OtherContent(_)
            | Self::KeyMismatch
            | Self::Unknown(_)
            | Self::Fenced(_)
            | Self::OtherResult(_)
            | Self::NotRepaired { .. }
            | Self::NoResult(_)
            | Self::UnfitPolicy(_)
            | Self::UnfitStore(_) => false,
        }
    }
}
