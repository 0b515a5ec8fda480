//! How much of the process's memory strangers' bodies may take, all together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A limit for each body and one for connections bound memory only by their product, which is more than any machine has.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    taken: AtomicUsize,
}

/// There is no room for so many bytes more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoRoom;

impl Room {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicUsize::new(0) })
    }

    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn empty(self: &Arc<Self>) -> Taking {
        Taking { room: Arc::clone(self), bytes: 0 }
    }
}

/// What one body takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taking {
    room: Arc<Room>,
    bytes: usize,
}

impl Taking {
    /// Takes as much as is missing to so many bytes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let more = bytes.saturating_sub(self.bytes);
        // Counted first: if it was too much it is taken back, and nobody has used it.
        let before = self.room.taken.fetch_add(more, Ordering::AcqRel);
        if before.saturating_add(more) > self.room.most {
            self.room.taken.fetch_sub(more, Ordering::AcqRel);
            return Err(NoRoom);
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_and_given_back() {
        let room = Room::new(100);
        let mut one = room.empty();
        one.grow_to(60).unwrap();
        one.grow_to(50).unwrap();
        let mut other = room.empty();
        assert_eq!(other.grow_to(41), Err(NoRoom));
        other.grow_to(40).unwrap();
        drop(one);
        other.grow_to(100).unwrap();
        drop(other);
        assert_eq!(room.taken.load(Ordering::SeqCst), 0);
    }
}
