//! Sockets, requests and answers. Nothing here knows what an operation is.

mod accept;
mod guarded;
mod query;
mod read;
mod reply;

pub(crate) use accept::{Handler, serve, stopped};
pub(crate) use query::{Query, segment};
pub(crate) use read::{json, text};
pub(crate) use reply::{Reply, answer, html, plain, problem, stream};
