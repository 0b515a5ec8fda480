//! The tower layer: one line in a stack, and every POST with a key happens once.

mod caught;
mod future;
#[allow(clippy::module_inception, reason = "a middleware is a folder: layer, service, future")]
mod layer;
mod run;
mod service;

pub use future::ResponseFuture;
pub use layer::Layer;
pub use service::Service;
