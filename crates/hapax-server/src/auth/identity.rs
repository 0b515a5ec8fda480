use std::sync::Arc;

use hapax_core::identity::Tenant;

use super::tenant::TenantState;

/// What a key may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Capability {
    /// Begin operations and say how they ended.
    Operate,
    /// Look at operations, events and policies of one's tenant.
    Read,
    /// Decide what nobody else can.
    Resolve,
    /// Read the counters of the whole process.
    Metrics,
    /// Use the administrators' listener: all tenants, policies, the audit log.
    Admin,
}

impl Capability {
    pub const ALL: [Self; 5] = [Self::Operate, Self::Read, Self::Resolve, Self::Metrics, Self::Admin];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operate => "operate",
            Self::Read => "read",
            Self::Resolve => "resolve",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == text)
    }
}

/// A usual set of capabilities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Reader,
    Client,
    Operator,
    Admin,
}

impl Role {
    pub const ALL: [Self; 4] = [Self::Reader, Self::Client, Self::Operator, Self::Admin];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Client => "client",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == text)
    }

    #[must_use]
    pub const fn capabilities(self) -> &'static [Capability] {
        match self {
            Self::Reader => &[Capability::Read],
            Self::Client => &[Capability::Operate, Capability::Read],
            Self::Operator => &[Capability::Operate, Capability::Read, Capability::Resolve],
            Self::Admin => &Capability::ALL,
        }
    }
}

/// Who is asking, as their credential says.
#[derive(Clone, Debug)]
pub struct Identity {
    pub tenant: Tenant,
    pub principal: Arc<str>,
    /// What the key is called, for logs and the audit.
    pub name: Arc<str>,
    pub(crate) capabilities: Vec<Capability>,
    /// What it may do in the queue.
    pub(crate) a2a: crate::a2a::Grants,
    /// Only these surfaces; all if `None`.
    pub(crate) surfaces: Option<Vec<String>>,
    pub(crate) state: Arc<TenantState>,
    /// The hash of the key that was shown; none where there are no keys.
    pub(crate) digest: Option<[u8; 32]>,
    /// Whose key it is; it stays so where an administrator acts for another tenant.
    pub(crate) home: Tenant,
}

impl Identity {
    #[must_use]
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    #[must_use]
    pub fn may_use(&self, surface: &str) -> bool {
        self.surfaces.as_ref().is_none_or(|surfaces| surfaces.iter().any(|known| known == surface))
    }

    /// What stands as the actor in records, events and audit rows.
    #[must_use]
    pub fn actor(&self) -> String {
        if self.digest.is_none() {
            return format!("{} ({})", self.principal, self.name);
        }
        format!("{} ({}/{})", self.principal, self.home, self.name)
    }

    /// Whether both stand for the same key with the same rights.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.home == other.home
            && self.principal == other.principal
            && self.name == other.name
            && self.capabilities == other.capabilities
            && self.surfaces == other.surfaces
            && self.a2a == other.a2a
    }
}
