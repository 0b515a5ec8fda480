//! The faulty twin: any store, with the accidents of a network in front of it.
//!
//! Every fault keeps the contract, since each of them can happen to a store that keeps it: an error says *not done* and
//! nothing was done, or says *not known* and the write was applied, or is applied later as the plain swap it was, so
//! that it lands or conflicts like any other. There is one exception, [`Fault::LostWatch`].

mod fault;
mod held;
mod plan;
mod store;
mod watch;

pub use fault::{Fault, Injected, Landing};
pub use plan::{Odds, Plan};
pub use store::FaultyStore;
