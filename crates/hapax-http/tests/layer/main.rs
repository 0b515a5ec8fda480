//! The layer as a user meets it: a real hyper server on a TCP socket, a real client, and now and then a bare socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod capture;
mod cases;
mod codes;
mod dialects;
mod guard;
mod keys;
mod lifecycle;
mod meaning;
mod streams;
mod support;
mod tenants;
