//! Who leads under one idempotency key: the task that later ones join.
//!
//! Whether a task is under way is for its own record to say; a slot only puts senders of one key in an order.

use std::sync::Arc;

use crate::record::About;

use super::TaskId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySlot {
    pub about: Arc<About>,
    pub leader: TaskId,
}

/// What a task finds at its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Leader {
    /// It leads: it goes into the queue.
    Itself,
    /// That one does, as far as the slot knows; its record says whether it still is under way.
    Other(TaskId),
}

/// Takes the slot for `task` if it is free, or if its leader is known to be `over`.
pub fn apply_key_slot(
    current: Option<&KeySlot>,
    about: &Arc<About>,
    task: TaskId,
    over: Option<TaskId>,
) -> (Option<KeySlot>, Leader) {
    match current {
        Some(slot) if slot.leader == task => (None, Leader::Itself),
        Some(slot) if Some(slot.leader) != over => (None, Leader::Other(slot.leader)),
        Some(_) | None => (Some(KeySlot { about: Arc::clone(about), leader: task }), Leader::Itself),
    }
}
