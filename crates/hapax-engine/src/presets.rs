//! The surfaces that Hapax itself records on, each under the preset made for it unless somebody sets a policy for it
//! or for all surfaces.

use std::sync::{Arc, LazyLock};

use hapax_core::{Policy, Preset};

const OURS: [(&str, Preset); 8] = [
    ("a2a", Preset::A2a),
    ("activity", Preset::Activity),
    ("beat", Preset::Beat),
    ("bus", Preset::Bus),
    ("compensation", Preset::Activity),
    ("job", Preset::Job),
    ("run", Preset::Run),
    ("tool", Preset::Tool),
];

static POLICIES: LazyLock<[(&str, Arc<Policy>); 8]> =
    LazyLock::new(|| OURS.map(|(surface, preset)| (surface, Arc::new(preset.policy()))));

pub(crate) fn of(surface: &str) -> Option<&'static Arc<Policy>> {
    POLICIES.iter().find(|(name, _)| *name == surface).map(|(_, policy)| policy)
}

/// The preset of the queue between agents, if this is its surface.
pub(crate) fn of_the_queue(surface: &str) -> Option<&'static Arc<Policy>> {
    if surface == "a2a" { of(surface) } else { None }
}
