use std::{fmt, sync::Arc};

use hapax_core::{Effect, Millis};
use hapax_engine::{Message, Settle};

pub(crate) type Observe = Arc<dyn Fn(&Message, Settle) + Send + Sync>;

/// How deliveries of one consumer are treated.
#[derive(Clone)]
pub struct Options {
    pub(crate) effect: Effect,
    pub(crate) name: Option<String>,
    pub(crate) intent_header: Option<String>,
    pub(crate) retention: Option<Millis>,
    pub(crate) observe: Option<Observe>,
}

impl Options {
    /// What is known about handling a message twice.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Self { effect, name: None, intent_header: Some("Nats-Msg-Id".into()), retention: None, observe: None }
    }

    /// Under which name messages count as handled, instead of stream and consumer. Consumers that share it handle each
    /// message once between them.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The header that names the intent behind a message, the same over several messages; `Nats-Msg-Id` unless set. `None`:
    /// a message is known by its stream and sequence only.
    #[must_use]
    pub fn intent_header(mut self, header: Option<String>) -> Self {
        self.intent_header = header;
        self
    }

    /// How long a handled message is remembered. It has to be given where deliveries are not limited.
    #[must_use]
    pub const fn retention(mut self, retention: Millis) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Is told what became of each delivery, before the server is.
    #[must_use]
    pub fn observe(mut self, observe: impl Fn(&Message, Settle) + Send + Sync + 'static) -> Self {
        self.observe = Some(Arc::new(observe));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("effect", &self.effect).field("name", &self.name).finish_non_exhaustive()
    }
}
