use std::time::Duration;

use hapax_core::Millis;

/// How to reach a Redis, and how to behave there.
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) prefix: Option<String>,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) removal_memory: Millis,
}

impl Options {
    /// Where neither the URL nor the program names another.
    pub(crate) const PREFIX: &str = "hapax:";

    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: None,
            connections: 2,
            connect_timeout: Duration::from_secs(2),
            answer_timeout: Duration::from_secs(3),
            removal_memory: Millis::from_mins(10),
        }
    }

    /// What every key begins with, so that several can share one Redis. It goes before what the URL says.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// How many connections calls are spread over. Each carries any number of calls at once.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long an answer may take before the fate of the call counts as unknown.
    #[must_use]
    pub const fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// How long the version of a removal is remembered: at least twice the longest time-out of whoever writes.
    #[must_use]
    pub const fn removal_memory(mut self, memory: Millis) -> Self {
        self.removal_memory = memory;
        self
    }
}

/// The URL may hold a password.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
