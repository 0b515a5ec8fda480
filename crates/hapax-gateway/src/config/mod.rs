//! `hapax.toml`: what the gateway is told, beside the policies.
//!
//! It is read as strictly as the policies are, in the same pass and with the same messages: an unknown name is an error
//! with a suggestion, and a file with anything wrong is refused whole. `docs/gateway.md` has the format.

mod build;
mod place;
mod read;
mod routes;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use hapax_core::Effect;
use hapax_engine::{
    Policies, Providers,
    policy_file::{PolicyFileError, PolicyFileWarning},
};
use hapax_http::Dialect;
use http::HeaderName;

use crate::{
    inbound::{Limits, TlsFiles},
    networks::Networks,
    outbound::{Protocol, Target, Timing},
    pattern::Pattern,
    route::HostHeader,
};

pub use build::{Secrets, SetupError};

/// The top-level tables of the file that are ours.
const TABLES: [&str; 9] =
    ["gateway", "limits", "upstream", "route", "egress", "provider", "server", "a2a", "idempotency"];

/// What a file says; what it leaves out is as without a file.
#[derive(Clone, Debug, Default)]
pub struct Config {
    pub listen: Option<String>,
    pub store: Option<String>,
    /// Where the secret is kept beside a store that lies elsewhere.
    pub data: Option<PathBuf>,
    /// Whether the store must promise to keep what it acknowledged.
    pub demand_durable: bool,
    pub tls: Option<TlsFiles>,
    pub tenant: TenantChoice,
    /// Cookies that are credentials.
    pub cookies: Vec<String>,
    /// Headers of answers that are never stored, whatever the policies keep.
    pub secret_headers: Vec<HeaderName>,
    pub trusted_proxies: Networks,
    pub jwks: Option<PathBuf>,
    pub issuer: Option<String>,
    pub audience: Option<String>,
    pub limits: Limits,
    /// How long live work may go on after the order to stop.
    pub grace: Option<std::time::Duration>,
    /// Where requests go, by name; `default` where a route names none.
    pub upstreams: BTreeMap<String, Upstream>,
    pub routes: Vec<RouteRules>,
    pub egress: BTreeMap<String, Upstream>,
    /// What is known about the places outside, by the same names.
    pub providers: Providers,
}

/// How a request's tenant is found, as it is chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TenantChoice {
    #[default]
    Credential,
    Header(String),
    Jwt(String),
    Fixed(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    pub target: Target,
    pub protocol: Protocol,
    pub ca: Option<PathBuf>,
    pub host: HostHeader,
    pub timing: Timing,
}

impl Upstream {
    #[must_use]
    pub fn at(target: Target) -> Self {
        Self { target, protocol: Protocol::default(), ca: None, host: HostHeader::default(), timing: Timing::default() }
    }
}

/// One `[[route]]`.
#[derive(Clone, Debug)]
pub struct RouteRules {
    pub pattern: Pattern,
    pub surface: Option<String>,
    pub dialect: Dialect,
    pub effect: Effect,
    pub upstream: Option<String>,
    pub key_required: Option<bool>,
    pub key_headers: Vec<String>,
    pub protect: bool,
    pub reauthorize: Option<String>,
    pub request_body: Option<usize>,
    /// Instead of the upstream's: from sending to the head of the answer, and to the end of one that is recorded whole.
    pub first_byte: Option<Duration>,
    pub whole: Option<Duration>,
}

impl TenantChoice {
    /// `credential`, `header:NAME`, `jwt:CLAIM` or `fixed:NAME`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        match (kind, name.is_empty()) {
            ("credential", true) if !text.contains(':') => Ok(Self::Credential),
            ("header", false) => Ok(Self::Header(name.to_owned())),
            ("jwt", false) => Ok(Self::Jwt(name.to_owned())),
            ("fixed", false) => Ok(Self::Fixed(name.to_owned())),
            _ => Err("write `credential`, `header:NAME`, `jwt:CLAIM` or `fixed:NAME`".to_owned()),
        }
    }
}

impl Config {
    /// The name of the upstream where none is named.
    pub const DEFAULT: &'static str = "default";

    /// Without a file: everything goes to one upstream and is protected.
    #[must_use]
    pub fn for_upstream(target: Target) -> Self {
        Self { upstreams: BTreeMap::from([(Self::DEFAULT.to_owned(), Upstream::at(target))]), ..Self::default() }
    }

    /// Reads a file: what the gateway does, and the policies of its surfaces.
    pub fn from_toml(text: &str) -> Result<((Self, Policies), Vec<PolicyFileWarning>), PolicyFileError> {
        let ((policies, config), odd) = Policies::from_toml_beside(text, &TABLES, |root, report| {
            let config = read::config(root, report);
            match Providers::beside(text) {
                Ok(providers) => Self { providers, ..config },
                Err(error) => {
                    let at = root.get_key_value("provider").map_or(0, |(key, _)| key.span().start);
                    report.wrong(at, "", "provider", error.to_string());
                    config
                }
            }
        })?;
        Ok(((config, policies), odd))
    }
}
