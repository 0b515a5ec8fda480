//! The lists in which tasks are found. Each is named by the tenant first, so that two tenants' lists never meet.

use crate::{Id, Tag};

use super::{TASK_SURFACE, TaskId};

fn tag(list: &str, parts: &[&[u8]]) -> Tag {
    let mut all: Vec<&[u8]> = vec![list.as_bytes()];
    all.extend_from_slice(parts);
    let mut cut = [0; 16];
    cut.copy_from_slice(&Id::derived("hapax.a2a.list.v1", &all).0[..16]);
    Tag(cut)
}

/// What waits for a recipient, oldest first.
#[must_use]
pub fn queue_tag(tenant: &str, recipient: &str) -> Tag {
    tag("queue", &[tenant.as_bytes(), recipient.as_bytes()])
}

/// What waits of one tenant, for whomever, oldest first.
#[must_use]
pub fn waiting_tag_of(tenant: &str) -> Tag {
    tag("waiting", &[tenant.as_bytes()])
}

/// All that is leased, oldest lease first.
#[must_use]
pub fn leased_tag() -> Tag {
    tag("leased", &[])
}

/// What is leased of one tenant, oldest lease first.
#[must_use]
pub fn leased_tag_of(tenant: &str) -> Tag {
    tag("leased", &[tenant.as_bytes()])
}

/// Results that their sender has not acknowledged.
#[must_use]
pub fn results_tag(tenant: &str, sender: &str) -> Tag {
    tag("results", &[tenant.as_bytes(), sender.as_bytes()])
}

/// All that may be compacted.
#[must_use]
pub fn compactable_tag() -> Tag {
    tag("compactable", &[])
}

/// What may be compacted of one tenant.
#[must_use]
pub fn compactable_tag_of(tenant: &str) -> Tag {
    tag("compactable", &[tenant.as_bytes()])
}

/// The tasks that joined this one.
#[must_use]
pub fn joined_tag(tenant: &str, leader: &TaskId) -> Tag {
    tag("joined", &[tenant.as_bytes(), &leader.0])
}

/// What one call has leased.
#[must_use]
pub fn request_tag(tenant: &str, recipient: &str, request: &[u8; 16]) -> Tag {
    tag("request", &[tenant.as_bytes(), recipient.as_bytes(), request])
}

/// All tasks of a tenant; empty where the tenant is no name.
#[must_use]
pub fn tenant_tag(tenant: &crate::identity::Tenant) -> Option<Tag> {
    let surface = crate::identity::Surface::new(TASK_SURFACE).ok()?;
    Some(Tag::tenant(&surface, tenant))
}
