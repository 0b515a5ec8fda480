use hapax_core::Tag;
use hashbrown::HashMap;

/// How much of a shard each tenant holds. Entries name them by a small number.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    known: HashMap<Tag, Tenant, foldhash::fast::RandomState>,
    /// Which tag a small number stands for.
    tags: Vec<Tag>,
}

#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) number: u32,
    pub(super) entries: usize,
    pub(super) bytes: usize,
}

impl Tenants {
    pub(super) fn get(&self, tag: Tag) -> Option<&Tenant> {
        self.known.get(&tag)
    }

    pub(super) fn count_in(&mut self, tag: Tag, weight: usize) -> u32 {
        let tags = &mut self.tags;
        let known = self.known.entry(tag).or_insert_with(|| {
            tags.push(tag);
            Tenant { number: (tags.len() - 1) as u32, entries: 0, bytes: 0 }
        });
        known.entries += 1;
        known.bytes += weight;
        known.number
    }

    pub(super) fn count_out(&mut self, number: u32, weight: usize) {
        let Some(tag) = self.tags.get(number as usize) else { return };
        if let Some(known) = self.known.get_mut(tag) {
            known.entries -= 1;
            known.bytes -= weight;
        }
    }

    /// Whether most of what is known are tenants without any of so many entries.
    pub(super) fn mostly_gone(&self, entries: usize) -> bool {
        self.tags.len() > 64 + 2 * entries
    }

    /// Drops the names of those without entries, and says by which number each was replaced.
    pub(super) fn renumber(&mut self) -> Vec<u32> {
        self.known.retain(|_, tenant| tenant.entries > 0);
        let mut moved = vec![0; self.tags.len()];
        self.tags.clear();
        for (tag, tenant) in &mut self.known {
            moved[tenant.number as usize] = self.tags.len() as u32;
            tenant.number = self.tags.len() as u32;
            self.tags.push(*tag);
        }
        moved
    }
}
