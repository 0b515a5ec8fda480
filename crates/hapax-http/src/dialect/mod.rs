//! The wire: which statuses, headers and bodies a route speaks, and where its keys come from.

mod acf;
mod ietf;
mod openwop;
mod stripe;

use bytes::Bytes;
use hapax_core::policy::{KeyRules, MismatchInFlight};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::problem::{Code, Problem, seconds};

/// One per route.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// The IETF draft, with problem details (RFC 9457).
    #[default]
    Ietf,
    Stripe,
    Openwop1,
    Openwop2,
    Acf,
}

/// A status, and what else the body and the headers say.
struct Shape {
    status: u16,
    content_type: &'static str,
    body: Value,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the wait is told in a header.
    retry_header: bool,
}

impl Dialect {
    pub const ALL: [Self; 5] = [Self::Ietf, Self::Stripe, Self::Openwop1, Self::Openwop2, Self::Acf];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ietf => "ietf",
            Self::Stripe => "stripe",
            Self::Openwop1 => "openwop1",
            Self::Openwop2 => "openwop2",
            Self::Acf => "acf",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == text)
    }

    /// The key rules where neither the route nor the policy says otherwise.
    #[must_use]
    pub fn key_rules(self) -> KeyRules {
        match self {
            Self::Ietf | Self::Stripe | Self::Openwop1 => ietf::key_rules(),
            Self::Openwop2 => openwop::key_rules(),
            Self::Acf => acf::key_rules(),
        }
    }

    /// What another request under the key of a running one is told where the policy does not say.
    #[must_use]
    pub const fn mismatch_in_flight(self) -> MismatchInFlight {
        match self {
            Self::Openwop1 => MismatchInFlight::InFlight,
            Self::Ietf | Self::Stripe | Self::Openwop2 | Self::Acf => MismatchInFlight::Mismatch,
        }
    }

    /// The header that marks an answer given again.
    #[must_use]
    pub const fn replay_marker(self) -> HeaderName {
        match self {
            Self::Openwop1 | Self::Openwop2 => HeaderName::from_static("openwop-idempotent-replay"),
            Self::Ietf | Self::Stripe | Self::Acf => HeaderName::from_static("idempotent-replayed"),
        }
    }

    /// The problem as this dialect says it.
    #[must_use]
    pub fn answer(self, problem: &Problem) -> Response<Bytes> {
        let shape = match self {
            Self::Ietf => ietf::shape(problem),
            Self::Stripe => stripe::shape(problem),
            Self::Openwop1 => openwop::shape(problem, openwop::Version::V1),
            Self::Openwop2 => openwop::shape(problem, openwop::Version::V2),
            Self::Acf => acf::shape(problem),
        };
        let body = Bytes::from(shape.body.to_string());
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(shape.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(shape.content_type));
        // What is said here holds now; nobody may say it again later.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(shape.headers);
        if let Some(retry_after) = problem.retry_after.filter(|_| shape.retry_header) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(retry_after)));
        }
        response
    }
}

impl Shape {
    fn json(problem: &Problem, body: Value) -> Self {
        Self {
            status: problem.code.status(),
            content_type: "application/json",
            body,
            headers: Vec::new(),
            retry_header: true,
        }
    }
}

/// Whether the caller is told to come again because there is no room, and not because of its key.
const fn is_busy(code: Code) -> bool {
    match code {
        Code::OverQuota | Code::NotAdmitted | Code::Unavailable => true,
        Code::KeyMissing
        | Code::KeyInvalid
        | Code::Mismatch
        | Code::InFlight
        | Code::InDoubt
        | Code::Fenced
        | Code::AlreadyCompleted
        | Code::WindowClosed
        | Code::TooLarge
        | Code::NoCredential
        | Code::NotAuthorized
        | Code::BrokenRequest
        | Code::NoAnswer
        | Code::BadGateway
        | Code::GatewayTimeout
        | Code::TooSlow
        | Code::EgressRefused
        | Code::UpgradeRefused
        | Code::HostRefused
        | Code::PathRefused
        | Code::HeadRefused
        | Code::HeadTooLarge => false,
    }
}
