//! Whose calls came lately: a surface and a tenant are the same for many calls, and their tags are digests.

use std::{collections::BTreeSet, hash::BuildHasher, sync::Arc};

use hapax_core::{
    Tag,
    identity::{Surface, Tenant},
    record::About,
};
use parking_lot::Mutex;

/// How many are remembered; a power of two. One that falls on another's place takes it.
const PLACES: usize = 1024;
/// Callers name surfaces as they like: so many are remembered for those who count.
const MOST_SURFACES: usize = 256;

#[derive(Debug)]
pub(crate) struct Scopes {
    places: Box<[Mutex<Option<Arc<About>>>]>,
    /// Everything that was called on since the start.
    surfaces: Mutex<BTreeSet<Arc<str>>>,
    hasher: foldhash::fast::RandomState,
}

impl Default for Scopes {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
            surfaces: Mutex::default(),
            hasher: foldhash::fast::RandomState::default(),
        }
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
        let mut surfaces = self.surfaces.lock();
        if surfaces.len() < MOST_SURFACES && !surfaces.contains(surface.as_str()) {
            surfaces.insert(surface.as_str().into());
        }
        about
    }

    pub(crate) fn surfaces(&self) -> Vec<Surface> {
        self.surfaces.lock().iter().filter_map(|name| Surface::new(name).ok()).collect()
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
        let known: Vec<String> = scopes.surfaces().iter().map(|surface| surface.as_str().to_owned()).collect();
        assert_eq!(known, ["pay", "ship"], "whoever took whose place");
    }

    /// A caller that invents a surface for each call takes no more memory than one that invents a few.
    #[test]
    fn invented_surfaces_are_remembered_up_to_a_number() {
        let (scopes, tenant) = (Scopes::default(), Tenant::new("acme").unwrap());
        for number in 0..2 * MOST_SURFACES {
            let surface = Surface::new(&format!("invented-{number}")).unwrap();
            assert_eq!(scopes.about(&surface, &tenant).surface_tag, Tag::surface(&surface));
        }
        assert_eq!(scopes.surfaces().len(), MOST_SURFACES);
    }
}
