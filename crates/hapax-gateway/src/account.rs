//! On whose account a request is sent to an upstream.

use hapax_engine::{SystemWallClock, WallClock as _};
use http::request;

use crate::{inbound::Peer, outbound::Account, tenant::Whose};

/// The tenant that a key of this request would belong to, whether it has one or not: whatever goes through unprotected
/// takes the same places.
pub(crate) fn account(whose: &Whose, head: &request::Parts, peer: Peer) -> Account {
    match whose {
        Whose::Fixed(_) => Account::Sole,
        Whose::Credential(_) | Whose::Header { .. } | Whose::Jwt { .. } => {
            let now_s = SystemWallClock.now().0 / 1_000;
            whose.tenant(&head.headers, &head.uri, peer, now_s).map_or(Account::Nobody, Account::Of)
        }
    }
}
