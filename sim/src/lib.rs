//! Oracles for the rules: a naive model written from the specification's sentences, and an exhaustive checker that
//! drives the real rules through everything that clients, time and a store can do to one key. Around them worlds: the
//! real engine in simulated time, with everything going wrong that can.

pub mod bridge;
pub mod checker;
pub mod crash_points;
pub mod fence;
pub mod histories;
pub mod linear;
pub mod model;
pub mod pump;
pub mod sequences;
pub mod world;
