//! The retry gate on a timer, off unless the environment says so.

mod config;
mod run;

pub use config::{SchedulerConfig, SchedulerConfigError};
pub use run::{Noted, PassRow, Scheduler, SchedulerHost};
