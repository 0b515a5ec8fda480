//! Requests of ours, and their answers.
//!
//! A connection has no task of its own: whoever has a request sends it and reads its answer, in one future, and so an answer that comes
//! whole costs one write and one read. Lying idle nobody polls it; it is looked at when it is taken again.
//!
//! Requests are written as strictly as those of others are read. Answers are read with more patience: what was done is done, and an answer
//! that is lost over a blank leaves everybody in doubt. Only about where an answer ends there is none.

mod connection;
mod ending;
mod fault;
mod head;
mod length;
mod reading;
mod request;
mod sending;

pub use connection::{Client, Most};
pub use fault::Fault;

#[cfg(test)]
mod tests;
