//! Refusals, all of one shape.

use std::{borrow::Cow, fmt};

use hapax_core::{Id, Millis, Version};
use hapax_engine::EngineError;
use http::StatusCode;

use crate::wire::ProblemWire;

/// What may be done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    RetrySameKey,
    RetryLater,
    NewKey,
    AskOperator,
    FixRequest,
    Stop,
    Authenticate,
}

impl Next {
    const fn name(self) -> &'static str {
        match self {
            Self::RetrySameKey => "retry_same_key",
            Self::RetryLater => "retry_later",
            Self::NewKey => "new_key",
            Self::AskOperator => "ask_operator",
            Self::FixRequest => "fix_request",
            Self::Stop => "stop",
            Self::Authenticate => "authenticate",
        }
    }
}

/// A refusal. It names the rule and the next step, and never what the caller sent: that may be a secret.
#[derive(Clone, Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub title: &'static str,
    pub detail: Cow<'static, str>,
    pub next: Next,
    pub verdict: Option<&'static str>,
    pub operation: Option<Id>,
    pub retry_after: Option<Millis>,
    pub new_key_is_safe: Option<bool>,
    pub version: Option<Version>,
    /// Which methods there are, where the one used is not.
    pub allow: Option<String>,
    /// What the log says of it. It may name hosts and paths of the store, and is never told to a caller.
    pub(crate) cause: Option<Box<str>>,
}

impl Problem {
    #[must_use]
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
        next: Next,
    ) -> Self {
        Self {
            status,
            code,
            title,
            detail: detail.into(),
            next,
            verdict: None,
            operation: None,
            retry_after: None,
            new_key_is_safe: None,
            version: None,
            allow: None,
            cause: None,
        }
    }

    /// No credential, or one that is not known. Which of the two is not said.
    #[must_use]
    pub fn unauthenticated() -> Self {
        let detail = "this needs a valid API key; send it as `Authorization: Bearer …`";
        Self::new(StatusCode::UNAUTHORIZED, "HX0070", "Not authenticated", detail, Next::Authenticate)
    }

    #[must_use]
    pub fn forbidden(detail: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "HX0071", "Not allowed with this key", detail, Next::AskOperator)
    }

    #[must_use]
    pub fn no_such_endpoint() -> Self {
        let detail = "there is nothing at this address; /openapi.json lists what there is";
        Self::new(StatusCode::NOT_FOUND, "HX0072", "No such endpoint", detail, Next::FixRequest)
    }

    #[must_use]
    pub fn no_such_method(allow: String) -> Self {
        let detail = format!("this address knows {allow} only");
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "HX0072", "No such endpoint", detail, Next::FixRequest);
        Self { allow: Some(allow), ..problem }
    }

    /// Nothing is known under this id, or it is somebody else's: the same words for both.
    #[must_use]
    pub fn unknown_operation() -> Self {
        let detail = "nothing of yours is recorded under this id or key; it may have expired, or the key was used on another \
                      `surface` or within a `scope`, such as an endpoint (on the command line --surface, --endpoint)";
        Self::new(StatusCode::NOT_FOUND, "HX0010", "The operation is not known here", detail, Next::FixRequest)
    }

    /// It was decided, and what was answered is not kept any more.
    #[must_use]
    pub fn no_body(detail: &'static str) -> Self {
        Self::new(StatusCode::GONE, "HX0014", "The answer is not kept any more", detail, Next::Stop)
    }

    #[must_use]
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "HX0073", "The request cannot be used", detail, Next::FixRequest)
    }

    #[must_use]
    pub fn not_json() -> Self {
        let detail = "this endpoint takes JSON; send it with `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "HX0073", "The request cannot be used", detail, Next::FixRequest)
    }

    #[must_use]
    pub fn too_large(most: usize) -> Self {
        let detail = format!("a request may have at most {most} bytes here");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "HX0074", "The request is too large", detail, Next::FixRequest)
    }

    #[must_use]
    pub fn head_too_large() -> Self {
        let detail = "the request's line and headers are more than is read of them; send shorter or fewer";
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "HX0074", "The request is too large", detail, Next::FixRequest)
    }

    #[must_use]
    pub fn too_slow() -> Self {
        let detail = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "HX0074", "The request came too slowly", detail, Next::RetryLater)
    }

    #[must_use]
    pub fn too_many(detail: &'static str, retry_after: Millis) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "HX0075", "Too many at once", detail, Next::RetryLater);
        problem.after(retry_after)
    }

    #[must_use]
    pub const fn after(mut self, retry_after: Millis) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    #[must_use]
    pub const fn verdict(mut self, verdict: &'static str) -> Self {
        self.verdict = Some(verdict);
        self
    }

    #[must_use]
    pub const fn about(mut self, id: Id) -> Self {
        self.operation = Some(id);
        self
    }

    #[must_use]
    pub const fn new_key(mut self, safe: bool) -> Self {
        self.new_key_is_safe = Some(safe);
        self
    }

    pub(crate) fn wire(&self) -> ProblemWire {
        ProblemWire {
            kind: format!("https://github.com/hapax-rs/hapax/blob/main/docs/errors/{}.md", self.code),
            title: self.title.to_owned(),
            status: self.status.as_u16(),
            code: self.code.to_owned(),
            detail: self.detail.to_string(),
            next_action: self.next.name().to_owned(),
            verdict: self.verdict.map(str::to_owned),
            operation: self.operation.map(|id| id.to_string()),
            retry_after_ms: self.retry_after.map(|wait| wait.0),
            new_key_is_safe: self.new_key_is_safe,
            version: self.version.map(|version| version.0),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let refused =
            |code, title| Self::new(StatusCode::BAD_REQUEST, code, title, error.to_string(), Next::FixRequest);
        match &error {
            EngineError::Name(_) | EngineError::Key(_) => refused("HX0001", "A name or a key cannot be used"),
            EngineError::Fingerprint(_) => refused("HX0002", "The request cannot be fingerprinted"),
            EngineError::NotFound(_) => Self::unknown_operation(),
            // Whatever comes to be added is no fault of the caller's either.
            EngineError::Store(_) | EngineError::Entropy(_) | EngineError::ForeignTurn | _ => store_down(&error),
        }
    }
}

/// The store gave no answer. Nothing was promised; the same key and nonce may be sent again. The cause is for the log.
pub(crate) fn store_down(cause: impl fmt::Display) -> Problem {
    let detail = "the store did not answer as it should; nothing was promised, so send the same request again";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let problem = Problem::new(status, "HX0008", "The store did not answer", detail, Next::RetrySameKey);
    Problem { cause: Some(cause.to_string().into()), ..problem.after(Millis::from_secs(1)) }
}
