use std::fmt;

use hapax_core::identity::{Secret, Tenant};
use http::{HeaderMap, HeaderName, header};

use super::{Nobody, Whose};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The credential of a request as a tenant: a keyed digest, so that neither records nor logs tell the credential.
#[derive(Clone)]
pub struct Credential {
    secret: Secret,
    /// Cookies that are credentials, by name.
    cookies: Vec<String>,
}

impl Credential {
    #[must_use]
    pub const fn new(secret: Secret, cookies: Vec<String>) -> Self {
        Self { secret, cookies }
    }

    pub(super) fn said(&self) -> String {
        let cookies = self.cookies.iter().map(|name| format!(", cookie `{name}`"));
        format!("Authorization, X-Api-Key{}", cookies.collect::<String>())
    }

    /// All credentials count, with their places: taking one away or adding one is another caller.
    pub(super) fn tenant(&self, headers: &HeaderMap) -> Result<Tenant, Nobody> {
        let mut parts: Vec<(&[u8], &[u8])> = Vec::new();
        for name in [header::AUTHORIZATION, API_KEY] {
            for value in headers.get_all(&name) {
                let place: &'static [u8] = if name == API_KEY { b"x-api-key" } else { b"authorization" };
                parts.push((place, value.as_bytes().trim_ascii()));
            }
        }
        if !self.cookies.is_empty() {
            for (name, value) in headers.get_all(header::COOKIE).iter().flat_map(|line| cookies(line.as_bytes())) {
                if self.cookies.iter().any(|known| known.as_bytes() == name) {
                    parts.push((name, value));
                }
            }
        }
        let name = if parts.is_empty() {
            Whose::ANONYMOUS.to_owned()
        } else {
            format!("credential-{}", self.secret.digest_of("hapax.credential.v1", &parts))
        };
        Tenant::new(&name).map_err(|_| Nobody("the credential has no digest"))
    }
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
        let headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let credential = Credential::new(Secret::new(&[7; 32]).unwrap(), vec!["session".to_owned()]);
        credential.tenant(&headers).unwrap().to_string()
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
