//! What the gateway itself refuses, before any route has a say.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

/// A problem document (RFC 9457). Nothing was begun.
pub(crate) fn refusal(status: StatusCode, code: &str, detail: &str) -> Response<Bytes> {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Refused"),
        "status": status.as_u16(),
        "code": code,
        "detail": detail,
        "next_action": "fix_request",
        "safe_new_key": true,
    });
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    // Whatever else such a connection carries is not read.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
