use bytes::{Bytes, BytesMut};

/// A body that comes in pieces. Mostly it comes in one, and then it is not copied.
#[derive(Debug, Default)]
pub struct Pieces {
    first: Bytes,
    more: BytesMut,
}

impl Pieces {
    pub fn add(&mut self, piece: Bytes) {
        if self.is_empty() {
            self.first = piece;
            return;
        }
        if self.more.is_empty() {
            self.more = BytesMut::from(std::mem::take(&mut self.first));
        }
        self.more.extend_from_slice(&piece);
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them as one.
    #[must_use]
    pub fn joined(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}
