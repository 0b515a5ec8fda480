//! Headers that belong to one connection.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::tenant::{API_KEY, ELSEWHERE};

static OF_ONE_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    KEEP_ALIVE,
    PROXY_CONNECTION,
];

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// What a request has of it besides.
static OF_REQUESTS: [HeaderName; 3] = [header::TE, HTTP2_SETTINGS, header::EXPECT];

/// What nobody may have removed by naming it in `Connection`: it says where a request goes, how long it is, what it is,
/// whose it is, and which one. Taken out here, it would be another request for the upstream than it is for us. What besides
/// carries keys and tenants a setup knows.
static NOT_BY_NAME: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::AUTHORIZATION,
    header::COOKIE,
    API_KEY,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-idempotency-key"),
];

pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// Leaves what is meant for the upstream. `telling` are the headers that tell us whose a request is and which one, besides
/// the usual ones.
pub(super) fn strip_request(headers: &mut HeaderMap, telling: &[HeaderName]) {
    // The only transfer coding a request may wish for beyond the hop.
    let trailers = headers.get(header::TE).is_some_and(|value| {
        value.as_bytes().split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    });
    strip(headers, telling);
    // We have said "continue" ourselves.
    remove_all(headers, &OF_REQUESTS);
    // The length is that of the body we send.
    headers.remove(header::CONTENT_LENGTH);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Leaves what is meant for the client. Whether the body's length may still be told is the server's affair.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    strip(headers, &[]);
}

fn strip(headers: &mut HeaderMap, telling: &[HeaderName]) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
            .filter(|name| ![&NOT_BY_NAME[..], &ELSEWHERE, telling].iter().any(|kept| kept.contains(name)))
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    remove_all(headers, &OF_ONE_HOP);
}

/// Mostly none of them is there, which a look at the names says sooner than a search for each.
pub(super) fn remove_all(headers: &mut HeaderMap, names: &[HeaderName]) {
    if headers.keys().any(|name| names.contains(name)) {
        for name in names {
            headers.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_belongs_to_the_connection_stays_on_it() {
        let mut sent = headers(&[
            ("host", "a"),
            ("connection", "close, X-Secret-Hop ,te"),
            ("x-secret-hop", "1"),
            ("keep-alive", "5"),
            ("te", "gzip, Trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("http2-settings", "x"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ]);
        strip_request(&mut sent, &[]);
        assert_eq!(sent, headers(&[("host", "a"), ("accept", "*/*"), ("te", "trailers")]));
    }

    /// Naming the credential in `Connection` would send the request on as nobody's.
    #[test]
    fn nobody_strips_a_credential_or_a_length_by_naming_it() {
        let mut sent = headers(&[
            ("connection", "authorization, host, cookie, X-Api-Key, idempotency-key, x-tenant, x-mine"),
            ("host", "a"),
            ("authorization", "b"),
            ("cookie", "c"),
            ("x-api-key", "d"),
            ("idempotency-key", "e"),
            ("x-tenant", "f"),
            ("x-mine", "g"),
        ]);
        strip_request(&mut sent, &[HeaderName::from_static("x-tenant")]);
        assert!(sent.len() == 6 && !sent.contains_key("x-mine"), "{sent:?}");
    }
}
