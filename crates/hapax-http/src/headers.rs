//! Which headers of an answer are recorded.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Policy, meaning::Answers};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Without these nobody can read the body, so they are kept whatever a list says.
const ALWAYS: [HeaderName; 2] = [header::CONTENT_TYPE, header::CONTENT_ENCODING];

/// What an answer means to its caller, and nothing about the caller, the connection or the moment.
const BY_DEFAULT: [HeaderName; 12] = [
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
    header::LOCATION,
    header::RETRY_AFTER,
    header::VARY,
];

/// Of one connection only (RFC 9110, 7.6.1), or made anew for each answer.
const OF_THE_CONNECTION: [&str; 11] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A cookie is a credential: replayed, it would log somebody in.
const CREDENTIALS: [&str; 2] = ["set-cookie", "set-cookie2"];

/// Which headers are recorded.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    which: Which,
    secret: Vec<HeaderName>,
}

#[derive(Clone, Debug)]
enum Which {
    All,
    These(Vec<HeaderName>),
}

impl Kept {
    pub(crate) fn by(policy: &Policy, secret: &[HeaderName]) -> Self {
        let named = policy.capture.headers.iter().filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok());
        let which = match (policy.capture.headers.is_empty(), policy.answers) {
            (false, _) => Which::These(named.chain(ALWAYS).collect()),
            (true, Answers::Openwop) => Which::All,
            (true, Answers::Standard | Answers::Stripe) => Which::These(BY_DEFAULT.into_iter().chain(ALWAYS).collect()),
        };
        Self { which, secret: secret.to_vec() }
    }

    /// The headers of an answer as they are recorded, in their order.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Vec<(Arc<str>, Bytes)> {
        let kept = headers.iter().filter(|(name, _)| self.keeps(name) && !named_by_connection(headers, name));
        kept.map(|(name, value)| (Arc::from(name.as_str()), Bytes::copy_from_slice(value.as_bytes()))).collect()
    }

    fn keeps(&self, name: &HeaderName) -> bool {
        let never = is_never_stored(name) || self.secret.contains(name);
        !never
            && match &self.which {
                Which::All => true,
                Which::These(names) => names.contains(name),
            }
    }
}

/// Whether no record holds a header of this name, whoever writes it down and whatever a policy says.
#[must_use]
pub fn is_never_stored(name: &HeaderName) -> bool {
    OF_THE_CONNECTION.contains(&name.as_str()) || CREDENTIALS.contains(&name.as_str())
}

/// Whether `Connection` says that this header is meant for the next hop only.
fn named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| {
        value.as_bytes().split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(name.as_ref()))
    })
}

/// The recorded headers, as they are sent again.
pub(crate) fn given_again(recorded: &[(Arc<str>, Bytes)], headers: &mut HeaderMap) {
    for (name, value) in recorded {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_maybe_shared(value.clone());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
}
