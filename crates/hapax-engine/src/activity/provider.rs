//! What is known about providers: where they take a key, how long it may be, and whether they keep their word about it.

use std::{collections::BTreeMap, sync::Arc};

use hapax_core::Millis;

/// Where a provider takes its idempotency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carrier {
    Header(Arc<str>),
    /// A member of the JSON body, by its pointer.
    Field(Arc<str>),
}

/// One provider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provider {
    pub carrier: Carrier,
    /// The longest key it takes.
    pub most: usize,
    /// How long it remembers a key.
    pub retention: Option<Millis>,
    /// It answers the same key with the same effect for as long as it remembers it. Then a call whose end is unknown may
    /// be made again within that time, whatever its class.
    pub honours: bool,
    /// Answers that it means as *try again*, beyond those that everybody does.
    pub retryable: Vec<u16>,
}

impl Provider {
    /// How long a started attempt may be made again: a twelfth less than the provider remembers, so that a call that is
    /// slow to leave still arrives in time.
    #[must_use]
    pub fn window(&self) -> Option<Millis> {
        let retention = self.retention.filter(|_| self.honours)?;
        Some(Millis(retention.0 - retention.0 / 12))
    }
}

/// Providers by name: the part of a provider key before its first colon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Providers {
    by_name: BTreeMap<String, Arc<Provider>>,
}

/// What is wrong with a file of providers.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    #[error("the providers are not TOML: {0} [HX0092]")]
    NoToml(String),
    #[error("`{place}` {rule} [HX0092]")]
    Wrong { place: String, rule: String },
}

/// Short enough for every provider that is known, long enough that two keys never meet.
const LEAST_KEY: usize = 24;

impl Default for Providers {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Providers {
    /// Stripe, OpenAI, Anthropic and AWS. Only where a provider publishes for how long it honours a key is it marked.
    #[must_use]
    pub fn built_in() -> Self {
        let header = |name: &str, most, retention, honours| {
            let carrier = Carrier::Header(name.into());
            Arc::new(Provider { carrier, most, retention, honours, retryable: Vec::new() })
        };
        let stripe = Provider {
            // A lock conflict of two calls with one key: the other one is still running.
            retryable: vec![409],
            ..Provider::clone(&header("Idempotency-Key", 255, Some(Millis::from_hours(24)), true))
        };
        let by_name = [
            ("stripe", Arc::new(stripe)),
            ("openai", header("Idempotency-Key", 255, None, false)),
            ("anthropic", header("Idempotency-Key", 255, None, false)),
            ("aws", header("X-Amzn-Idempotency-Token", 64, None, false)),
        ];
        Self { by_name: by_name.map(|(name, provider)| (name.to_owned(), provider)).into() }
    }

    /// The built-in ones and those of this file, which may also replace one:
    ///
    /// ```toml
    /// [provider.acme-pay]
    /// header = "X-Request-Id"   # or field = "/request_id"
    /// most = 64
    /// retention = "48h"
    /// honours = true
    /// retryable = [423]
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, ProviderError> {
        let root: toml::Table =
            text.parse().map_err(|error: toml::de::Error| ProviderError::NoToml(error.message().into()))?;
        let mut providers = Self::built_in();
        for (name, value) in &root {
            let Some(table) = value.as_table().filter(|_| name == "provider") else {
                return Err(wrong(name, "is not known here; providers stand under `[provider.NAME]`"));
            };
            for (name, value) in table {
                let provider = read(name, value)?;
                providers.by_name.insert(name.clone(), Arc::new(provider));
            }
        }
        Ok(providers)
    }

    #[must_use]
    pub fn with(mut self, name: &str, provider: Provider) -> Self {
        self.by_name.insert(name.to_owned(), Arc::new(provider));
        self
    }

    /// The provider of a key such as `stripe:create-charge`.
    #[must_use]
    pub fn of(&self, provider_key: &str) -> Option<&Arc<Provider>> {
        let name = provider_key.split(':').next().unwrap_or(provider_key);
        self.by_name.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }
}

fn wrong(place: &str, rule: impl Into<String>) -> ProviderError {
    ProviderError::Wrong { place: place.to_owned(), rule: rule.into() }
}

fn read(name: &str, value: &toml::Value) -> Result<Provider, ProviderError> {
    let toml::Value::Table(table) = value else {
        return Err(wrong(&format!("provider.{name}"), "is no table; write `[provider.NAME]`"));
    };
    if name.is_empty() || name.contains(':') {
        return Err(wrong(&format!("provider.{name}"), "holds a colon or is empty; a name is what stands before it"));
    }
    let mut provider = Provider {
        carrier: Carrier::Header("Idempotency-Key".into()),
        most: 255,
        retention: None,
        honours: false,
        retryable: Vec::new(),
    };
    for (knob, value) in table {
        let place = format!("provider.{name}.{knob}");
        match (knob.as_str(), value) {
            ("header", toml::Value::String(header)) => {
                let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                if header.is_empty() || !header.bytes().all(token) {
                    return Err(wrong(&place, "is no header name"));
                }
                provider.carrier = Carrier::Header(header.as_str().into());
            }
            ("field", toml::Value::String(pointer)) => {
                if !pointer.starts_with('/') {
                    return Err(wrong(&place, "is no JSON pointer; write one such as \"/client_token\""));
                }
                provider.carrier = Carrier::Field(pointer.as_str().into());
            }
            ("most", toml::Value::Integer(most)) => {
                let most = usize::try_from(*most).ok().filter(|most| *most >= LEAST_KEY);
                provider.most =
                    most.ok_or_else(|| wrong(&place, format!("is less than {LEAST_KEY}, too few to tell keys apart")))?;
            }
            ("retention", toml::Value::String(length)) => {
                provider.retention = Some(crate::policy_file::length(length).map_err(|rule| wrong(&place, rule))?);
            }
            ("honours", toml::Value::Boolean(honours)) => provider.honours = *honours,
            ("retryable", toml::Value::Array(statuses)) => {
                for status in statuses {
                    let status = status.as_integer().and_then(|status| u16::try_from(status).ok());
                    let status = status.filter(|status| (400..600).contains(status));
                    provider
                        .retryable
                        .push(status.ok_or_else(|| wrong(&place, "holds no HTTP status from 400 to 599"))?);
                }
            }
            _ => {
                let rule =
                    "is unknown or of the wrong type; there are header, field, most, retention, honours, retryable";
                return Err(wrong(&place, rule));
            }
        }
    }
    if table.contains_key("header") && table.contains_key("field") {
        return Err(wrong(&format!("provider.{name}"), "has both `header` and `field`; keep one"));
    }
    if provider.honours && provider.retention.is_none() {
        return Err(wrong(
            &format!("provider.{name}.honours"),
            "needs `retention`: for how long does it honour a key?",
        ));
    }
    Ok(provider)
}
