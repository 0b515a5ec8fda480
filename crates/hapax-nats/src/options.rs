use std::time::Duration;

use hapax_core::Millis;

/// How to reach a NATS server, and how to behave there.
#[derive(Clone)]
pub struct Options {
    pub(crate) url: String,
    pub(crate) bucket: Option<String>,
    pub(crate) replicas: Option<usize>,
    pub(crate) connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) removal_memory: Millis,
}

impl Options {
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            bucket: None,
            replicas: None,
            connect_timeout: Duration::from_secs(2),
            answer_timeout: Duration::from_secs(3),
            removal_memory: Millis::from_mins(10),
        }
    }

    /// The key-value bucket, instead of the one in the URL. It is made if it is not there, and `BUCKET-bodies` beside it.
    #[must_use]
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.bucket = Some(bucket.into());
        self
    }

    /// On how many servers a bucket is kept that has to be made.
    #[must_use]
    pub const fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = Some(replicas);
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
        f.debug_struct("Options").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}
