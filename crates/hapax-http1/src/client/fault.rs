use std::io;

use crate::grammar::Violation;

/// Why there is no answer, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    #[error("it was closed before the answer was whole")]
    Closed,
    /// It is an answer to something else.
    #[error("it answered before anything of the request was sent")]
    Unasked,
    /// The rest of the request does not come, so nothing can be answered to it.
    #[error("the request's body broke off")]
    Request,
    #[error("its answer's head cannot be read: {0}")]
    Head(&'static str),
    #[error("its answer's body cannot be read")]
    Body(#[source] Violation),
}
