/// Why there is no answer of an upstream. The variants differ in what may have happened there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection could be had: nothing was sent.
    #[error("no connection to the upstream: {0} [HX0052]")]
    NotConnected(String),
    /// As much is under way as may be: nothing was sent.
    #[error(transparent)]
    Full(Full),
    /// The connection broke before the first byte of the request left: nothing was sent.
    #[error("the connection to the upstream broke before anything was sent: {0} [HX0054]")]
    NotSent(String),
    /// It broke after the first byte: the upstream may have acted.
    #[error("the upstream broke off: {0} [HX0055]")]
    Broke(String),
    /// No answer in time, after the first byte: the upstream may have acted, or still act.
    #[error("the upstream did not answer in time [HX0056]")]
    TimedOut,
}

/// Which limit was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// As many connections as are allowed are in use.
    #[error("all {0} connections to the upstream are in use [HX0053]")]
    Everybody(usize),
    /// As many requests of one tenant as are allowed are under way.
    #[error("all {0} requests are under way to the upstream that one tenant may have there [HX0053]")]
    Tenant(usize),
}

impl Failure {
    /// Whether it is certain that the upstream has seen nothing.
    #[must_use]
    pub const fn nothing_sent(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::Full(_) | Self::NotSent(_) => true,
            Self::Broke(_) | Self::TimedOut => false,
        }
    }
}

/// An error with its causes, in one line.
pub(super) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}
