//! On whose account a request is sent to an upstream.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hapax_core::identity::Tenant;
use http::{header, request};

use crate::{inbound::Peer, outbound::Account, tenant::Whose};

impl Whose {
    /// The account of a tenant that is known.
    pub(crate) fn account_of(&self, tenant: &Tenant) -> Account {
        match self {
            Self::Fixed(_) => Account::Sole,
            Self::Credential(_) | Self::Header { .. } | Self::Jwt { .. } => Account::Of(tenant.clone()),
        }
    }

    /// On whose account goes what is passed through, or asked in between: it takes the same places.
    pub(crate) fn account(&self, head: &request::Parts, peer: Peer) -> Account {
        match self {
            Self::Fixed(_) => Account::Sole,
            // A signature costs more than it is worth where nothing is looked up under the name.
            Self::Jwt { .. } => head.headers.get(header::AUTHORIZATION).map_or(Account::Nobody, |token| {
                let mut hasher = DefaultHasher::new();
                token.as_bytes().hash(&mut hasher);
                Account::Bearer(hasher.finish())
            }),
            Self::Credential(_) | Self::Header { .. } => {
                self.tenant(&head.headers, &head.uri, peer, 0).map_or(Account::Nobody, Account::Of)
            }
        }
    }
}
