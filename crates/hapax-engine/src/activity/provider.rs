//! What is known about providers: where they take a key, how long it may be, and whether they keep their word about it.

use std::{collections::BTreeMap, sync::Arc};

use hapax_core::{Effect, Millis, OutcomeClass, activity::answer_class};

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

/// As long as a UUID, which is what those ask for that do not say how long a key may be.
const UUID: usize = 36;
/// The table of a file that holds them.
const PROVIDER: &str = "provider";

/// Short enough for every provider that is known, long enough that two keys never meet.
const LEAST_KEY: usize = 24;

impl Default for Providers {
    fn default() -> Self {
        Self::built_in()
    }
}

impl Providers {
    /// Those that are known. Only where a provider publishes for how long it honours a key is it marked.
    #[must_use]
    pub fn built_in() -> Self {
        let injected =
            |carrier, most| Provider { carrier, most, retention: None, honours: false, retryable: Vec::new() };
        let header = |name: &str, most| injected(Carrier::Header(name.into()), most);
        let honours = |name: &str, most, retention, retryable: &[u16]| Provider {
            retention: Some(retention),
            honours: true,
            retryable: retryable.to_vec(),
            ..header(name, most)
        };
        let day = Millis::from_hours(24);
        let by_name = [
            // 409 is a lock conflict of two calls with one key: the other one is still running.
            ("stripe", honours("Idempotency-Key", 255, day, &[409])),
            ("ppro", honours("Request-Idempotency-Key", UUID, day, &[409])),
            ("checkout", honours("Cko-Idempotency-Key", UUID, day, &[])),
            ("epay", honours("Idempotency-Key", UUID, day, &[])),
            ("truelayer", honours("Idempotency-Key", UUID, Millis::from_days(30), &[])),
            // These say nothing about how long.
            ("square", injected(Carrier::Field("/idempotency_key".into()), 45)),
            ("openai", header("Idempotency-Key", 255)),
            ("anthropic", header("Idempotency-Key", 255)),
            ("aws", header("X-Amzn-Idempotency-Token", 64)),
        ];
        Self { by_name: by_name.map(|(name, provider)| (name.to_owned(), Arc::new(provider))).into() }
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
        if let Some(other) = root.keys().find(|name| *name != PROVIDER) {
            return Err(wrong(other, "is not known here; providers stand under `[provider.NAME]`"));
        }
        Self::of_table(&root)
    }

    /// As [`Providers::from_toml`], from a file that others read as well.
    pub fn beside(text: &str) -> Result<Self, ProviderError> {
        Self::of_table(&text.parse().map_err(|error: toml::de::Error| ProviderError::NoToml(error.message().into()))?)
    }

    fn of_table(root: &toml::Table) -> Result<Self, ProviderError> {
        let mut providers = Self::built_in();
        let Some(given) = root.get(PROVIDER) else { return Ok(providers) };
        let table = given.as_table().ok_or_else(|| wrong(PROVIDER, "is no table; write `[provider.NAME]`"))?;
        for (name, value) in table {
            providers.by_name.insert(name.clone(), Arc::new(read(name, value)?));
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

    /// What an answer of this provider means.
    #[must_use]
    pub fn class_of(&self, provider_key: &str, status: u16, effect: Effect) -> OutcomeClass {
        let retryable = self.of(provider_key).map_or(&[][..], |provider| &provider.retryable);
        answer_class(status, effect, retryable)
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
