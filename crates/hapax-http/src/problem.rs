//! What the layer itself has to say, before a dialect gives it a status and a shape.

use std::borrow::Cow;

use hapax_core::{Id, Millis};
use serde_json::{Map, Value};

/// The native names of what can go wrong. A dialect may have its own word beside it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Code {
    KeyMissing,
    KeyInvalid,
    Mismatch,
    InFlight,
    InDoubt,
    Fenced,
    AlreadyCompleted,
    WindowClosed,
    TooLarge,
    OverQuota,
    NotAdmitted,
    Unavailable,
    /// Nobody can say whose request it is.
    NoCredential,
    /// The answer belongs to somebody else.
    NotAuthorized,
    /// The request ended before its body did, or the body was broken.
    BrokenRequest,
    /// The handler panicked, or gave no answer.
    NoAnswer,
    /// The upstream could not be reached, or broke off.
    BadGateway,
    /// The upstream did not answer in time.
    GatewayTimeout,
    /// The request's body did not come on.
    TooSlow,
    /// A place outside that is not on the list.
    EgressRefused,
    /// Another protocol was asked for.
    UpgradeRefused,
    /// Two hosts in one request.
    HostRefused,
    /// A path that means another one.
    PathRefused,
    /// A head that can be read in more than one way.
    HeadRefused,
    HeadTooLarge,
}

impl Code {
    pub const ALL: [Self; 25] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::Mismatch,
        Self::InFlight,
        Self::InDoubt,
        Self::Fenced,
        Self::AlreadyCompleted,
        Self::WindowClosed,
        Self::TooLarge,
        Self::OverQuota,
        Self::NotAdmitted,
        Self::Unavailable,
        Self::NoCredential,
        Self::NotAuthorized,
        Self::BrokenRequest,
        Self::NoAnswer,
        Self::BadGateway,
        Self::GatewayTimeout,
        Self::TooSlow,
        Self::EgressRefused,
        Self::UpgradeRefused,
        Self::HostRefused,
        Self::PathRefused,
        Self::HeadRefused,
        Self::HeadTooLarge,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::Mismatch => "mismatch",
            Self::InFlight => "in_flight",
            Self::InDoubt => "in_doubt",
            Self::Fenced => "fenced",
            Self::AlreadyCompleted => "already_completed",
            Self::WindowClosed => "window_closed",
            Self::TooLarge => "too_large",
            Self::OverQuota => "over_quota",
            Self::NotAdmitted => "not_admitted",
            Self::Unavailable => "unavailable",
            Self::NoCredential => "no_credential",
            Self::NotAuthorized => "not_authorized",
            Self::BrokenRequest => "broken_request",
            Self::NoAnswer => "no_answer",
            Self::BadGateway => "bad_gateway",
            Self::GatewayTimeout => "gateway_timeout",
            Self::TooSlow => "too_slow",
            Self::EgressRefused => "egress_refused",
            Self::UpgradeRefused => "upgrade_refused",
            Self::HostRefused => "host_refused",
            Self::PathRefused => "path_refused",
            Self::HeadRefused => "head_refused",
            Self::HeadTooLarge => "head_too_large",
        }
    }

    /// The status where a dialect has none of its own.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::KeyMissing
            | Self::KeyInvalid
            | Self::BrokenRequest
            | Self::HostRefused
            | Self::PathRefused
            | Self::HeadRefused => 400,
            Self::NoCredential => 401,
            Self::NotAuthorized | Self::EgressRefused => 403,
            Self::TooSlow => 408,
            Self::InFlight | Self::InDoubt | Self::Fenced | Self::AlreadyCompleted => 409,
            Self::WindowClosed => 410,
            Self::TooLarge => 413,
            Self::Mismatch => 422,
            Self::OverQuota | Self::NotAdmitted => 429,
            Self::HeadTooLarge => 431,
            Self::NoAnswer => 500,
            Self::UpgradeRefused => 501,
            Self::BadGateway => 502,
            Self::Unavailable => 503,
            Self::GatewayTimeout => 504,
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "The idempotency key is missing",
            Self::KeyInvalid => "The idempotency key is malformed",
            Self::Mismatch => "The idempotency key was used for another request",
            Self::InFlight => "The request is being processed",
            Self::InDoubt => "Whether the request took effect is unknown",
            Self::Fenced => "Somebody else decided this request",
            Self::AlreadyCompleted => "The request was completed, and its answer is not kept",
            Self::WindowClosed => "The retry came too late",
            Self::TooLarge => "The request's body is too large",
            Self::OverQuota => "No more requests can be kept for now",
            Self::NotAdmitted => "Too many requests are being processed",
            Self::Unavailable => "The request cannot be recorded right now",
            Self::NoCredential => "The request carries no usable credential",
            Self::NotAuthorized => "The recorded answer belongs to somebody else",
            Self::BrokenRequest => "The request's body did not arrive whole",
            Self::NoAnswer => "The handler gave no answer",
            Self::BadGateway => "The upstream gave no answer",
            Self::GatewayTimeout => "The upstream did not answer in time",
            Self::TooSlow => "The request's body took too long",
            Self::EgressRefused => "The place is not on the list",
            Self::UpgradeRefused => "The protocol is not changed",
            Self::HostRefused => "The request names no one host",
            Self::PathRefused => "The path means another path",
            Self::HeadRefused => "The request's head can be read in more than one way",
            Self::HeadTooLarge => "The request's head is too large",
        }
    }
}

/// What a caller, person or program, can do next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NextStep {
    RetrySameKey,
    UseNewKey,
    Wait,
    FixRequest,
    AskOperator,
}

impl NextStep {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetrySameKey => "retry_same_key",
            Self::UseNewKey => "use_new_key",
            Self::Wait => "wait",
            Self::FixRequest => "fix_request",
            Self::AskOperator => "ask_operator",
        }
    }
}

/// An answer of the layer's own. It is never recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    pub code: Code,
    pub detail: Cow<'static, str>,
    pub next: NextStep,
    pub retry_after: Option<Millis>,
    /// No effect can have happened, so a new key cannot cause a second one.
    pub safe_new_key: bool,
    pub operation: Option<Id>,
    /// What else is known: digest and length of an answer that was not kept, for instance.
    pub extra: Vec<(&'static str, Value)>,
}

impl Problem {
    #[must_use]
    pub fn new(code: Code, next: NextStep, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            next,
            retry_after: None,
            safe_new_key: false,
            operation: None,
            extra: Vec::new(),
        }
    }

    /// Nothing ran and nothing was begun under this key.
    #[must_use]
    pub fn nothing_happened(mut self) -> Self {
        self.safe_new_key = true;
        self
    }

    #[must_use]
    pub fn retry_after(mut self, length: Millis) -> Self {
        self.retry_after = Some(length);
        self
    }

    #[must_use]
    pub fn about(mut self, operation: Id) -> Self {
        self.operation = Some(operation);
        self
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.extra.push((name, value.into()));
        self
    }

    /// The members that say the same in every dialect that has room for them.
    pub(crate) fn members(&self, retry_timing: bool) -> Map<String, Value> {
        let mut members = Map::new();
        let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
        set("code", self.code.name().into());
        set("next_action", self.next.name().into());
        set("safe_new_key", self.safe_new_key.into());
        if let Some(retry_after) = self.retry_after.filter(|_| retry_timing) {
            set("retry_after_ms", retry_after.0.into());
        }
        if let Some(operation) = self.operation {
            set("operation", operation.to_string().into());
        }
        for (name, value) in &self.extra {
            set(name, value.clone());
        }
        members
    }
}

/// Whole seconds, rounded up: what `Retry-After` can say.
pub(crate) const fn seconds(length: Millis) -> u64 {
    length.0.div_ceil(1_000)
}
