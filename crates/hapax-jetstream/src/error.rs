use hapax_engine::GuardError;

/// Why a consumer cannot be guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    #[error(
        "consumer `{consumer}` has the ack policy {policy}, so single messages cannot be given back; make it with explicit [HX0102]"
    )]
    NotAcknowledged { consumer: String, policy: &'static str },
    #[error(transparent)]
    Guard(#[from] GuardError),
}
