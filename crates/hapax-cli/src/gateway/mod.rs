//! `hapax gateway`.

mod books;
mod effective;
mod running;
mod secret;

use std::{sync::Arc, time::Duration};

use hapax::{Engine, Hapax, Store};
use hapax_gateway::config::Secrets;
use hapax_server::{Crew, Format, Level, Log};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::interval,
};

use crate::{args::GatewayArgs, failure::Failure, serve::told_of_reload, store};
use books::Books;
pub(crate) use effective::Effective;
pub(crate) use running::Running;
pub(crate) use secret::kept_in as kept_secret;

pub(crate) async fn run(args: GatewayArgs, crew: Crew) -> Result<(), Failure> {
    crate::files::take_all();
    let effective = Effective::alone(&args)?;
    for warning in &effective.warnings {
        errln!("hapax: warning: {warning}");
    }
    for note in &effective.notes {
        errln!("hapax: warning: {note}");
    }
    let opened = store::open(&effective.store, &effective.data).await?;
    let _held = opened.hold().await?;
    let secret = secret::kept_in(opened.directory.as_deref())?;
    let secrets = Secrets { tenants: secret.clone() };
    let engine = Hapax::on(Arc::clone(&opened.store))
        .policies(effective.policies.clone())
        .settings(hapax::Settings {
            gate: effective.gate,
            demand_durable: effective.demand_durable,
            ..hapax::Settings::default()
        })
        .secret(secret)
        .build()?;
    store::agree(&engine).await?;
    // Here, and not on a thread that serves connections.
    engine.sweep_from_now_on();
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::Signals)?;
    let log = Log::to_stderr(Level::Warn, Format::Text);
    let running = Running::start(&effective, &engine, secrets, log, crew).await?;

    let (reloader, mut asked) = hapax_server::reloads();
    let books = Books::open(&engine, opened.directory.clone(), &effective.store, reloader)?;
    say_hello(&effective, &running.address, &*opened.store, &running.setup().tenants());
    let mut tidying = interval(Duration::from_secs(2));
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                let done = reloaded(&args, &effective, &engine, &running, &books, "signal HUP");
                let _said = told_of_reload(done);
            }
            Some(asked) = asked.recv() => {
                let done = reloaded(&args, &effective, &engine, &running, &books, &asked.actor);
                asked.answer(told_of_reload(done));
            }
            _ = tidying.tick() => running.setup().tidy(),
        }
    }
    errln!("hapax: stopping; live work comes to its end, a second signal ends it at once");
    running.stop();
    let live = running.live();
    let ended = tokio::select! {
        ended = running.ended() => ended,
        _ = terminate.recv() => Err(Failure::Unfinished(live.count())),
        _ = interrupt.recv() => Err(Failure::Unfinished(live.count())),
    };
    let closed = books.close().await;
    ended?;
    closed?;
    errln!("hapax: stopped");
    Ok(())
}

fn say_hello(effective: &Effective, address: &str, store: &dyn Store, tenants: &str) {
    let upstream = effective.config.upstreams.get(hapax_gateway::Config::DEFAULT);
    let upstream = upstream.map(|upstream| upstream.target.to_string()).unwrap_or_default();
    errln!("hapax gateway on {address}, upstream {upstream}");
    errln!("  records   {}, which promises: {}", store::shown(&effective.store), store.durability());
    errln!("  tenants   {tenants}");
    match &effective.file {
        Some(path) => errln!("  routes    {} from {}, and all else", effective.config.routes.len(), path.display()),
        None => errln!("  routes    all: preset standard, dialect ietf, the key is optional"),
    }
    for (name, place) in &effective.config.egress {
        errln!("  egress    /egress/{name}/ to {}", place.target);
    }
    store::warn_if_forgetful(store, &effective.policies);
}

/// Puts the file in force again, all of it or nothing of it; what else is set otherwise than at the start.
fn reloaded(
    args: &GatewayArgs,
    at_start: &Effective,
    engine: &Engine,
    running: &Running,
    books: &Books,
    actor: &str,
) -> Result<Vec<&'static str>, Failure> {
    let effective = Effective::alone(args)?;
    let waiting = effective.differing(at_start);
    // Its admin socket serves the queue too.
    hapax_server::fit_for_queue(&effective.policies)?;
    let setup = running.prepare(&effective, &effective.policies, engine)?;
    books.policies(&effective.policies, actor)?;
    running.reload(setup, || {
        engine.reload(effective.policies);
        Ok::<(), Failure>(())
    })?;
    Ok(waiting)
}
