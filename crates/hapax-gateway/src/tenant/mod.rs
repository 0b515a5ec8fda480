//! Whose key is it? Two customers of one upstream may use the same key, and must never meet under it.

mod credential;
mod seen;
mod token;

use std::sync::Arc;

use hapax_core::identity::Tenant;
use hapax_engine::{SystemWallClock, WallClock as _};
use http::{HeaderMap, HeaderName, Uri, request};

use crate::{inbound::Peer, networks::Networks, outbound::Account};

pub use credential::Credential;
pub(crate) use credential::{API_KEY, ELSEWHERE};
pub use token::{Jwks, JwksError};

/// How a request's tenant is found. It never comes from anything that was not verified.
#[derive(Clone, Debug)]
pub enum Whose {
    /// A keyed digest of what the client proves itself with.
    Credential(Credential),
    /// What a trusted proxy says in a header.
    Header { name: HeaderName, trusted: Networks },
    /// A claim of a token whose signature was checked.
    Jwt { claim: Arc<str>, keys: Arc<Jwks> },
    /// All requests are of one tenant.
    Fixed(Tenant),
}

/// Nobody can be told as whose the request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nobody(pub(crate) &'static str);

impl Whose {
    /// The name under which requests without any credential are kept. They are strangers to all others, but not to each
    /// other.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// How the names of those begin who are told apart by all of their cookies, for want of anything better.
    pub const BY_ALL_COOKIES: &'static str = "cookies-";

    pub(crate) fn tenant(&self, headers: &HeaderMap, uri: &Uri, peer: Peer, now_s: u64) -> Result<Tenant, Nobody> {
        const UNFIT: Nobody = Nobody("the tenant's name is empty, too long or not plain text");
        match self {
            Self::Credential(credential) => credential.tenant(headers, uri),
            Self::Header { name, trusted } => {
                if !trusted.contain(peer.address.ip()) {
                    return Err(Nobody("the tenant's header is believed of trusted proxies only"));
                }
                let mut values = headers.get_all(name).iter();
                match (values.next(), values.next()) {
                    (Some(value), None) => {
                        let value = value.to_str().map_err(|_| UNFIT)?;
                        Tenant::new(value.trim()).map_err(|_| UNFIT)
                    }
                    _ => Err(Nobody("the tenant's header has to be there exactly once")),
                }
            }
            Self::Jwt { claim, keys } => {
                let name = keys.claim(headers, claim, now_s)?;
                Tenant::new(&name).map_err(|_| UNFIT)
            }
            Self::Fixed(tenant) => Ok(tenant.clone()),
        }
    }

    /// Whether a stranger says whose its request is. It is sent on to nobody: an upstream may believe what came through us.
    pub(crate) fn is_pretended(&self, headers: &HeaderMap, peer: Peer) -> bool {
        match self {
            Self::Header { name, trusted } => headers.contains_key(name) && !trusted.contain(peer.address.ip()),
            Self::Credential(_) | Self::Jwt { .. } | Self::Fixed(_) => false,
        }
    }

    /// On whose account a request of this tenant is sent to an upstream.
    pub(crate) fn account_of(&self, tenant: Tenant) -> Account {
        match self {
            Self::Fixed(_) => Account::Sole,
            Self::Credential(_) | Self::Header { .. } | Self::Jwt { .. } => Account::Of(tenant),
        }
    }

    /// The same for what is passed through, or asked in between: it takes places as well.
    pub(crate) fn account(&self, head: &request::Parts, peer: Peer) -> Account {
        let tenant = self.tenant(&head.headers, &head.uri, peer, SystemWallClock.now().0 / 1_000);
        tenant.map_or(Account::Nobody, |tenant| self.account_of(tenant))
    }

    /// The choice in words, as it is printed at the start.
    #[must_use]
    pub fn said(&self) -> String {
        match self {
            Self::Credential(credential) => format!("credential (a keyed digest of {})", credential.said()),
            Self::Header { name, .. } => format!("the header `{name}`, believed of trusted proxies only"),
            Self::Jwt { claim, .. } => format!("the claim `{claim}` of a token that is verified"),
            Self::Fixed(tenant) => format!("fixed: all requests are of `{tenant}`"),
        }
    }
}
