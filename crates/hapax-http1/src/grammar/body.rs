//! Where a body ends, and what of the bytes after a head is its own.

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use memchr::memchr;

use super::{Length, Violation, chunk, head, line};

/// Follows one body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    place: Place,
    of: Of,
    trailers: HeaderMap,
    /// What lines of trailers may still take.
    room: usize,
}

/// Whose it is. A request must be read by everybody behind us as we read it. An answer has been given already when it is read: what is
/// unusual about it and yet plain is no reason to lose it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Request,
    Answer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// So many bytes of a counted body are still to come.
    Counted(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    Over,
}

impl Body {
    /// `room`: how many bytes of trailers are listened to.
    #[must_use]
    pub fn new(length: Length, room: usize) -> Self {
        Self::of(Of::Request, length, room)
    }

    /// The body of an answer.
    #[must_use]
    pub fn of_answer(length: Length, room: usize) -> Self {
        Self::of(Of::Answer, length, room)
    }

    fn of(of: Of, length: Length, room: usize) -> Self {
        let place = match length {
            Length::Counted(0) => Place::Over,
            Length::Counted(length) => Place::Counted(length),
            Length::Chunked => Place::ChunkSize,
        };
        Self { place, of, trailers: HeaderMap::new(), room }
    }

    #[must_use]
    pub fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// What was said after the last chunk.
    #[must_use]
    pub fn trailers(&mut self) -> Option<HeaderMap> {
        Some(std::mem::take(&mut self.trailers)).filter(|trailers| !trailers.is_empty())
    }

    /// How much is certain to come.
    #[must_use]
    pub const fn least(&self) -> u64 {
        match self.place {
            Place::Counted(left) | Place::ChunkData(left) => left,
            Place::ChunkSize | Place::ChunkEnd | Place::Trailers | Place::Over => 0,
        }
    }

    /// How much is still to come, where that was said.
    #[must_use]
    pub const fn left(&self) -> Option<u64> {
        match self.place {
            Place::Counted(left) => Some(left),
            Place::Over => Some(0),
            Place::ChunkSize | Place::ChunkData(_) | Place::ChunkEnd | Place::Trailers => None,
        }
    }

    /// The next piece among what was read. None: there is no more of it yet, or at all.
    pub fn next(&mut self, read: &mut BytesMut) -> Result<Option<Bytes>, Violation> {
        loop {
            match self.place {
                Place::Over => return Ok(None),
                Place::Counted(_) | Place::ChunkData(_) if read.is_empty() => return Ok(None),
                Place::Counted(left) => {
                    let piece = up_to(read, left);
                    let left = left - piece.len() as u64;
                    self.place = if left == 0 { Place::Over } else { Place::Counted(left) };
                    return Ok(Some(piece));
                }
                Place::ChunkData(left) => {
                    let piece = up_to(read, left);
                    let left = left - piece.len() as u64;
                    self.place = if left == 0 { Place::ChunkEnd } else { Place::ChunkData(left) };
                    return Ok(Some(piece));
                }
                Place::ChunkSize | Place::ChunkEnd | Place::Trailers => {
                    let Some(end) = memchr(b'\n', read) else {
                        return if read.len() > self.longest() { Err(Violation::TooLong) } else { Ok(None) };
                    };
                    if end > self.longest() {
                        return Err(Violation::TooLong);
                    }
                    let line = line::without_cr(read.get(..end).unwrap_or_default())?;
                    self.place = self.after(line)?;
                    if self.place == Place::Trailers {
                        self.room = self.room.saturating_sub(end + 1);
                    }
                    read.advance(end + 1);
                }
            }
        }
    }

    /// How long a line may be here.
    const fn longest(&self) -> usize {
        match self.place {
            Place::Trailers => self.room,
            Place::ChunkSize | Place::ChunkEnd | Place::Counted(_) | Place::ChunkData(_) | Place::Over => {
                match self.of {
                    Of::Request => chunk::LONGEST,
                    Of::Answer => chunk::LONGEST_OF_ANSWER,
                }
            }
        }
    }

    fn after(&mut self, line: &[u8]) -> Result<Place, Violation> {
        match self.place {
            Place::ChunkSize => {
                let size = match self.of {
                    Of::Request => chunk::size(line)?,
                    Of::Answer => chunk::size_of_answer(line)?,
                };
                Ok(if size == 0 { Place::Trailers } else { Place::ChunkData(size) })
            }
            Place::ChunkEnd if line.is_empty() => Ok(Place::ChunkSize),
            Place::ChunkEnd => Err(Violation::Chunk),
            Place::Trailers if line.is_empty() => Ok(Place::Over),
            Place::Trailers => {
                let (name, value) = match self.of {
                    Of::Request => head::trailer(line)?,
                    // Whoever passes them on looks at what they are.
                    Of::Answer => head::any_trailer(line)?,
                };
                self.trailers.try_append(name, value).map_err(|_| Violation::TooLong)?;
                Ok(Place::Trailers)
            }
            // Their bytes are counted, not split into lines.
            same @ (Place::Counted(_) | Place::ChunkData(_) | Place::Over) => Ok(same),
        }
    }
}

fn up_to(read: &mut BytesMut, most: u64) -> Bytes {
    let length = usize::try_from(most).map_or(read.len(), |most| most.min(read.len()));
    read.split_to(length).freeze()
}
