//! The layer as a user meets it: a real hyper server on a TCP socket, a real client, and now and then a bare socket.

mod capture;
mod cases;
mod dialects;
mod guard;
mod keys;
mod lifecycle;
mod meaning;
mod streams;
mod support;
mod tenants;
