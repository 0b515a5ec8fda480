//! What one route wants of the layer.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use hapax_core::{
    Effect, Id, Millis,
    identity::Surface,
    policy::{KeyRules, PolicyError},
};
use hapax_engine::{EngineError, Provider};
use http::{HeaderName, request};

use crate::dialect::Dialect;

/// How much the layer holds in memory, and how long it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest request body; a longer one is refused with 413.
    pub request_body: usize,
    /// How long a stream is read to its end after its caller has gone away.
    pub orphaned_stream: std::time::Duration,
    /// The longest wait that a caller is told.
    pub retry_after: hapax_core::Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_body: 2 * 1024 * 1024,
            orphaned_stream: std::time::Duration::from_secs(600),
            retry_after: hapax_core::Millis::from_secs(5),
        }
    }
}

/// What keeps keys apart, beside the tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum KeysPer {
    /// The tenant only under preset `stripe`, else the endpoint.
    #[default]
    AsPreset,
    Tenant,
    Endpoint,
}

/// A recorded answer is about to be given again.
#[derive(Clone, Debug)]
pub struct Replaying<'a> {
    pub operation: Id,
    /// Who asks now.
    pub principal: Option<&'a str>,
    /// Who asked first.
    pub asked_first: Option<&'a str>,
    /// The request that asks now: its headers hold the credential.
    pub request: &'a request::Parts,
}

/// Whether an answer may be shown.
///
/// *Nobody can say* is not *no*: a caller that is told no may take its intent elsewhere, and then it happens twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum May {
    Yes,
    No,
    /// Whoever decides could not be asked. The caller is told to come again with the same key.
    Unknown,
}

impl From<bool> for May {
    fn from(may: bool) -> Self {
        if may { Self::Yes } else { Self::No }
    }
}

pub type Permit<'a> = Pin<Box<dyn Future<Output = May> + Send + 'a>>;

/// Decides whether a recorded answer may be given to whoever asks now.
pub trait Authorize: Send + Sync + 'static {
    fn may_see<'a>(&'a self, replaying: &'a Replaying<'a>) -> Permit<'a>;
}

impl<F, M> Authorize for F
where
    F: Fn(&Replaying<'_>) -> M + Send + Sync + 'static,
    M: Into<May>,
{
    fn may_see<'a>(&'a self, replaying: &'a Replaying<'a>) -> Permit<'a> {
        let may = self(replaying).into();
        Box::pin(std::future::ready(may))
    }
}

type Override = dyn Fn(&request::Parts, Bytes) -> Bytes + Send + Sync;
type Hear = dyn Fn(&EngineError) + Send + Sync;

/// The rules of one route. The policy of its surface says the rest.
#[derive(Clone)]
pub struct Rules {
    pub(crate) surface: Surface,
    pub(crate) dialect: Dialect,
    pub(crate) effect: Effect,
    pub(crate) key: KeyRules,
    pub(crate) keys_per: KeysPer,
    pub(crate) per_principal: bool,
    pub(crate) limits: Limits,
    pub(crate) max_attempt: Option<Millis>,
    pub(crate) secret_headers: Vec<HeaderName>,
    pub(crate) authorize: Option<Arc<dyn Authorize>>,
    pub(crate) overrides: Option<Arc<Override>>,
    pub(crate) provider: Option<Arc<Provider>>,
    pub(crate) on_trouble: Option<Arc<Hear>>,
}

impl Rules {
    #[must_use]
    pub fn on(surface: Surface) -> Self {
        Self {
            surface,
            dialect: Dialect::default(),
            effect: Effect::default(),
            key: KeyRules::default(),
            keys_per: KeysPer::default(),
            per_principal: false,
            limits: Limits::default(),
            max_attempt: None,
            secret_headers: Vec::new(),
            authorize: None,
            overrides: None,
            provider: None,
            on_trouble: None,
        }
    }

    #[must_use]
    pub const fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// What is known about doing the work twice. Not saying so means that nothing is.
    #[must_use]
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Where this route's keys come from; where it is silent the policy decides, and then the dialect.
    #[must_use]
    pub fn key(mut self, key: KeyRules) -> Self {
        self.key = key;
        self
    }

    /// Refuses requests without a key.
    #[must_use]
    pub const fn require_key(mut self) -> Self {
        self.key.required = Some(true);
        self
    }

    #[must_use]
    pub const fn keys_per(mut self, keys_per: KeysPer) -> Self {
        self.keys_per = keys_per;
        self
    }

    /// Gives each principal keys of its own.
    #[must_use]
    pub const fn per_principal(mut self) -> Self {
        self.per_principal = true;
        self
    }

    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long an attempt may take up to its answer, where the policy does not say: whoever gives up by then has nothing to
    /// renew a lease for. An answer that streams takes as long as it takes.
    #[must_use]
    pub const fn max_attempt(mut self, most: Millis) -> Self {
        self.max_attempt = Some(most);
        self
    }

    /// A header that is never stored, whatever the policy keeps.
    #[must_use]
    pub fn secret_header(mut self, name: HeaderName) -> Self {
        self.secret_headers.push(name);
        self
    }

    /// Asked before a recorded answer is given again. Without it, answers go to the principal that asked first.
    #[must_use]
    pub fn authorize(mut self, authorize: impl Authorize) -> Self {
        self.authorize = Some(Arc::new(authorize));
        self
    }

    /// Whoever carries the requests out is this provider, and is sent the downstream key where it takes one. Where it
    /// honours keys, a request whose answer was lost may be sent again inside its window, whatever its class; and what it
    /// means as *try again* is that.
    #[must_use]
    pub fn provider(mut self, provider: Arc<Provider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Server-side overrides: the body that the fingerprint sees and the handler gets.
    #[must_use]
    pub fn overrides(mut self, change: impl Fn(&request::Parts, Bytes) -> Bytes + Send + Sync + 'static) -> Self {
        self.overrides = Some(Arc::new(change));
        self
    }

    /// Hears why a request, or the end of one, could not be recorded: callers are only told to come again, and what a store
    /// says of itself is for whoever runs it. It names the server and what was asked of it, and no key. A request waits
    /// meanwhile, and under load there are many.
    #[must_use]
    pub fn on_trouble(mut self, hear: impl Fn(&EngineError) + Send + Sync + 'static) -> Self {
        self.on_trouble = Some(Arc::new(hear));
        self
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("surface", &self.surface)
            .field("dialect", &self.dialect)
            .field("effect", &self.effect)
            .field("keys_per", &self.keys_per)
            .finish_non_exhaustive()
    }
}

/// Why a route's rules cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    #[error("{0} [HX0001]")]
    Surface(#[from] hapax_core::identity::ScopeError),
    #[error("{0} [HX0040]")]
    Policy(#[from] PolicyError),
    #[error("`{0}` is no header name, so no key can be read from it; use letters, digits and dashes [HX0040]")]
    HeaderName(String),
    #[error("a key that is made automatically cannot be missing; remove `required`, or the automatic source [HX0040]")]
    NeverMissing,
    #[error(
        "`capture.on_uncaptured = \"reinvoke\"` is for activities; a request whose answer was not kept is told so and not \
         run again, so write \"refuse\" for the surface of a route [HX0040]"
    )]
    Reinvoke,
    #[error(
        "`forward_key = false` takes the key out of headers, and this surface also reads it from {0}, where it would be \
         passed on; name only headers under `key.source`, or let the key be forwarded [HX0040]"
    )]
    KeyStays(&'static str),
}
