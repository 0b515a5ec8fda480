use std::fmt;

use hapax_core::identity::{Secret, Tenant};
use http::{HeaderMap, HeaderName, Uri, header};

use super::{Nobody, Whose, seen::Seen};

pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Where else credentials are found. They count only where there is none of the usual ones: some of them are made anew
/// for each session, and a retry under a new one would be a stranger's.
pub(crate) static ELSEWHERE: [HeaderName; 5] = [
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("private-token"),
    HeaderName::from_static("ocp-apim-subscription-key"),
];
const IN_QUERY: [&str; 7] = ["api_key", "apikey", "api-key", "access_token", "auth_token", "token", "key"];

/// The credential of a request as a tenant: a keyed digest, so that neither records nor logs tell the credential.
pub struct Credential {
    secret: Secret,
    /// Cookies that are credentials, by name.
    cookies: Vec<String>,
    /// Under this secret, with these cookies.
    seen: Seen,
}

/// The copy has seen nobody: credentials are not kept for longer than what is in force.
impl Clone for Credential {
    fn clone(&self) -> Self {
        Self::new(self.secret.clone(), self.cookies.clone())
    }
}

impl Credential {
    #[must_use]
    pub fn new(secret: Secret, cookies: Vec<String>) -> Self {
        Self { secret, cookies, seen: Seen::default() }
    }

    pub(super) fn said(&self) -> String {
        let cookies = self.cookies.iter().map(|name| format!(", cookie `{name}`"));
        format!("Authorization, X-Api-Key{}", cookies.collect::<String>())
    }

    /// All credentials count, with their places: taking one away or adding one is another caller.
    ///
    /// Where nobody has named a cookie and a request shows nothing else, all of its cookies count: taken for a
    /// stranger, a customer's retry runs a second time; taken for another, it is handed that one's answer.
    pub(super) fn tenant(&self, headers: &HeaderMap, uri: &Uri) -> Result<Tenant, Nobody> {
        let mut parts: Vec<(&[u8], &[u8])> = Vec::new();
        for name in [header::AUTHORIZATION, API_KEY] {
            for value in headers.get_all(&name) {
                let place: &'static [u8] = if name == API_KEY { b"x-api-key" } else { b"authorization" };
                // Nothing is no credential: who sends one is nobody in particular.
                parts.extend(Some((place, value.as_bytes().trim_ascii())).filter(|(_, value)| !value.is_empty()));
            }
        }
        if !self.cookies.is_empty() {
            for (name, value) in headers.get_all(header::COOKIE).iter().flat_map(|line| cookies(line.as_bytes())) {
                if !value.is_empty() && self.cookies.iter().any(|known| known.as_bytes() == name) {
                    parts.push((name, value));
                }
            }
        }
        if parts.is_empty() {
            parts = elsewhere(headers, uri);
        }
        let mut kind = "credential-";
        if parts.is_empty() && self.cookies.is_empty() {
            kind = Whose::BY_ALL_COOKIES;
            parts = headers.get_all(header::COOKIE).iter().flat_map(|line| cookies(line.as_bytes())).collect();
            // Browsers promise no order.
            parts.sort_unstable();
        }
        self.seen.tenant(kind, &parts, || {
            let name = if parts.is_empty() {
                Whose::ANONYMOUS.to_owned()
            } else {
                [kind, &self.secret.digest_of("hapax.credential.v1", &parts)].concat()
            };
            Tenant::new(&name).map_err(|_| Nobody("the credential has no digest"))
        })
    }
}

fn elsewhere<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Vec<(&'r [u8], &'r [u8])> {
    let in_headers = ELSEWHERE.iter().flat_map(|name| {
        headers.get_all(name).iter().map(|value| (name.as_str().as_bytes(), value.as_bytes().trim_ascii()))
    });
    let query = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let in_query = query.filter(|(name, _)| IN_QUERY.iter().any(|known| name.eq_ignore_ascii_case(known)));
    let all = in_headers.chain(in_query.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    all.filter(|(_, value)| !value.is_empty()).collect()
}

fn cookies(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|byte| *byte == b';').filter_map(|pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((pair.get(..at)?.trim_ascii(), pair.get(at + 1..)?.trim_ascii()))
    })
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("cookies", &self.cookies).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn tenant(lines: &[(&'static str, &'static str)]) -> String {
        tenant_at("/pay", lines, &["session"])
    }

    fn tenant_at(uri: &'static str, lines: &[(&'static str, &'static str)], cookies: &[&str]) -> String {
        let headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let cookies = cookies.iter().map(|name| (*name).to_owned()).collect();
        let credential = Credential::new(Secret::new(&[7; 32]).unwrap(), cookies);
        credential.tenant(&headers, &Uri::from_static(uri)).unwrap().to_string()
    }

    /// A shop whose customers have nothing but a session cookie, a token in a header of its own, or a key in the query,
    /// and an operator who has set nothing up: they are strangers all the same.
    #[test]
    fn customers_who_show_something_unusual_are_strangers_too() {
        let (cookie, token) = ("cookie", "x-auth-token");
        let others = [
            tenant_at("/pay", &[(cookie, "sid=a; theme=dark")], &[]),
            tenant_at("/pay", &[(cookie, "sid=b; theme=dark")], &[]),
            tenant_at("/pay", &[(token, "a")], &[]),
            tenant_at("/pay", &[(token, "b")], &[]),
            tenant_at("/pay?api_key=a", &[], &[]),
            tenant_at("/pay?x=1&API_KEY=b", &[], &[]),
            tenant_at("/pay?x=1", &[], &[]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(!others[..at].contains(other), "{at}");
        }
        assert_eq!(others[0], tenant_at("/pay", &[(cookie, "theme=dark; sid=a")], &[]));
        assert!(others[0].starts_with(Whose::BY_ALL_COOKIES));
        assert_eq!(others[6], Whose::ANONYMOUS);
        // Whoever shows a usual credential is known by it, and what changes beside it makes no stranger.
        let usual = [("authorization", "Bearer a")];
        assert_eq!(
            tenant_at("/pay", &usual, &[]),
            tenant_at("/pay?token=x", &[usual[0], (cookie, "a=b"), (token, "y")], &[])
        );
        // Whoever has named the cookies that count has said that the others do not.
        assert_eq!(tenant_at("/pay", &[(cookie, "theme=dark")], &["session"]), Whose::ANONYMOUS);
    }

    #[test]
    fn different_credentials_are_strangers_and_the_digest_tells_nothing() {
        let one = tenant(&[("authorization", "Bearer sk_live_1")]);
        assert_eq!(one, tenant(&[("authorization", "Bearer sk_live_1"), ("cookie", "theme=dark")]));
        assert!(!one.contains("sk_live"));
        let others = [
            tenant(&[("authorization", "Bearer sk_live_2")]),
            tenant(&[("x-api-key", "Bearer sk_live_1")]),
            tenant(&[("authorization", "Bearer sk_live_1"), ("x-api-key", "a")]),
            tenant(&[("authorization", "Bearer sk_live_1"), ("cookie", "theme=dark; session=a")]),
            tenant(&[("cookie", "session=a")]),
            tenant(&[("cookie", "session=b")]),
            tenant(&[]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(*other, one);
            assert!(!others[..at].contains(other), "{at}");
        }
        assert_eq!(others[6], Whose::ANONYMOUS);
    }
}
