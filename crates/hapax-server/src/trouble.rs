//! What the store says when it fails, in the log: now and then, however many requests it fails.

use std::fmt;

use hapax_http::NowAndThen;

use crate::log::{Level, Log};

#[derive(Debug)]
pub(crate) struct Trouble {
    log: Log,
    met: NowAndThen<String>,
}

impl Trouble {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, met: NowAndThen::default() }
    }

    pub(crate) fn met(&self, cause: impl fmt::Display) {
        self.met.add(cause.to_string());
        self.say();
    }

    /// Says what there is to say, if it is time. To be called now and then, for what was last.
    pub(crate) fn say(&self) {
        let Some((error, left_out)) = self.met.due() else { return };
        self.log.say(Level::Warn, "store_failed", &[("error", &error), ("left_out", &left_out.to_string())]);
    }
}
