//! From what a file says to what runs.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use hapax_core::{
    Effect, Millis,
    identity::{KeySource, Secret, Surface, Tenant},
    policy::KeyRules,
};
use hapax_engine::{Engine, Policies};
use hapax_http::{Dialect, Guard, Rules, RulesError};
use http::HeaderName;
use rustls::ClientConfig;

use super::{Config, RouteRules, TenantChoice, Upstream};
use crate::{
    buffered::Room,
    forward::Forwarder,
    inbound::TlsProblem,
    outbound::{Pool, client_tls},
    reauthorize::Reauthorize,
    route::{HostHeader, Route},
    routing::Routing,
    setup::Setup,
    tenant::{Credential, Jwks, JwksError, Whose},
    trouble::Trouble,
    upload::Pacing,
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
    ///
    /// `policies` are those that will be in force with it: the engine may still have others.
    pub fn build(
        &self,
        engine: &Engine,
        policies: &Policies,
        secrets: &Secrets,
        before: Option<&Setup>,
    ) -> Result<Setup, SetupError> {
        let forwarder = Forwarder { trusted: self.trusted_proxies.clone(), telling: self.telling(policies)? };
        let trouble = before.map_or_else(Arc::default, |before| Arc::clone(&before.trouble));
        let whose = self.whose(secrets)?;
        let guarding = Guarding {
            engine,
            policies,
            forwarder: &forwarder,
            whose: &whose,
            trouble: &trouble,
            secret: &self.secret_headers,
        };
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
            routes.push(Arc::new(guarding.route(rules, Arc::clone(pool), *host)?));
        }
        let mut egress = Vec::new();
        for (name, place) in &self.egress {
            let prefix = format!("/egress/{name}");
            let rules = match self.providers.of(name) {
                Some(provider) => standard()?.provider(Arc::clone(provider)),
                None => standard()?,
            };
            let (pool, outside) = (pools.pool(place)?, Some(name.clone()));
            let guard = guarding.guard(rules, pool.timing.whole)?;
            let route = Route {
                pattern: None,
                guard,
                protect: true,
                reauthorizes: false,
                first_byte: pool.timing.first_byte,
                whole: pool.timing.whole,
                pool,
                host: place.host,
                prefix,
                outside,
            };
            egress.push((name.clone(), Arc::new(route)));
        }
        let otherwise = Route {
            pattern: None,
            guard: guarding.guard(standard()?, otherwise.0.timing.whole)?,
            protect: true,
            reauthorizes: false,
            first_byte: otherwise.0.timing.first_byte,
            whole: otherwise.0.timing.whole,
            pool: Arc::clone(&otherwise.0),
            host: otherwise.1,
            prefix: String::new(),
            outside: None,
        };
        let apart = format!("{:?}", (&self.tenant, &self.cookies, &self.issuer, &self.audience));
        let mut revisions: Vec<_> =
            policies.iter().map(|(surface, policy)| (surface.as_str(), policy.revision)).collect();
        revisions.sort_unstable();
        let revisions = (policies.standard().revision, revisions);
        Ok(Setup {
            routing: Arc::new(Routing {
                routes,
                otherwise: Arc::new(otherwise),
                egress,
                whose,
                apart: apart.as_str().into(),
                names: format!("{apart} {:?} {:?} {revisions:?}", self.routes, self.egress).into(),
            }),
            earlier: Vec::new(),
            forwarder,
            pacing: Pacing { pause: self.limits.body_pause, body: self.limits.body },
            room: before.map_or_else(|| Room::new(self.limits.buffered_bytes), |before| Arc::clone(&before.room)),
            answers: before.map_or_else(|| Room::new(self.limits.buffered_bytes), |before| Arc::clone(&before.answers)),
            trouble,
            pools: pools.made,
        })
    }

    /// The headers from which tenants and keys are read because this file says so.
    fn telling(&self, policies: &Policies) -> Result<Arc<[HeaderName]>, SetupError> {
        let tenant = match &self.tenant {
            TenantChoice::Header(name) => Some(name.as_str()),
            TenantChoice::Credential | TenantChoice::Jwt(_) | TenantChoice::Fixed(_) => None,
        };
        let mut names: Vec<HeaderName> = tenant.into_iter().filter_map(|name| name.parse().ok()).collect();
        names.extend(self.routes.iter().flat_map(|route| &route.key_headers).filter_map(|name| name.parse().ok()));
        let surfaces = self.routes.iter().filter_map(|route| route.surface.as_deref()).chain([SURFACE]);
        for surface in surfaces {
            let policy = policies.of(&Surface::new(surface).map_err(RulesError::from)?);
            let headers = policy.key.source.iter().flatten().filter_map(|source| match source {
                KeySource::Header(name) => name.parse().ok(),
                KeySource::Query(_) | KeySource::JsonPointer(_) | KeySource::Template(_) | KeySource::Automatic => None,
                // A source that this version does not know is no header to it.
                _ => None,
            });
            names.extend(headers);
        }
        Ok(names.into())
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

/// What the routes of one setup have in common.
struct Guarding<'s> {
    engine: &'s Engine,
    policies: &'s Policies,
    forwarder: &'s Forwarder,
    whose: &'s Whose,
    trouble: &'s Arc<Trouble>,
    /// The headers that are never stored.
    secret: &'s [HeaderName],
}

impl Guarding<'_> {
    /// Nothing is waited for after the upstream's time is over, so nobody is told after it that something runs.
    fn guard(&self, rules: Rules, whole: Duration) -> Result<Guard, RulesError> {
        let trouble = Arc::clone(self.trouble);
        let rules = self.secret.iter().cloned().fold(rules, Rules::secret_header);
        let rules = rules.max_attempt(Millis::from_std(whole)).on_trouble(move |error| trouble.met(error));
        Guard::under(self.engine.clone(), rules, self.policies)
    }

    fn route(&self, rules: &RouteRules, pool: Arc<Pool>, host: HostHeader) -> Result<Route, SetupError> {
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
            let keys = rules.key_headers.iter().filter_map(|name| name.parse().ok()).collect();
            let (forwarder, whose) = (self.forwarder.clone(), self.whose.clone());
            let asking = Reauthorize::new(Arc::clone(&pool), path, host, forwarder, whose, keys);
            guarded = guarded.authorize(asking);
        }
        let whole = rules.whole.unwrap_or(pool.timing.whole);
        Ok(Route {
            pattern: Some(rules.pattern.clone()),
            guard: self.guard(guarded, whole)?,
            protect: rules.protect,
            reauthorizes: rules.reauthorize.is_some(),
            first_byte: rules.first_byte.unwrap_or(pool.timing.first_byte),
            whole,
            pool,
            host,
            prefix: String::new(),
            outside: None,
        })
    }
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
