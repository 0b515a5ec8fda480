//! A strict reading of HTTP/1.
//!
//! Smuggling lives from two readers that see different requests in the same bytes. A server that is lenient with what old clients
//! send (a bare line feed, a repeated length) is one of the two; a gateway that guards keys must not be. What is read here can be
//! read in one way only, and the first byte that cannot ends the connection.

mod body;
mod chunk;
mod ending;
mod head;
mod line;

pub use body::Body;
pub use ending::Ending;
pub use head::{Head, Length};
pub(crate) use head::{names, split};
pub(crate) use line::{is_value, trimmed};

/// Why a request is refused, and its connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    #[error("a line does not end with CR LF")]
    LineEnd,
    #[error("a line is too long, or there are too many of them")]
    TooLong,
    #[error("the request line is not a method, a target and HTTP/1.0 or HTTP/1.1 with single spaces between")]
    RequestLine,
    #[error("CONNECT is not served")]
    Connect,
    #[error("a header line is not a name, a colon and a value of visible characters")]
    HeaderLine,
    #[error("a header is folded over lines")]
    Folded,
    #[error("there is not exactly one Host")]
    Host,
    #[error("the length is not one plain number")]
    ContentLength,
    #[error("the transfer coding is not `chunked` alone")]
    TransferEncoding,
    #[error("there are two ways to read the length of the body")]
    TwoLengths,
    #[error("a chunk is not as it must be")]
    Chunk,
    #[error("a trailer names what only a head may say")]
    Trailer,
}

#[cfg(test)]
mod tests;
