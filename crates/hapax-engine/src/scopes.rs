//! Whose calls came lately: a surface and a tenant are the same for many calls, and their tags are digests.

use std::{hash::BuildHasher, sync::Arc};

use hapax_core::{
    Tag,
    identity::{Surface, Tenant},
    record::About,
};
use parking_lot::Mutex;

/// How many are remembered; a power of two. One that falls on another's place takes it.
const PLACES: usize = 1024;

#[derive(Debug)]
pub(crate) struct Scopes {
    places: Box<[Mutex<Option<Arc<About>>>]>,
    hasher: foldhash::fast::RandomState,
}

impl Default for Scopes {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Mutex::default()).collect(), hasher: foldhash::fast::RandomState::default() }
    }
}

impl Scopes {
    /// What records say of all calls of this tenant on this surface; nothing of the key or of who asks.
    pub(crate) fn about(&self, surface: &Surface, tenant: &Tenant) -> Arc<About> {
        let at = self.hasher.hash_one((surface.as_str(), tenant.as_str()));
        let mut place = self.places[usize::try_from(at).unwrap_or(usize::MAX) % PLACES].lock();
        if let Some(known) = &*place
            && *known.surface == *surface.as_str()
            && *known.tenant == *tenant.as_str()
        {
            return Arc::clone(known);
        }
        let about = Arc::new(About {
            surface: surface.as_str().into(),
            tenant: tenant.as_str().into(),
            surface_tag: Tag::surface(surface),
            tenant_tag: Tag::tenant(surface, tenant),
            principal: None,
            key_hash: [0; 8],
        });
        *place = Some(Arc::clone(&about));
        about
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_falls_on_anothers_place_still_gets_its_own_tags() {
        let scopes = Scopes::default();
        for round in 0..2 {
            for number in 0..4 * PLACES {
                let surface = Surface::new(if number % 2 == 0 { "pay" } else { "ship" }).unwrap();
                let tenant = Tenant::new(&format!("tenant-{number}")).unwrap();
                let about = scopes.about(&surface, &tenant);
                assert_eq!(&*about.tenant, tenant.as_str(), "round {round}");
                assert_eq!(about.surface_tag, Tag::surface(&surface));
                assert_eq!(about.tenant_tag, Tag::tenant(&surface, &tenant));
            }
        }
    }
}
