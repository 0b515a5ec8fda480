//! Sockets, requests and answers. Nothing here knows what an operation is.

mod accept;
mod places;
mod query;
mod read;
mod reply;
mod room;
mod tls;

pub(crate) use accept::{Handler, Peer, serve, stopped};
pub(crate) use query::{Query, segment};
pub(crate) use read::{Sent, bytes, json, text};
pub(crate) use reply::{Reply, answer, collected, html, plain, problem, stream, whole};
pub(crate) use room::{Bodies, BodyRoom};
pub(crate) use tls::Tls;
