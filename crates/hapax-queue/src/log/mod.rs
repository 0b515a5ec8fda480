//! The queue as a log of events, one JSON object per line: to carry it elsewhere, or to read it with other tools.
//!
//! The durable truth is the store; the log is written from it and read into it.

mod export;
mod import;
mod line;

pub use import::ImportReport;
pub use line::LogLine;
