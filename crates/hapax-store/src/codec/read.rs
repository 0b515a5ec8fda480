use std::sync::Arc;

use bytes::Bytes;

/// Why stored bytes are no record.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    #[error("the record ends inside its {what}")]
    Truncated { what: &'static str },
    #[error("the record's checksum does not match its bytes")]
    Checksum,
    #[error("the record has format {found}, this program reads up to {known}; use a newer Hapax")]
    Newer { found: u8, known: u8 },
    #[error("the record holds an impossible {what}")]
    Invalid { what: &'static str },
}

pub(super) type Read<T> = Result<T, CodecError>;

/// Takes values off the front of a buffer, checking every length against what is left.
pub(super) struct Reader<'a> {
    whole: &'a Bytes,
    format: u8,
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// Checks version and checksum.
    pub(super) fn open(whole: &'a Bytes, known: u8) -> Read<Self> {
        let version = *whole.first().ok_or(CodecError::Truncated { what: "format version" })?;
        if version == 0 {
            return Err(CodecError::Invalid { what: "format version" });
        }
        if version > known {
            return Err(CodecError::Newer { found: version, known });
        }
        let Some((body, sum)) = whole.split_last_chunk::<4>().filter(|(body, _)| !body.is_empty()) else {
            return Err(CodecError::Truncated { what: "checksum" });
        };
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(CodecError::Checksum);
        }
        Ok(Self { whole, format: version, at: 1, end: body.len() })
    }

    /// The format that this was written in.
    pub(super) const fn format(&self) -> u8 {
        self.format
    }

    fn take(&mut self, length: usize, what: &'static str) -> Read<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.end);
        let slice = end.and_then(|end| self.whole.get(self.at..end)).ok_or(CodecError::Truncated { what })?;
        self.at += length;
        Ok(slice)
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Read<u8> {
        Ok(self.fixed::<1>(what)?[0])
    }

    pub(super) fn fixed<const N: usize>(&mut self, what: &'static str) -> Read<[u8; N]> {
        self.take(N, what)?.try_into().map_err(|_| CodecError::Truncated { what })
    }

    pub(super) fn number(&mut self, what: &'static str) -> Read<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(CodecError::Invalid { what });
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                // One number has one spelling, so that one record has one form.
                return if byte == 0 && shift > 0 { Err(CodecError::Invalid { what }) } else { Ok(number) };
            }
        }
        Err(CodecError::Invalid { what })
    }

    pub(super) fn small<T: TryFrom<u64>>(&mut self, what: &'static str) -> Read<T> {
        T::try_from(self.number(what)?).map_err(|_| CodecError::Invalid { what })
    }

    pub(super) fn bytes(&mut self, what: &'static str) -> Read<Bytes> {
        let length = self.small::<usize>(what)?;
        let from = self.at;
        self.take(length, what)?;
        Ok(self.whole.slice(from..from + length))
    }

    pub(super) fn text(&mut self, what: &'static str) -> Read<Arc<str>> {
        let length = self.small::<usize>(what)?;
        let slice = self.take(length, what)?;
        std::str::from_utf8(slice).map(Arc::from).map_err(|_| CodecError::Invalid { what })
    }

    pub(super) fn flag(&mut self, what: &'static str) -> Read<bool> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CodecError::Invalid { what }),
        }
    }

    pub(super) fn maybe<T>(&mut self, what: &'static str, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        if self.flag(what)? { read(self).map(Some) } else { Ok(None) }
    }

    /// A list of at most `most` things.
    pub(super) fn list<T>(
        &mut self,
        what: &'static str,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let length = self.small::<usize>(what)?;
        // Each item takes a byte at least, so a longer list cannot be true, and nothing is allocated for it.
        if length > most || length > self.end - self.at {
            return Err(CodecError::Invalid { what });
        }
        (0..length).map(|_| read(self)).collect()
    }

    pub(super) fn finish(self) -> Read<()> {
        if self.at == self.end { Ok(()) } else { Err(CodecError::Invalid { what: "length" }) }
    }
}
