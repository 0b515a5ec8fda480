//! The stamps of versions that this process has seen lately: a write may not be stamped before what it replaces.

use std::collections::HashMap;

use hapax_core::{Id, Stamp, Version};

const MOST: usize = 32_768;

/// Two generations: when the younger is full it becomes the older, and what nobody asked for since is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    young: HashMap<Id, (Version, Stamp)>,
    old: HashMap<Id, (Version, Stamp)>,
}

impl Stamps {
    pub(crate) fn put(&mut self, id: Id, version: Version, stamp: Stamp) {
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id, (version, stamp));
    }

    pub(crate) fn get(&self, id: &Id, version: Version) -> Option<Stamp> {
        let known = self.young.get(id).or_else(|| self.old.get(id))?;
        (known.0 == version).then_some(known.1)
    }
}
