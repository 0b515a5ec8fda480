//! What a proxy changes in the heads it passes on (RFC 9110, 7.6; RFC 7239).

mod crumbs;
mod hop;
mod trace;

pub(crate) use crumbs::join_crumbs;
pub(crate) use hop::{is_upgrade, strip_response};
pub(crate) use trace::{Forwarder, via};
