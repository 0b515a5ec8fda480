//! Sockets, requests and answers. Nothing here knows what an operation is.

mod accept;
mod guarded;
mod places;
mod query;
mod read;
mod reply;
mod room;

pub(crate) use accept::{Handler, Peer, serve, stopped};
pub(crate) use query::Query;
pub(crate) use read::{json, text};
pub(crate) use reply::{Reply, answer, html, plain, problem, stream};
pub(crate) use room::{Bodies, Body, BodyRoom};
