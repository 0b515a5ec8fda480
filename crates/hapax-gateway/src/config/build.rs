//! From what a file says to what runs.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use hapax_core::{
    Effect,
    identity::{KeySource, Secret, Surface, Tenant},
    policy::KeyRules,
};
use hapax_engine::Engine;
use hapax_http::{Dialect, Guard, Rules, RulesError};
use rustls::ClientConfig;

use super::{Config, RouteRules, TenantChoice, Upstream};
use crate::{
    forward::Forwarder,
    inbound::TlsProblem,
    outbound::{Pool, client_tls},
    reauthorize::Reauthorize,
    route::{HostHeader, Route},
    setup::Setup,
    tenant::{Credential, Jwks, JwksError, Whose},
};

/// What the gateway keeps to itself.
#[derive(Clone, Debug)]
pub struct Secrets {
    /// Under which credentials are digested. Whoever changes it makes strangers of all callers.
    pub tenants: Secret,
}

/// Why a setup cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    #[error("there is no upstream; give `--upstream URL`, or `upstream` under [gateway] [HX0050]")]
    NoUpstream,
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Tls(#[from] TlsProblem),
    #[error(transparent)]
    Jwks(#[from] JwksError),
    #[error("the tenant `{0}` is no name: {1} [HX0001]")]
    Tenant(String, hapax_core::identity::ScopeError),
    #[error("`{0}` is no header name, so no tenant can be read from it [HX0050]")]
    HeaderName(String),
}

/// The surface of routes that name none.
const SURFACE: &str = "http";

impl Config {
    /// Builds what runs. Connections to upstreams that stay as they are stay too.
    pub fn build(&self, engine: &Engine, secrets: &Secrets, before: Option<&Setup>) -> Result<Setup, SetupError> {
        let mut pools = Pools { before, roots: BTreeMap::new(), made: Vec::new() };
        let mut upstreams = BTreeMap::new();
        for (name, upstream) in &self.upstreams {
            upstreams.insert(name.as_str(), (pools.pool(upstream)?, upstream.host));
        }
        let otherwise = upstreams.get(Self::DEFAULT).ok_or(SetupError::NoUpstream)?;
        let mut routes = Vec::new();
        for rules in &self.routes {
            let (pool, host) = match &rules.upstream {
                Some(name) => upstreams.get(name.as_str()).ok_or(SetupError::NoUpstream)?,
                None => otherwise,
            };
            routes.push(Arc::new(route(engine, rules, Arc::clone(pool), *host)?));
        }
        let mut egress = Vec::new();
        for (name, place) in &self.egress {
            let prefix = format!("/egress/{name}");
            let rules = match self.providers.of(name) {
                Some(provider) => standard()?.provider(Arc::clone(provider)),
                None => standard()?,
            };
            let guard = Guard::new(engine.clone(), rules)?;
            let (pool, outside) = (pools.pool(place)?, Some(name.clone()));
            let route = Route { pattern: None, guard, protect: true, pool, host: place.host, prefix, outside };
            egress.push((name.clone(), Arc::new(route)));
        }
        let otherwise = Route {
            pattern: None,
            guard: Guard::new(engine.clone(), standard()?)?,
            protect: true,
            pool: Arc::clone(&otherwise.0),
            host: otherwise.1,
            prefix: String::new(),
            outside: None,
        };
        Ok(Setup {
            routes,
            otherwise: Arc::new(otherwise),
            egress,
            whose: self.whose(secrets)?,
            forwarder: Forwarder { trusted: self.trusted_proxies.clone() },
            body: self.limits.body,
            pools: pools.made,
        })
    }

    fn whose(&self, secrets: &Secrets) -> Result<Whose, SetupError> {
        Ok(match &self.tenant {
            TenantChoice::Credential => {
                Whose::Credential(Credential::new(secrets.tenants.clone(), self.cookies.clone()))
            }
            TenantChoice::Header(name) => Whose::Header {
                name: name.parse().map_err(|_| SetupError::HeaderName(name.clone()))?,
                trusted: self.trusted_proxies.clone(),
            },
            TenantChoice::Jwt(claim) => {
                let path = self.jwks.as_deref().unwrap_or_else(|| Path::new(""));
                let text = std::fs::read_to_string(path)
                    .map_err(|error| JwksError(format!("{} cannot be read ({error})", path.display())))?;
                let keys = Jwks::parse(&text)?.demanding(self.issuer.clone(), self.audience.clone());
                Whose::Jwt { claim: claim.as_str().into(), keys: Arc::new(keys) }
            }
            TenantChoice::Fixed(name) => {
                Whose::Fixed(Tenant::new(name).map_err(|error| SetupError::Tenant(name.clone(), error))?)
            }
        })
    }
}

fn standard() -> Result<Rules, SetupError> {
    Ok(Rules::on(Surface::new(SURFACE).map_err(RulesError::from)?).dialect(Dialect::Ietf).effect(Effect::Unsafe))
}

fn route(engine: &Engine, rules: &RouteRules, pool: Arc<Pool>, host: HostHeader) -> Result<Route, SetupError> {
    let surface = Surface::new(rules.surface.as_deref().unwrap_or(SURFACE)).map_err(RulesError::from)?;
    let headers = rules.key_headers.iter().map(|name| KeySource::Header(name.clone())).collect::<Vec<_>>();
    let mut guarded = Rules::on(surface).dialect(rules.dialect).effect(rules.effect).key(KeyRules {
        source: Some(headers).filter(|headers| !headers.is_empty()),
        required: rules.key_required,
        ..KeyRules::default()
    });
    if let Some(most) = rules.request_body {
        guarded = guarded.limits(hapax_http::Limits { request_body: most, ..hapax_http::Limits::default() });
    }
    if let Some(path) = &rules.reauthorize {
        guarded = guarded.authorize(Reauthorize::new(Arc::clone(&pool), path, host));
    }
    let guard = Guard::new(engine.clone(), guarded)?;
    let pattern = Some(rules.pattern.clone());
    Ok(Route { pattern, guard, protect: rules.protect, pool, host, prefix: String::new(), outside: None })
}

/// Makes each pool once, and takes over those that were there.
struct Pools<'s> {
    before: Option<&'s Setup>,
    /// By the file of roots.
    roots: BTreeMap<Option<std::path::PathBuf>, Arc<ClientConfig>>,
    made: Vec<(Upstream, Arc<Pool>)>,
}

impl Pools<'_> {
    fn pool(&mut self, upstream: &Upstream) -> Result<Arc<Pool>, SetupError> {
        let known = self.before.map(|setup| setup.pools.as_slice()).unwrap_or_default();
        if let Some((_, pool)) = self.made.iter().chain(known).find(|(same, _)| same == upstream) {
            let pool = Arc::clone(pool);
            self.made.push((upstream.clone(), Arc::clone(&pool)));
            return Ok(pool);
        }
        let tls = if upstream.target.tls { Some(self.tls(upstream)?) } else { None };
        let pool = Pool::new(upstream.target.clone(), upstream.protocol, upstream.timing.clone(), tls.as_ref());
        self.made.push((upstream.clone(), Arc::clone(&pool)));
        Ok(pool)
    }

    fn tls(&mut self, upstream: &Upstream) -> Result<Arc<ClientConfig>, TlsProblem> {
        if let Some(known) = self.roots.get(&upstream.ca) {
            return Ok(Arc::clone(known));
        }
        let config = client_tls(upstream.ca.as_deref())?;
        self.roots.insert(upstream.ca.clone(), Arc::clone(&config));
        Ok(config)
    }
}
