//! What the writer has put into the active segment, so that its hint can be written without reading it again.

use foldhash::fast::RandomState;
use hapax_core::{Tag, Version};
use hashbrown::HashMap;

use crate::{
    slot::{Entrant, HEAVY, Key, NOBODY, Slot},
    walk::Summary,
};

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) summary: Summary,
    /// Their accounts are counted within this journal.
    pub(crate) slots: Vec<Slot>,
    pub(crate) accounts: Vec<(Tag, Tag)>,
    /// What lies beside the few that are heavy.
    pub(crate) beside: HashMap<(Key, Version), u64, RandomState>,
    numbers: HashMap<(Tag, Tag), u32, RandomState>,
}

impl Journal {
    pub(crate) fn add(&mut self, entrant: Entrant) {
        let Entrant { mut slot, tags, beside } = entrant;
        if slot.has(HEAVY) {
            self.beside.insert((slot.key(), slot.version()), beside);
        }
        slot.set_account(tags.map_or(NOBODY, |tags| self.number(tags)));
        self.slots.push(slot);
    }

    fn number(&mut self, tags: (Tag, Tag)) -> u32 {
        // Neighbours are often of one tenant.
        let last = self.slots.last().map(Slot::account);
        if let Some(last) = last
            && self.accounts.get(last as usize) == Some(&tags)
        {
            return last;
        }
        let next = self.accounts.len() as u32;
        let accounts = &mut self.accounts;
        *self.numbers.entry(tags).or_insert_with(|| {
            accounts.push(tags);
            next
        })
    }
}
