//! Tokens that carry a tenant, believed only under a signature that we checked.

use std::fmt;

use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, header};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::Nobody;

/// The longest token that is looked at.
const LONGEST: usize = 16 * 1024;
/// How far the clocks of an issuer and ours may differ.
const LEEWAY_S: u64 = 60;

/// The public keys of an issuer (RFC 7517), and what its tokens must say.
#[derive(Clone)]
pub struct Jwks {
    keys: Vec<Known>,
    issuer: Option<String>,
    audience: Option<String>,
}

#[derive(Clone)]
struct Known {
    id: Option<String>,
    /// The one algorithm the key is for, if it says so.
    algorithm: Option<String>,
    key: PublicKey,
}

#[derive(Clone)]
enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Why a set of keys cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key set is of no use: {0}; give a JWKS with RSA, P-256, P-384 or Ed25519 keys [HX0057]")]
pub struct JwksError(pub String);

impl Jwks {
    /// Reads a key set. Keys of a kind that is not known are left out; none at all is an error.
    pub fn parse(text: &str) -> Result<Self, JwksError> {
        let set: Value = serde_json::from_str(text).map_err(|error| JwksError(error.to_string()))?;
        let listed =
            set.get("keys").and_then(Value::as_array).ok_or_else(|| JwksError("it has no `keys`".to_owned()))?;
        let keys: Vec<Known> = listed.iter().filter_map(known).collect();
        if keys.is_empty() {
            return Err(JwksError("it holds no key for signatures that is known here".to_owned()));
        }
        Ok(Self { keys, issuer: None, audience: None })
    }

    /// Demands that tokens are of this issuer, or for this audience.
    #[must_use]
    pub fn demanding(mut self, issuer: Option<String>, audience: Option<String>) -> Self {
        (self.issuer, self.audience) = (issuer, audience);
        self
    }

    /// The claim of the bearer token in these headers, if all of it can be believed at this time.
    pub(super) fn claim(&self, headers: &HeaderMap, claim: &str, now_s: u64) -> Result<String, Nobody> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let token = match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok().and_then(bearer),
            (_, _) => None,
        };
        let token = token.ok_or(Nobody("a bearer token is needed, exactly one"))?;
        let claims = self.verified(token).ok_or(Nobody("the token's signature does not hold"))?;
        self.current(&claims, now_s)?;
        match claims.get(claim) {
            Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
            Some(Value::Number(number)) if number.is_u64() => Ok(number.to_string()),
            Some(_) | None => Err(Nobody("the token lacks the claim that names the tenant")),
        }
    }

    fn verified(&self, token: &str) -> Option<Value> {
        if token.len() > LONGEST {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (head, claims) = signed.split_once('.')?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).ok()?;
        let head: Value = serde_json::from_slice(&BASE64URL_NOPAD.decode(head.as_bytes()).ok()?).ok()?;
        // Extensions that must be understood are not.
        if head.get("crit").is_some() {
            return None;
        }
        let algorithm = head.get("alg")?.as_str()?;
        let id = head.get("kid").and_then(Value::as_str);
        let fit = |known: &&Known| {
            (id.is_none() || known.id.is_none() || known.id.as_deref() == id)
                && known.algorithm.as_deref().is_none_or(|only| only == algorithm)
        };
        let holds = self.keys.iter().filter(fit).any(|known| known.key.holds(algorithm, signed.as_bytes(), &signature));
        if !holds {
            return None;
        }
        serde_json::from_slice(&BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?).ok()
    }

    fn current(&self, claims: &Value, now_s: u64) -> Result<(), Nobody> {
        // A token without an end would be believed for ever.
        let end = claims.get("exp").and_then(seconds).ok_or(Nobody("the token does not say when it ends"))?;
        if end.saturating_add(LEEWAY_S) < now_s {
            return Err(Nobody("the token has ended"));
        }
        if claims.get("nbf").and_then(seconds).is_some_and(|start| start > now_s.saturating_add(LEEWAY_S)) {
            return Err(Nobody("the token is not valid yet"));
        }
        if self.issuer.is_some() && claims.get("iss").and_then(Value::as_str) != self.issuer.as_deref() {
            return Err(Nobody("the token is of another issuer"));
        }
        if let Some(wanted) = &self.audience {
            let named = match claims.get("aud") {
                Some(Value::String(one)) => one == wanted,
                Some(Value::Array(many)) => many.iter().any(|one| one.as_str() == Some(wanted)),
                Some(_) | None => false,
            };
            if !named {
                return Err(Nobody("the token is for another audience"));
            }
        }
        Ok(())
    }
}

fn seconds(value: &Value) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a second does not matter"
    )]
    value.as_u64().or_else(|| value.as_f64().filter(|seconds| *seconds >= 0.0).map(|seconds| seconds as u64))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn known(key: &Value) -> Option<Known> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| BASE64URL_NOPAD.decode(text(name)?.as_bytes()).ok();
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let point = |size: usize| {
        let (x, y) = (bytes("x")?, bytes("y")?);
        (x.len() == size && y.len() == size).then(|| [vec![4], x, y].concat())
    };
    let public = match (text("kty")?, text("crv")) {
        ("RSA", _) => PublicKey::Rsa { n: bytes("n")?, e: bytes("e")? },
        ("EC", Some("P-256")) => PublicKey::P256(point(32)?),
        ("EC", Some("P-384")) => PublicKey::P384(point(48)?),
        ("OKP", Some("Ed25519")) => PublicKey::Ed25519(bytes("x")?),
        // Symmetric keys among them: whoever can check such a token can forge it.
        (_, _) => return None,
    };
    Some(Known { id: text("kid").map(str::to_owned), algorithm: text("alg").map(str::to_owned), key: public })
}

impl PublicKey {
    /// The key's kind decides which algorithms are thought of; the token only picks among them.
    fn holds(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        let rsa = |parameters: &'static RsaParameters, n: &[u8], e: &[u8]| {
            RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature).is_ok()
        };
        match (self, algorithm) {
            (Self::Rsa { n, e }, "RS256") => rsa(&RSA_PKCS1_2048_8192_SHA256, n, e),
            (Self::Rsa { n, e }, "RS384") => rsa(&RSA_PKCS1_2048_8192_SHA384, n, e),
            (Self::Rsa { n, e }, "RS512") => rsa(&RSA_PKCS1_2048_8192_SHA512, n, e),
            (Self::Rsa { n, e }, "PS256") => rsa(&RSA_PSS_2048_8192_SHA256, n, e),
            (Self::Rsa { n, e }, "PS384") => rsa(&RSA_PSS_2048_8192_SHA384, n, e),
            (Self::Rsa { n, e }, "PS512") => rsa(&RSA_PSS_2048_8192_SHA512, n, e),
            (Self::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
            }
            (Self::P384(point), "ES384") => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(signed, signature).is_ok()
            }
            (Self::Ed25519(key), "EdDSA" | "Ed25519") => {
                UnparsedPublicKey::new(&ED25519, key).verify(signed, signature).is_ok()
            }
            (Self::Rsa { .. } | Self::P256(_) | Self::P384(_) | Self::Ed25519(_), _) => false,
        }
    }
}

impl fmt::Debug for Jwks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwks").field("keys", &self.keys.len()).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use ring::{
        rand::SystemRandom,
        signature::{Ed25519KeyPair, KeyPair as _},
    };
    use serde_json::json;

    use super::*;

    struct Issuer(Ed25519KeyPair);

    impl Issuer {
        fn new() -> Self {
            let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
            Self(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
        }

        fn keys(&self) -> Jwks {
            let x = BASE64URL_NOPAD.encode(self.0.public_key().as_ref());
            Jwks::parse(
                &json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "k1"}, {"kty": "oct", "k": "AAAA"}]})
                    .to_string(),
            )
            .unwrap()
        }

        fn token(&self, head: &Value, claims: &Value) -> String {
            let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
            let signed = format!("{}.{}", part(head), part(claims));
            let signature = BASE64URL_NOPAD.encode(self.0.sign(signed.as_bytes()).as_ref());
            format!("{signed}.{signature}")
        }
    }

    fn claim(keys: &Jwks, token: &str) -> Result<String, Nobody> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
        keys.claim(&headers, "org", 1_000_000)
    }

    #[test]
    fn only_what_the_issuer_signed_is_believed() {
        let (issuer, stranger) = (Issuer::new(), Issuer::new());
        let keys = issuer.keys();
        let head = json!({"alg": "EdDSA", "kid": "k1"});
        let claims = json!({"org": "acme", "exp": 1_000_100});
        let good = issuer.token(&head, &claims);
        assert_eq!(claim(&keys, &good).unwrap(), "acme");
        assert!(claim(&keys, &stranger.token(&head, &claims)).is_err());
        // Not signed at all, signed with the public key as if it were a secret, or altered.
        for alg in ["none", "HS256", "RS256", "ES256"] {
            assert!(claim(&keys, &issuer.token(&json!({"alg": alg}), &claims)).is_err(), "{alg}");
        }
        assert!(claim(&keys, good.rsplit_once('.').unwrap().0).is_err());
        assert!(claim(&keys, &format!("{}.", good.rsplit_once('.').unwrap().0)).is_err());
        let forged = BASE64URL_NOPAD.encode(json!({"org": "other", "exp": 1_000_100}).to_string().as_bytes());
        let mut parts = good.split('.');
        let altered = format!("{}.{forged}.{}", parts.next().unwrap(), parts.nth(1).unwrap());
        assert!(claim(&keys, &altered).is_err());
        assert!(claim(&keys, &issuer.token(&json!({"alg": "EdDSA", "kid": "k2"}), &claims)).is_err());
        assert!(claim(&keys, &issuer.token(&json!({"alg": "EdDSA", "crit": ["x"]}), &claims)).is_err());
    }

    #[test]
    fn a_token_is_believed_in_its_time_and_for_us_only() {
        let issuer = Issuer::new();
        let keys = issuer.keys().demanding(Some("https://id".to_owned()), Some("hapax".to_owned()));
        let head = json!({"alg": "EdDSA"});
        let good = json!({"org": "acme", "exp": 1_000_100, "nbf": 999_000, "iss": "https://id", "aud": ["x", "hapax"]});
        assert_eq!(claim(&keys, &issuer.token(&head, &good)).unwrap(), "acme");
        for (name, value) in [
            ("exp", json!(999_000)),
            ("exp", json!(null)),
            ("nbf", json!(1_001_000)),
            ("iss", json!("https://other")),
            ("aud", json!("other")),
            ("org", json!("")),
            ("org", json!(["a"])),
        ] {
            let mut claims = good.clone();
            claims[name] = value;
            assert!(claim(&keys, &issuer.token(&head, &claims)).is_err(), "{name}");
        }
    }
}
