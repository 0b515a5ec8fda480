//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod crash_points;
mod fence;
mod histories;
mod model_small;
mod schedules;
mod sequences;
mod simulation;
