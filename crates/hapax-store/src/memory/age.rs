use std::collections::VecDeque;

use hapax_core::Version;

use super::slot::Slots;

/// Slots in the order of their last write.
///
/// A write always moves its record to the end, so this is a plain queue in which overtaken entries stay until they are
/// by far the greater part of it; that is several times cheaper than keeping a tree.
#[derive(Debug, Default)]
pub(super) struct Age {
    entries: VecDeque<(Version, u32)>,
}

impl Age {
    /// `live` is how many slots the list stands for, this one included. The slot must carry its new version already.
    pub(super) fn push(&mut self, version: Version, at: u32, live: usize, slots: &Slots) {
        if self.entries.len() > 3 * live + 64 {
            self.entries.retain(|&(version, at)| slots.is_current(at, version));
        }
        self.entries.push_back((version, at));
    }

    pub(super) fn after<'a>(
        &'a self,
        version: Version,
        slots: &'a Slots,
    ) -> impl Iterator<Item = (Version, &'a super::slot::Slot)> {
        let start = self.entries.partition_point(|&(written, _)| written <= version);
        self.entries
            .range(start..)
            .filter_map(|&(written, at)| Some((written, slots.get(at)?)))
            .filter(|(written, slot)| slot.version == *written)
    }
}
