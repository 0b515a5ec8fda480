//! A strict reading of HTTP/1 framing, in front of the server.
//!
//! Smuggling lives from two readers that see different requests in the same bytes. A server has to be lenient with
//! what old clients send (a bare line feed, a repeated length); a gateway that guards keys must not be. So every byte of
//! a connection passes here first: this follows where heads, bodies and chunks begin and end, by the grammar alone, and
//! lets through only what can be read in one way. The first byte that cannot ends the connection.
//!
//! It copies nothing: bytes are looked at where they lie. Only a line that arrives in pieces is kept until its end.

mod chunk;
mod head;
mod line;

use head::Head;
use memchr::memchr;

/// A line longer than this is refused, in whatever state. Heads as a whole have their own limit in the server.
const LONGEST_LINE: usize = 64 * 1024;
/// The lines of one head, or of one trailer section.
const MOST_LINES: usize = 1_024;

/// Why a connection is cut.
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

/// Where in the stream of requests a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Between two requests, nothing of the next seen.
    Between,
    Head,
    Body,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before a request line. One empty line is passed over, as old clients send it after a body.
    Start {
        empty_seen: bool,
    },
    Headers,
    /// So many bytes of a counted body are still to come.
    Counted(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
}

/// Follows one direction of one connection.
#[derive(Debug)]
pub struct Framing {
    place: Place,
    /// The part of the current line that came with earlier reads.
    carried: Vec<u8>,
    lines: usize,
    head: Head,
    requests: u64,
    refused: Option<Violation>,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            place: Place::Start { empty_seen: false },
            carried: Vec::new(),
            lines: 0,
            head: Head::default(),
            requests: 0,
            refused: None,
        }
    }
}

impl Framing {
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.place {
            Place::Start { empty_seen: false } if self.carried.is_empty() => Phase::Between,
            Place::Start { .. } | Place::Headers => Phase::Head,
            Place::Counted(_) | Place::ChunkSize | Place::ChunkData(_) | Place::ChunkEnd | Place::Trailers => {
                Phase::Body
            }
        }
    }

    /// How many whole heads have passed.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Looks at the next bytes. Refused: how many of them may still be passed on, and why no more. No line end of a line
    /// that was refused is among them, so whoever reads them has not seen a whole one.
    pub fn see(&mut self, bytes: &[u8]) -> Result<(), (usize, Violation)> {
        if let Some(violation) = self.refused {
            return Err((0, violation));
        }
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.step(rest) {
                Ok(taken) => at += taken,
                Err(violation) => {
                    self.refused = Some(violation);
                    return Err((at, violation));
                }
            }
        }
        Ok(())
    }

    /// Takes at least one byte.
    fn step(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        match self.place {
            Place::Counted(left) => Ok(self.pass(rest, left, Place::Counted, Place::Start { empty_seen: false })),
            Place::ChunkData(left) => Ok(self.pass(rest, left, Place::ChunkData, Place::ChunkEnd)),
            Place::Start { .. } | Place::Headers | Place::ChunkSize | Place::ChunkEnd | Place::Trailers => {
                self.by_line(rest)
            }
        }
    }

    fn pass(&mut self, rest: &[u8], left: u64, more: fn(u64) -> Place, end: Place) -> usize {
        let taken = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
        let left = left - taken as u64;
        self.place = if left == 0 { end } else { more(left) };
        taken
    }

    fn by_line(&mut self, rest: &[u8]) -> Result<usize, Violation> {
        let Some(end) = memchr(b'\n', rest) else {
            if self.carried.len() + rest.len() > LONGEST_LINE {
                return Err(Violation::TooLong);
            }
            self.carried.extend_from_slice(rest);
            return Ok(rest.len());
        };
        let piece = rest.get(..end).unwrap_or_default();
        if self.carried.len() + piece.len() > LONGEST_LINE {
            return Err(Violation::TooLong);
        }
        if self.carried.is_empty() {
            self.line(line::without_cr(piece)?)?;
        } else {
            let mut whole = std::mem::take(&mut self.carried);
            whole.extend_from_slice(piece);
            self.line(line::without_cr(&whole)?)?;
        }
        Ok(end + 1)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Violation> {
        match self.place {
            Place::Start { empty_seen: false } if line.is_empty() => {
                self.place = Place::Start { empty_seen: true };
            }
            Place::Start { .. } => {
                self.head = Head::begun_by(line)?;
                self.lines = 0;
                self.place = Place::Headers;
            }
            Place::Headers if line.is_empty() => {
                self.requests += 1;
                self.place = match self.head.ended()? {
                    head::Body::Counted(0) => Place::Start { empty_seen: false },
                    head::Body::Counted(length) => Place::Counted(length),
                    head::Body::Chunked => Place::ChunkSize,
                };
            }
            Place::Headers => {
                self.count()?;
                self.head.line(line)?;
            }
            Place::ChunkSize => {
                self.place = match chunk::size(line)? {
                    0 => {
                        self.lines = 0;
                        Place::Trailers
                    }
                    size => Place::ChunkData(size),
                };
            }
            Place::ChunkEnd if line.is_empty() => self.place = Place::ChunkSize,
            Place::ChunkEnd => return Err(Violation::Chunk),
            Place::Trailers if line.is_empty() => self.place = Place::Start { empty_seen: false },
            Place::Trailers => {
                self.count()?;
                head::trailer(line)?;
            }
            // Their bytes are counted, not split into lines.
            Place::Counted(_) | Place::ChunkData(_) => {}
        }
        Ok(())
    }

    const fn count(&mut self) -> Result<(), Violation> {
        self.lines += 1;
        if self.lines > MOST_LINES { Err(Violation::TooLong) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
