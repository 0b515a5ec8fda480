//! `hapax gateway`.

mod books;
mod effective;
mod secret;

use std::{sync::Arc, time::Duration};

use hapax::{Durability, Engine, Hapax, MemoryStore};
use hapax_gateway::{
    Gateway, Notice,
    config::Secrets,
    inbound::{Inbound, Live, Stop, serve},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::{interval, timeout},
};

use crate::{args::GatewayArgs, failure::Failure, store};
use books::Books;
use effective::Effective;
pub(crate) use secret::kept_in as kept_secret;

pub(crate) async fn run(args: GatewayArgs) -> Result<(), Failure> {
    let effective = Effective::read(&args)?;
    for warning in &effective.warnings {
        eprintln!("hapax: warning: {warning}");
    }
    let opened = store::open(&effective.store)?;
    let secret = secret::kept_in(opened.directory.as_deref())?;
    let secrets = Secrets { tenants: secret.clone() };
    let durability = opened.store.durability();
    let engine =
        Hapax::on(Arc::clone(&opened.store)).policies(effective.policies.clone()).secret(secret.clone()).build()?;
    let setup = effective.config.build(&engine, &secrets, None)?;
    let tls = effective.config.tls.as_ref().map(hapax_gateway::inbound::TlsFiles::server).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = TcpListener::bind(&effective.listen)
        .await
        .map_err(|error| Failure::Listen { address: effective.listen.clone(), error })?;
    let address = listener.local_addr().map_or_else(|_| effective.listen.clone(), |address| address.to_string());

    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::Signals)?;

    let books = Books::open(&engine, &opened)?;
    say_hello(&effective, &format!("{scheme}://{address}"), durability, &setup.tenants());
    let live = Live::default();
    let (stop, stopping) = Stop::new();
    let gateway = Gateway::new(setup, live.clone(), tell);
    let inbound = Inbound { listener, tls, limits: effective.config.limits.clone() };
    let accepting = tokio::spawn(serve(inbound, gateway.clone(), live.clone(), stopping));
    let mut tidying = interval(Duration::from_secs(2));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => reload(&args, &engine, &gateway, &secrets, &books),
            _ = tidying.tick() => gateway.setup().tidy(),
        }
    }
    eprintln!("hapax: stopping; live work comes to its end, a second signal ends it at once");
    stop.stop();
    let _ = accepting.await;
    let grace = effective.config.grace.unwrap_or(GRACE);
    let all_ended = tokio::select! {
        ended = timeout(grace, live.ended()) => ended.is_ok(),
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
    };
    let closed = books.close().await;
    if !all_ended {
        return Err(Failure::Unfinished(live.count()));
    }
    closed?;
    eprintln!("hapax: stopped");
    Ok(())
}

/// How long live work may go on after the order to stop, unless the file says otherwise.
const GRACE: Duration = Duration::from_secs(120);

fn say_hello(effective: &Effective, address: &str, durability: Durability, tenants: &str) {
    let upstream = effective.config.upstreams.get(hapax_gateway::Config::DEFAULT);
    let upstream = upstream.map(|upstream| upstream.target.to_string()).unwrap_or_default();
    eprintln!("hapax gateway on {address}, upstream {upstream}");
    eprintln!("  records   {}, which promises: {durability}", effective.store);
    eprintln!("  tenants   {tenants}");
    match &effective.file {
        Some(path) => eprintln!("  routes    {} from {}, and all else", effective.config.routes.len(), path.display()),
        None => eprintln!("  routes    all: preset standard, dialect ietf, the key is optional"),
    }
    for (name, place) in &effective.config.egress {
        eprintln!("  egress    /egress/{name}/ to {}", place.target);
    }
}

fn tell(notice: Notice) {
    match notice {
        Notice::Anonymous => eprintln!(
            "hapax: warning: requests with a key came without a credential; all such requests share the tenant \
             `anonymous` and can meet under one key. Send Authorization or X-Api-Key, or choose another `tenant` [HX0063]"
        ),
        other => eprintln!("hapax: warning: {other:?}"),
    }
}

/// Puts the file in force again, all of it or nothing of it.
fn reload(args: &GatewayArgs, engine: &Engine, gateway: &Gateway, secrets: &Secrets, books: &Books) {
    match reloaded(args, engine, gateway, secrets, books) {
        Ok(()) => eprintln!("hapax: reloaded"),
        Err(failure) => eprintln!("hapax: not reloaded, all stays as it was: {failure}"),
    }
}

fn reloaded(
    args: &GatewayArgs,
    engine: &Engine,
    gateway: &Gateway,
    secrets: &Secrets,
    books: &Books,
) -> Result<(), Failure> {
    let effective = Effective::read(args)?;
    // Routes are checked against the new policies before either is in force.
    let trial = Hapax::on(Arc::new(MemoryStore::default())).policies(effective.policies.clone()).build()?;
    effective.config.build(&trial, secrets, None)?;
    let before = gateway.setup();
    let setup = effective.config.build(engine, secrets, Some(&before))?;
    books.policies(&effective.policies)?;
    engine.reload(effective.policies);
    gateway.reload(setup);
    Ok(())
}
