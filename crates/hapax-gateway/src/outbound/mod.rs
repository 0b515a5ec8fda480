//! The side of the upstreams: connections that are kept, and requests of which it is known whether they were sent.

mod connect;
mod exchange;
mod failure;
mod link;
mod link_body;
mod pool;
mod roots;
mod shared;
mod shares;
mod shelves;
mod target;
mod wire;

pub use connect::Protocol;
pub use failure::{Failure, Full};
pub use roots::client_tls;
pub use target::{Target, TargetError};

pub(crate) use exchange::Taken;
pub(crate) use link_body::LinkBody;
pub(crate) use pool::Pool;
pub use pool::Timing;
pub(crate) use shares::{Account, Share};
