//! Gateway routes beside the daemon: one process, one store, one page for both.

use std::time::Duration;

use hapax::{Engine, Policies, identity::Secret};
use hapax_gateway::{Setup, config::Secrets};
use hapax_server::{Crew, Log};

use super::{
    args::ServeArgs,
    settings::{Given, Settings, given},
};
use crate::{
    args::GatewayArgs,
    failure::Failure,
    gateway::{Effective, Running},
};

pub(super) struct Beside {
    pub(super) running: Running,
    routes: usize,
    upstream: String,
}

/// What the file and the flags ask for; nothing, if neither names an upstream, a route or a place outside.
pub(super) fn wanted(args: &ServeArgs, store: &str) -> Result<Option<Effective>, Failure> {
    if args.gateway.as_deref() == Some("off") {
        return Ok(None);
    }
    let effective = read(args, crate::serve::settings::environment()?.remove("HAPAX_TENANT"))?;
    let config = &effective.config;
    let asked_for = args.gateway.is_some()
        || config.listen.is_some()
        || !config.upstreams.is_empty()
        || !config.routes.is_empty()
        || !config.egress.is_empty();
    // What a seed's `key_prefix` adds to the URL is the same store.
    let added = |rest: &str| rest.starts_with("?prefix=") || rest.starts_with("&prefix=");
    let is_same = |other: &str| store.strip_prefix(other).is_some_and(|rest| rest.is_empty() || added(rest));
    if let Some(other) = config.store.as_deref().filter(|other| asked_for && !is_same(other)) {
        let shown = crate::store::shown(store);
        let rule = format!("the daemon's is `{shown}`, and one process has one store; remove one of the two");
        let from = format!("file, [gateway], `{}`", crate::store::shown(other));
        return Err(Failure::Setting { name: "store".to_owned(), from, rule });
    }
    Ok(asked_for.then_some(effective))
}

/// Where its clients connect and where it sends them, for whoever looks at what is set.
pub(super) fn in_force(args: &ServeArgs, settings: &Settings) -> Result<Vec<(String, Given)>, Failure> {
    let of_file =
        settings.file.as_ref().map_or_else(String::new, |path| format!("file, {}, [gateway]", path.display()));
    let wanted = wanted(args, settings.get("store"))?;
    let by_variable = crate::serve::settings::environment()?.remove("HAPAX_UPSTREAM") == args.upstream;
    let default = hapax_gateway::Config::DEFAULT;
    let upstream = wanted.as_ref().and_then(|effective| effective.config.upstreams.get(default));
    let upstream = match (upstream, &args.upstream) {
        (None, _) => given("none", "default"),
        (Some(upstream), None) => given(&upstream.target.to_string(), &of_file),
        (Some(upstream), Some(_)) if by_variable => given(&upstream.target.to_string(), "environment, HAPAX_UPSTREAM"),
        (Some(upstream), Some(_)) => given(&upstream.target.to_string(), "flag, --upstream"),
    };
    let listen = match (&wanted, &args.gateway) {
        (None, None) => given("off", "default"),
        (_, Some(listen)) => given(listen, "flag, --gateway"),
        (Some(effective), None) if effective.config.listen.is_some() => given(&effective.listen, &of_file),
        (Some(effective), None) => given(&effective.listen, "default"),
    };
    Ok(vec![("gateway".to_owned(), listen), ("upstream".to_owned(), upstream)])
}

/// What a gateway would make of the same file and flags.
pub(super) fn read(args: &ServeArgs, tenant: Option<String>) -> Result<Effective, Failure> {
    let same = GatewayArgs {
        upstream: args.upstream.clone(),
        listen: args.gateway.clone(),
        store: None,
        data: None,
        durability: None,
        config: args.config.clone(),
        tenant,
        tls_certificate: None,
        tls_key: None,
    };
    Effective::read(&same)
}

pub(super) async fn start(
    wanted: Option<Effective>,
    engine: &Engine,
    secret: Secret,
    log: Log,
    crew: Crew,
) -> Result<Option<Beside>, Failure> {
    let Some(effective) = wanted else { return Ok(None) };
    let upstream = effective.config.upstreams.get(hapax_gateway::Config::DEFAULT);
    let upstream = upstream.map(|upstream| upstream.target.to_string()).unwrap_or_default();
    let routes = effective.config.routes.len();
    let running = Running::start(&effective, engine, Secrets { tenants: secret }, log, crew).await?;
    Ok(Some(Beside { running, routes, upstream }))
}

impl Beside {
    pub(super) fn say_hello(&self) {
        errln!("  gateway   {} to {}, {} routes of its own", self.running.address, self.upstream, self.routes);
        errln!("  tenants   {}", self.running.setup().tenants());
    }
}

/// The setup for a gateway that runs. One that does not cannot begin with a reload, and one that does cannot end.
pub(super) fn prepare(
    beside: Option<&Beside>,
    wanted: Option<Effective>,
    policies: &Policies,
    engine: &Engine,
) -> Result<Option<Setup>, Failure> {
    match (beside, wanted) {
        (None, None) => Ok(None),
        (Some(beside), Some(effective)) => beside.running.prepare(&effective, policies, engine).map(Some),
        (None, Some(_)) | (Some(_), None) => {
            let rule = "a gateway comes and goes with the process; restart it".to_owned();
            Err(Failure::Setting { name: "gateway".to_owned(), from: "file".to_owned(), rule })
        }
    }
}

/// Closes idle connections to upstreams, a moment from now; without a gateway never.
pub(super) async fn tidy(beside: Option<&Beside>) {
    match beside {
        None => std::future::pending().await,
        Some(beside) => {
            tokio::time::sleep(Duration::from_secs(2)).await;
            beside.running.setup().tidy();
        }
    }
}
