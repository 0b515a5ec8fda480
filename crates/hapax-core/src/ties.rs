//! What ties an operation to others: its group, its run, what would undo it, and how long its provider knows its key.

use std::sync::Arc;

use bytes::Bytes;

use crate::{Anchor, Id, Millis, Stamp, Tag};

/// Where the input of a compensation comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompensationInput {
    /// Known when the effect starts.
    Given(Bytes),
    /// What this JSON pointer finds in the recorded outcome; the empty pointer means all of it. The outcome is in the
    /// completing write, so nothing besides has to be.
    FromOutcome(Arc<str>),
}

/// How an effect is undone. It is stored with the start of the effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compensation {
    pub name: Arc<str>,
    pub input: CompensationInput,
}

/// For how long a provider answers the same downstream key with the same effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Honoured {
    /// The first attempt that may have reached it.
    pub from: Anchor,
    pub window: Millis,
}

/// What a record carries beyond what every operation has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ties {
    /// The group that fences its starts.
    pub group: Option<Id>,
    /// The run that lists it.
    pub run: Option<Tag>,
    pub compensation: Option<Compensation>,
    /// Its window does not end while this is set: its group may still have to undo it.
    pub held: bool,
    pub honoured: Option<Honoured>,
}

impl Ties {
    /// As read back: the window of the provider counts from a moment.
    pub(crate) fn is_settled(&self) -> bool {
        self.honoured.is_none_or(|honoured| matches!(honoured.from, Anchor::At(_)))
    }

    pub(crate) const fn settle(&mut self, stamp: Stamp) {
        if let Some(honoured) = &mut self.honoured {
            honoured.from = honoured.from.settled(stamp);
        }
    }

    /// The ties of a next attempt, which are its own: one that is made outside of any group is no member of the group
    /// before it, which could neither let it start nor undo it. What the provider may already have seen, it has seen
    /// since the first.
    pub(crate) fn then(before: Option<&Arc<Self>>, next: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let (Some(before), Some(next)) = (before, next) else { return next.cloned() };
        let mut ties = Self::clone(next);
        if let (Some(first), Some(honoured)) = (before.honoured, &mut ties.honoured) {
            honoured.from = first.from;
        }
        Some(Arc::new(ties))
    }
}

/// The tag under which a store lists the members of a group.
#[must_use]
pub fn group_tag(group: &Id) -> Tag {
    let mut tag = [0; 16];
    tag.copy_from_slice(&group.0[..16]);
    Tag(tag)
}
