use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// How much is being answered on a connection, as its reading side needs to know: a client that waits for us is not
/// idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    answering: AtomicUsize,
    asked: AtomicU64,
}

impl Pace {
    pub(crate) fn busy(&self) -> bool {
        self.0.answering.load(Ordering::Acquire) > 0
    }

    /// How many requests there were so far.
    pub(crate) fn asked(&self) -> u64 {
        self.0.asked.load(Ordering::Acquire)
    }

    /// One more request is being answered, until the value is dropped.
    pub(crate) fn answering(&self) -> Answering {
        self.0.answering.fetch_add(1, Ordering::AcqRel);
        self.0.asked.fetch_add(1, Ordering::AcqRel);
        Answering(Self(Arc::clone(&self.0)))
    }
}

#[derive(Debug)]
pub(crate) struct Answering(Pace);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.answering.fetch_sub(1, Ordering::AcqRel);
    }
}
