//! HTTP/1.1 connections, of both sides: what clients say is read strictly, within limits, and answered in few instructions; what upstreams
//! are asked is asked once, and what they answer is read in few.
//!
//! A gateway that guards keys must read a request in the one way in which everybody behind it does, and may not be held by
//! whoever is slow. Both are properties of the reading itself, so they are kept here, where the bytes are, and not by something that
//! looks over another reader's shoulder. One connection is one task: head, service, answer and the next head follow each other in it,
//! and a request that came whole costs one read, one write, and no message from one part to another.
//!
//! What is read: [`grammar`]. What a request's body is while it comes: [`Incoming`]. What one connection does: [`serve`].
//! Who does it: [`Crew`]. How an upstream is asked: [`client`].

mod answer;
pub mod client;
mod connection;
mod crew;
mod date;
mod deadline;
pub mod grammar;
mod incoming;
mod limits;
mod outflow;
mod owed;
mod socket;
mod stop;
mod wire;

pub use connection::{Ahead, serve};
pub use crew::{Crew, Seat, moved};
pub use deadline::Deadline;
pub use incoming::{Incoming, Lost};
pub use limits::{Limits, Manners, Rest};
pub use owed::Owed;
pub use socket::{listening, taken};
