//! The endpoints. A handler reads, asks the engine, and says what it said; it decides nothing.

mod begin;
mod doors;
mod events;
mod explain;
mod keys;
mod list;
mod policies;
mod resolve;
mod step;

pub(crate) use begin::{
    Found, Undone, begin, begin_call, effect_of, given_out, lease_of, nonce_of, noted, noted_step, refused_because,
    said, undone, wait_of, wished,
};
pub(crate) use doors::{audit, health, metrics, openapi, openwop, ready};
pub(crate) use events::events;
pub(crate) use explain::{explain, explain_key, explained};
pub(crate) use keys::{Revoke, add_key, keys, revoke_key};
pub(crate) use list::{Filter, closed, doubt, list, opened, pending, rows};
pub(crate) use policies::{policies, reload, revisions, set_policies};
pub(crate) use resolve::{decide, note, resolve};
pub(crate) use step::{step, told};
