//! The side of the clients: who may connect, how long they may take, and what they may send.

mod accept;
mod connection;
mod limits;
mod live;
mod pace;
mod peers;
mod tls;
mod watched;

pub use accept::Inbound;
pub(crate) use accept::serve;
pub use hapax_http1::Crew;
pub use limits::Limits;
pub use live::{Live, Stop, Stopping};
pub(crate) use tls::certificates;
pub use tls::{TlsFiles, TlsProblem};

pub(crate) use connection::{Answer, Peer};
pub(crate) use live::Working;
pub(crate) use pace::{Answering, Place, Places};
