//! Every record there is, for whoever copies them: the feed leaves out what the cleaner carried, and the other indexes are
//! about some records only.

use hapax_store::{Change, StoreError};

use crate::{
    ledger::Ledger,
    slot::{GONE, REMOVED},
};

impl Ledger {
    /// The records of one part, as they stand when they are read. Parts count from 0; `None` is behind the last. What is
    /// begun meanwhile may be missing, what is there all the time never is.
    pub fn part(&self, number: usize) -> Result<Option<Vec<Change>>, StoreError> {
        let shared = self.shared();
        let Some(keys) = shared.index.keys_of_shard(number) else { return Ok(None) };
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            // It may have moved while we looked; then it is looked up again.
            let id = loop {
                let Some((slot, live)) = shared.index.find(key) else { break None };
                if slot.has(REMOVED) || slot.has(GONE) {
                    break None;
                }
                if let Some(live) = live {
                    break Some(live.id);
                }
                if let Some(stored) = shared.read(&slot)? {
                    break Some(stored.id);
                }
            };
            let Some(id) = id else { continue };
            let snapshot = shared.snapshot(&id)?;
            if snapshot.record.is_some() {
                found.push(Change { id, snapshot });
            }
        }
        Ok(Some(found))
    }
}
