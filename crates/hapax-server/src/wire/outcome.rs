use std::sync::Arc;

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER};
use hapax_core::{Body, Outcome, OutcomeClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of an attempt, as it is recorded and replayed.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeWire {
    /// Says what kind of end this is; what the endpoint says if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["success", "final_failure", "retryable_failure", "unknown", "not_recordable", "not_admitted", "cancelled", null]))]
    pub class: Option<String>,
    /// An HTTP status, or 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 999))]
    pub status: u16,
    /// `Set-Cookie` and headers of one connection are left out of what is recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub headers: Vec<(String, String)>,
    /// The body, where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The body, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("contentEncoding" = "base64"))]
    pub body_base64: Option<String>,
    /// Instead of a body: just an identifier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub handle: Option<String>,
    /// In answers, of a body that is not kept any more: its SHA-256, or that of the whole outcome after an eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// In answers, the length of such a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
}

/// Why an outcome cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    #[error("`class` is not the name of a class; use success, final_failure, retryable_failure or unknown")]
    Class,
    #[error("give one of `body`, `body_base64` and `handle`, not several")]
    Several,
    #[error("`digest` and `length` belong to answers; send the body itself")]
    AnswerOnly,
    #[error("`body_base64` is not base64 with padding")]
    Base64,
    #[error("`status` may be at most 999")]
    Status,
    #[error("there are {found} headers and may be at most {most}")]
    Headers { found: usize, most: usize },
    #[error("a header's name or value is too long, or holds what a header may not")]
    Header,
    #[error("`handle` may have at most {most} bytes")]
    Handle { most: usize },
}

const MOST_HEADERS: usize = 64;
const MOST_HEADER_BYTES: usize = 8 * 1024;
const MOST_HANDLE_BYTES: usize = 1024;

const CLASSES: [(&str, OutcomeClass); 7] = [
    ("success", OutcomeClass::Success),
    ("final_failure", OutcomeClass::FinalFailure),
    ("retryable_failure", OutcomeClass::RetryableFailure),
    ("not_recordable", OutcomeClass::NotRecordable),
    ("not_admitted", OutcomeClass::NotAdmitted),
    ("cancelled", OutcomeClass::Cancelled),
    ("unknown", OutcomeClass::Unknown),
];

/// What a class is called on the wire.
#[must_use]
pub fn class_name(class: OutcomeClass) -> &'static str {
    CLASSES.iter().find(|(_, known)| *known == class).map_or("unknown", |(name, _)| name)
}

impl OutcomeWire {
    /// As the rules want it; `class` is what the endpoint stands for.
    pub fn into_outcome(self, class: OutcomeClass) -> Result<Outcome, OutcomeError> {
        let class = match &self.class {
            None => class,
            Some(name) => {
                CLASSES.iter().find(|(known, _)| known == name).map(|(_, class)| *class).ok_or(OutcomeError::Class)?
            }
        };
        if self.status > 999 {
            return Err(OutcomeError::Status);
        }
        if self.digest.is_some() || self.length.is_some() {
            return Err(OutcomeError::AnswerOnly);
        }
        let body = match (self.body, self.body_base64, self.handle) {
            (None, None, None) => Body::Empty,
            (Some(text), None, None) => Body::Inline(text.into()),
            (None, Some(base64), None) => {
                Body::Inline(BASE64.decode(base64.as_bytes()).map_err(|_| OutcomeError::Base64)?.into())
            }
            (None, None, Some(handle)) if handle.len() > MOST_HANDLE_BYTES => {
                return Err(OutcomeError::Handle { most: MOST_HANDLE_BYTES });
            }
            (None, None, Some(handle)) => Body::Handle(handle.into()),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => return Err(OutcomeError::Several),
        };
        Ok(Outcome { class, status: self.status, headers: headers(self.headers)?, body })
    }

    /// As it was recorded.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let mut wire = Self {
            class: Some(class_name(outcome.class).to_owned()),
            status: outcome.status,
            headers: outcome
                .headers
                .iter()
                .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value).into_owned()))
                .collect(),
            ..Self::default()
        };
        match &outcome.body {
            Body::Empty => {}
            Body::Inline(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => wire.body = Some(text.to_owned()),
                Err(_) => wire.body_base64 = Some(BASE64.encode(bytes)),
            },
            Body::Stored { length, digest, body: _ } | Body::Uncaptured { length, digest } => {
                wire.length = Some(*length);
                wire.digest = Some(HEXLOWER.encode(digest));
            }
            Body::Handle(handle) => wire.handle = Some(handle.to_string()),
        }
        wire
    }

    /// Without its body and headers: what *explain* and lists show.
    #[must_use]
    pub fn outline(outcome: &Outcome) -> Self {
        let digest = HEXLOWER.encode(&outcome.digest());
        let length = match &outcome.body {
            Body::Empty => 0,
            Body::Inline(bytes) => bytes.len() as u64,
            Body::Stored { length, .. } | Body::Uncaptured { length, .. } => *length,
            Body::Handle(handle) => handle.len() as u64,
        };
        Self {
            class: Some(class_name(outcome.class).to_owned()),
            status: outcome.status,
            digest: Some(digest),
            length: Some(length),
            ..Self::default()
        }
    }
}

fn headers(pairs: Vec<(String, String)>) -> Result<Vec<(Arc<str>, Bytes)>, OutcomeError> {
    if pairs.len() > MOST_HEADERS {
        return Err(OutcomeError::Headers { found: pairs.len(), most: MOST_HEADERS });
    }
    let mut kept = Vec::with_capacity(pairs.len());
    for (name, value) in pairs {
        let known = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| OutcomeError::Header)?;
        if value.len() > MOST_HEADER_BYTES || http::HeaderValue::from_bytes(value.as_bytes()).is_err() {
            return Err(OutcomeError::Header);
        }
        if !hapax_http::is_never_stored(&known) {
            kept.push((Arc::from(name), Bytes::from(value)));
        }
    }
    Ok(kept)
}
