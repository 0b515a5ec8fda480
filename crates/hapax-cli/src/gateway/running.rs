//! A gateway at work: by itself, or beside the daemon in one process.

use std::{sync::Arc, time::Duration};

use hapax::{Engine, Policies};
use hapax_gateway::{
    Gateway, Notice, Setup,
    config::Secrets,
    inbound::{Inbound, Live, Stop},
};
use hapax_server::{Crew, Level, Log};
use tokio::{task::JoinHandle, time::timeout};

use super::Effective;
use crate::failure::Failure;

/// How long live work may go on after the order to stop, unless the file says otherwise.
const GRACE: Duration = Duration::from_secs(120);

pub(crate) struct Running {
    gateway: Gateway,
    engine: Engine,
    secrets: Secrets,
    live: Live,
    stop: Stop,
    accepting: JoinHandle<()>,
    grace: Duration,
    /// As it was asked for, and as it is.
    listen: String,
    pub(crate) address: String,
}

impl Running {
    pub(crate) async fn start(
        effective: &Effective,
        engine: &Engine,
        secrets: Secrets,
        log: Log,
        crew: Crew,
    ) -> Result<Self, Failure> {
        let setup = effective.config.build(engine, &effective.policies, &secrets, None)?;
        let tls = effective.config.tls.as_ref().map(hapax_gateway::inbound::TlsFiles::server).transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listen = effective.listen.clone();
        let listener = hapax_server::listening(&listen)
            .await
            .map_err(|error| Failure::Listen { address: listen.clone(), error })?;
        let address = listener.local_addr().map_or_else(|_| listen.clone(), |address| address.to_string());
        let live = Live::default();
        let (stop, stopping) = Stop::new();
        let gateway = Gateway::new(setup, live.clone(), move |notice| tell(notice, &log));
        let inbound = Inbound { listener, tls, limits: effective.config.limits.clone(), crew };
        let accepting = tokio::spawn(gateway.serve(inbound, stopping));
        let grace = effective.config.grace.unwrap_or(GRACE);
        let address = format!("{scheme}://{address}");
        Ok(Self { gateway, engine: engine.clone(), secrets, live, stop, accepting, grace, listen, address })
    }

    pub(crate) fn setup(&self) -> Arc<Setup> {
        self.gateway.setup()
    }

    /// The setup that this file asks for, if it can be had; connections that stay as they are stay.
    pub(crate) fn prepare(
        &self,
        effective: &Effective,
        policies: &Policies,
        engine: &Engine,
    ) -> Result<Setup, Failure> {
        if effective.listen != self.listen {
            errln!("hapax: warning: the gateway stays on {}; another address needs a restart", self.listen);
        }
        // Routes are built on the new policies before either is in force.
        Ok(effective.config.build(engine, policies, &self.secrets, Some(&self.setup()))?)
    }

    /// Puts routes in force, and with them what is given: nobody meets the one without the other.
    pub(crate) fn reload<E>(&self, setup: Setup, and: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.gateway.reload(setup, and)
    }

    /// No new work from here on.
    pub(crate) fn stop(&self) {
        self.stop.stop();
    }

    /// Until live work has come to its end, or the grace has.
    pub(crate) async fn ended(self) -> Result<(), Failure> {
        let _ = self.accepting.await;
        let ended = async {
            self.live.ended().await;
            // What the store could not take is offered to it again; nobody else knows it.
            self.engine.settled().await;
        };
        match timeout(self.grace, ended).await {
            Ok(()) => Ok(()),
            Err(_) => Err(Failure::Unfinished(self.live.count() + self.engine.unsettled())),
        }
    }

    pub(crate) fn live(&self) -> Live {
        self.live.clone()
    }
}

fn tell(notice: Notice, log: &Log) {
    match notice {
        Notice::Anonymous => errln!(
            "hapax: warning: requests with a key came without a credential; all such requests share the tenant \
             `anonymous` and can meet under one key. Send Authorization or X-Api-Key, or choose another `tenant` [HX0063]"
        ),
        Notice::ByAllCookies => errln!(
            "hapax: warning: requests with a key came with nothing but cookies; each caller is told apart by all of its \
             cookies, so a retry after any of them changed counts as new. Name the cookie that says who it is in \
             `cookies` under [gateway] [HX0064]"
        ),
        Notice::StoreFailed { error, left_out } => {
            log.say(Level::Warn, "store_failed", &[("error", &error), ("left_out", &left_out.to_string())]);
        }
        other => errln!("hapax: warning: {other:?}"),
    }
}
