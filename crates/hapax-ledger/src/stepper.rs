//! Drives a ledger by hand: one thread, one history; or each of its threads by a scheduler of the test's own.

use crate::{clean::Cleaned, keeper::Keeper, writer::Writer};

#[doc(hidden)]
#[derive(Debug)]
pub struct Stepper {
    writer: Writer,
    keeper: Keeper,
}

impl Stepper {
    pub(crate) const fn new(writer: Writer, keeper: Keeper) -> Self {
        Self { writer, keeper }
    }

    /// One batch.
    pub fn write(&mut self) {
        self.writer.turn(None);
    }

    /// As after a moment without work.
    pub fn mark(&mut self) {
        self.writer.mark();
    }

    /// As at a clean end.
    pub fn end(&mut self) {
        self.writer.end();
    }

    /// One piece of what has to be done beside the requests; false: there was nothing.
    pub fn keep(&mut self) -> bool {
        self.keeper.turn() != Cleaned::Nothing
    }

    /// One for each thread.
    pub fn split(self) -> (WriterSteps, KeeperSteps) {
        (WriterSteps(self.writer), KeeperSteps(self.keeper))
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct WriterSteps(Writer);

impl WriterSteps {
    /// One batch; false: closed, and nothing is left to do.
    pub fn write(&mut self) -> bool {
        self.0.turn(None)
    }

    /// As at a clean end.
    pub fn end(&mut self) {
        self.0.end();
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct KeeperSteps(Keeper);

impl KeeperSteps {
    /// One piece of what has to be done beside the requests; false: there was nothing.
    pub fn keep(&mut self) -> bool {
        self.0.turn() != Cleaned::Nothing
    }
}
