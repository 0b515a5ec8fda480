use std::time::Duration;

use hapax_core::Millis;

use crate::{
    address::{Address, reads_one_way},
    error::OpenError,
};

/// How to reach a PostgreSQL, and how to behave there.
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) listen_url: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) removal_memory: Millis,
}

impl Options {
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            listen_url: None,
            schema: None,
            connections: 16,
            connect_timeout: Duration::from_secs(2),
            answer_timeout: Duration::from_secs(3),
            lock_timeout: Duration::from_secs(1),
            removal_memory: Millis::from_mins(10),
        }
    }

    /// Where to listen for wake-ups, if a pooler stands in the way of the other URL: `LISTEN` needs a session of its own.
    #[must_use]
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// The schema that holds the tables, so that several can share one database. It is made if it is not there. It goes
    /// before what the URL says.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// How many connections there are at most, besides the one that listens.
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

    /// How long a statement waits for another that writes the same row. Then it has done nothing.
    #[must_use]
    pub const fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// How long the version of a removal is remembered: at least twice the longest time-out of whoever writes.
    #[must_use]
    pub const fn removal_memory(mut self, memory: Millis) -> Self {
        self.removal_memory = memory;
        self
    }
}

impl Options {
    /// With what the URL says, where the program says nothing.
    pub(crate) fn settled(mut self) -> Result<Self, OpenError> {
        let address = Address::parse(&self.url)?;
        self.listen_url.as_deref().map_or(Ok(()), reads_one_way)?;
        self.url = address.url;
        self.schema = self.schema.or(address.schema);
        self.listen_url = self.listen_url.or(address.listen_url);
        Ok(self)
    }

    pub(crate) fn schema_name(&self) -> &str {
        self.schema.as_deref().unwrap_or("hapax")
    }
}

/// The URLs may hold passwords.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("schema", &self.schema).finish_non_exhaustive()
    }
}
