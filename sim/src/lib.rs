//! Oracles for the rules: a naive model written from the specification's sentences, and an exhaustive checker that
//! drives the real rules through everything that clients, time and a store can do to one key.

pub mod bridge;
pub mod checker;
pub mod model;
