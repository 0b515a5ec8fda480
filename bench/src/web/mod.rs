//! The gateway over real sockets, beside nginx and a bare server. Everything but the crowd of clients is a process of
//! its own, so that all of them compete for the same cores in the same way.

mod daemon;
mod first;
mod load;
mod nginx;
mod process;
mod replay;
mod report;
mod request;
mod server;

pub(crate) use daemon::run as daemon;
pub(crate) use first::run as first;
pub(crate) use load::{Until, alone as load_alone, crowd, flood};
pub(crate) use process::Running;
pub(crate) use replay::run as replay;
pub(crate) use request::{Keys, Requests};
pub(crate) use server::{BUSY, serve};
