//! A thread of the ledger that ends by a panic must not leave a ledger behind that calls itself durable, nor callers
//! who wait for an answer that never comes.

use std::sync::Arc;

use crate::{queue::Queue, shared::Shared};

/// Poisons the ledger and closes a queue when dropped, unless the thread has said before that it is done.
#[derive(Debug)]
pub(crate) struct SuddenEnd<'a, T> {
    shared: Arc<Shared>,
    queue: &'a Queue<T>,
    who: &'static str,
    expected: bool,
}

impl<'a, T> SuddenEnd<'a, T> {
    pub(crate) const fn of(who: &'static str, shared: Arc<Shared>, queue: &'a Queue<T>) -> Self {
        Self { shared, queue, who, expected: false }
    }

    pub(crate) fn expected(mut self) {
        self.expected = true;
    }
}

impl<T> Drop for SuddenEnd<'_, T> {
    fn drop(&mut self) {
        if !self.expected {
            // In this order: whoever is turned away by the queue looks for the reason.
            self.shared.panicked(self.who);
            self.queue.abandon();
        }
    }
}
