//! A recorded answer as a response again, byte for byte.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use hapax_core::{Body, Id, Outcome, Recorded, Replay};
use hapax_engine::Engine;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::{
    dialect::Dialect,
    headers,
    problem::{Code, NextStep, Problem},
};

const EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// The recorded answer with its marks, or what can still be said of it.
pub(crate) fn answer(engine: &Engine, dialect: Dialect, operation: Id, replay: &Replay) -> Response<Bytes> {
    let outcome = match &replay.answer {
        Recorded::Whole(outcome) => outcome,
        Recorded::DigestOnly { status, digest } => {
            let problem = completed(operation, *status, "its body was dropped to make room").with_digest(digest);
            return dialect.answer(&problem);
        }
    };
    let Some(mut response) = response_of(outcome) else {
        return dialect.answer(&not_kept(operation, outcome));
    };
    let marks = response.headers_mut();
    marks.insert(dialect.replay_marker(), HeaderValue::from_static("true"));
    if let Some(expires) = replay.expires.and_then(|moment| date(engine.wall_of(moment).0)) {
        marks.insert(EXPIRES, expires);
    }
    response
}

/// What was recorded, as it was sent. `None`: not all of it was kept, or it was no HTTP answer.
pub(crate) fn response_of(outcome: &Outcome) -> Option<Response<Bytes>> {
    let body = match &outcome.body {
        Body::Empty => Bytes::new(),
        Body::Inline(bytes) => bytes.to_bytes(),
        Body::Handle(handle) => Bytes::copy_from_slice(handle.as_bytes()),
        Body::Stored { .. } | Body::Uncaptured { .. } => return None,
    };
    // What was completed outside HTTP has no status; if it has a body, that is the answer.
    let status = match outcome.status {
        0 if !body.is_empty() && outcome.class == hapax_core::OutcomeClass::Success => StatusCode::OK,
        status => StatusCode::from_u16(status).ok()?,
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    headers::given_again(&outcome.headers, response.headers_mut());
    Some(response)
}

fn not_kept(operation: Id, outcome: &Outcome) -> Problem {
    let problem = completed(operation, outcome.status, "its body was a stream, or too large to keep");
    let problem = match &outcome.body {
        Body::Uncaptured { length, digest } | Body::Stored { length, digest, body: _ } => {
            problem.with("length", *length).with_digest(digest)
        }
        Body::Empty | Body::Inline(_) | Body::Handle(_) => problem.with_digest(&outcome.digest()),
    };
    // Where the answer pointed to, its result can still be fetched.
    let pointer = outcome.headers.iter().find(|(name, _)| matches!(&**name, "location" | "content-location"));
    match pointer.and_then(|(_, value)| std::str::from_utf8(value).ok()) {
        Some(location) => problem.with("location", location),
        None => problem,
    }
}

fn completed(operation: Id, status: u16, why: &str) -> Problem {
    let detail = format!("it was completed with status {status}, and {why}; it was not run again");
    Problem::new(Code::AlreadyCompleted, NextStep::AskOperator, detail).about(operation).with("answered", status)
}

impl Problem {
    fn with_digest(self, digest: &[u8; 32]) -> Self {
        self.with("digest", format!("sha256:{}", HEXLOWER.encode(digest)))
    }
}

/// An IMF-fixdate; `None` for moments that it cannot write.
fn date(wall_ms: u64) -> Option<HeaderValue> {
    /// The last second of the year 9999: four digits is all the format has.
    const LAST: u64 = 253_402_300_799;
    let seconds = Some(wall_ms / 1_000).filter(|seconds| *seconds <= LAST)?;
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
    HeaderValue::try_from(httpdate::fmt_http_date(moment)).ok()
}
