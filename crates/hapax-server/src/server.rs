use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use data_encoding::HEXLOWER;
use hapax_core::identity::Tenant;
use hapax_engine::{Engine, Providers};
use parking_lot::RwLock;
use serde_json::json;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
};

use crate::{
    app::{App, AtDoor, Door, Gauges},
    audit::{Action, Audit, AuditError},
    auth::{Auth, Capability, Identity, TenantState},
    http,
    limits::Limits,
    log::{Level, Log},
    metrics::{Gauge, Metrics},
    tickets::Tickets,
};

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error(
        "{0} can be reached from elsewhere and no API keys are set; listen on a loopback address, or set keys [HX0080]"
    )]
    OpenToAll(SocketAddr),
    #[error("there is not one API key; make one with `hapax key new`, or say `none` on a loopback address [HX0080]")]
    NoKeys,
    #[error("keys cannot be taken away while the server runs; stop it, and start it with `none` [HX0080]")]
    KeysTakenAway,
    #[error("the machine has no randomness to give: {0}")]
    Entropy(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// Puts a server together.
pub struct ServerBuilder {
    engine: Engine,
    auth: Auth,
    limits: Limits,
    log: Log,
    audit: Arc<Audit>,
    gauges: Option<Gauges>,
    providers: Providers,
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl ServerBuilder {
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    #[must_use]
    pub fn log(mut self, log: Log) -> Self {
        self.log = log;
        self
    }

    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Arc::new(audit);
        self
    }

    /// Numbers of the store's own for `/metrics`.
    #[must_use]
    pub fn gauges(mut self, gauges: impl Fn() -> Vec<Gauge> + Send + Sync + 'static) -> Self {
        self.gauges = Some(Arc::new(gauges));
        self
    }

    /// What is known about providers that activities call; the built-in ones if left out.
    #[must_use]
    pub fn providers(mut self, providers: Providers) -> Self {
        self.providers = providers;
        self
    }

    pub fn build(self) -> Result<Server, ServerError> {
        if matches!(&self.auth, Auth::Keys(keys) if keys.is_empty()) {
            return Err(ServerError::NoKeys);
        }
        let mut random = [0; 40];
        getrandom::fill(&mut random).map_err(|error| ServerError::Entropy(error.to_string()))?;
        let mut csrf = [0; 32];
        csrf.copy_from_slice(&random[8..]);
        let (stopping, stop) = watch::channel(false);
        let app = App {
            tickets: Tickets::new(self.limits.tickets),
            readers: Arc::new(Semaphore::new(self.limits.readers)),
            limits: Arc::new(self.limits),
            auth: RwLock::new(Arc::new(self.auth)),
            anonymous: Arc::new(anonymous()),
            metrics: Metrics::default(),
            log: self.log,
            audit: self.audit,
            boot: HEXLOWER.encode(&random[..8]),
            csrf,
            gauges: self.gauges,
            providers: self.providers,
            document: OnceLock::new(),
            stop,
            engine: self.engine,
        };
        Ok(Server { app: Arc::new(app), stopping: Arc::new(stopping) })
    }
}

/// Who everybody is without keys: on loopback, and at the socket in the data directory.
fn anonymous() -> Identity {
    #[allow(clippy::expect_used, reason = "the name is a constant")]
    let tenant = Tenant::new("default").expect("a good name");
    Identity {
        tenant,
        principal: "local".into(),
        name: "no key".into(),
        capabilities: Capability::ALL.to_vec(),
        surfaces: None,
        state: Arc::new(TenantState::new(None)),
    }
}

/// The daemon, apart from its sockets. Cloning gives another handle.
#[derive(Clone, Debug)]
pub struct Server {
    app: Arc<App>,
    stopping: Arc<watch::Sender<bool>>,
}

impl Server {
    /// Starts from an engine; without anything else said, without keys and so for loopback only.
    #[must_use]
    pub fn builder(engine: Engine) -> ServerBuilder {
        ServerBuilder {
            engine,
            auth: Auth::None,
            limits: Limits::default(),
            log: Log::silent(),
            audit: Arc::new(Audit::in_memory()),
            gauges: None,
            providers: Providers::built_in(),
        }
    }

    /// Serves tenants until [`Server::stop`].
    pub async fn serve(&self, listener: TcpListener) -> Result<(), ServerError> {
        self.serve_at(listener, Door::Public).await
    }

    /// Serves administrators: all tenants, policies, the audit log.
    pub async fn serve_admin(&self, listener: TcpListener) -> Result<(), ServerError> {
        self.serve_at(listener, Door::Admin).await
    }

    async fn serve_at(&self, listener: TcpListener, door: Door) -> Result<(), ServerError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && matches!(&**self.app.auth.read(), Auth::None) {
            return Err(ServerError::OpenToAll(address));
        }
        let handler = AtDoor { app: Arc::clone(&self.app), door };
        http::serve(listener, handler, Arc::clone(&self.app.limits), self.app.stop.clone()).await;
        Ok(())
    }

    /// Serves whoever may open this socket, as an administrator.
    pub async fn serve_socket(&self, listener: UnixListener) {
        let handler = AtDoor { app: Arc::clone(&self.app), door: Door::Socket };
        http::serve(listener, handler, Arc::clone(&self.app.limits), self.app.stop.clone()).await;
    }

    /// Writes down what nobody asks for: evictions, with their number, and signed checkpoints.
    pub async fn keep_books(&self) {
        let mut stop = self.app.stop.clone();
        let mut evicted = self.app.engine.stats().evicted;
        let mut minutes: u64 = 0;
        loop {
            tokio::select! {
                () = http::stopped(&mut stop) => break,
                () = tokio::time::sleep(Duration::from_secs(60)) => {}
            }
            minutes += 1;
            let now = self.app.engine.stats().evicted;
            let detail = json!({ "records": now - evicted });
            let (audit, sign) = (Arc::clone(&self.app.audit), minutes.is_multiple_of(60));
            let any = now > evicted;
            evicted = now;
            let written = tokio::task::spawn_blocking(move || {
                if any {
                    audit.append("hapax", Action::Eviction, "", detail)?;
                }
                if sign { audit.checkpoint() } else { Ok(()) }
            });
            if let Ok(Err(error)) = written.await {
                self.app.say(Level::Error, "audit_failed", &[("error", &error.to_string())]);
            }
        }
    }

    /// New keys from now on. Whoever's is not among them is turned away with the next request.
    pub fn set_auth(&self, auth: Auth) {
        *self.app.auth.write() = Arc::new(auth);
    }

    /// New keys and policies, both or neither; it stands in the audit log first.
    pub fn reload(&self, auth: Auth, policies: hapax_engine::Policies, actor: &str) -> Result<(), ServerError> {
        if matches!(&auth, Auth::Keys(keys) if keys.is_empty()) {
            return Err(ServerError::NoKeys);
        }
        // Without keys only loopback is served, and where we listen was checked with keys in mind.
        if matches!(auth, Auth::None) && !matches!(&**self.app.auth.read(), Auth::None) {
            return Err(ServerError::KeysTakenAway);
        }
        let revision = format!("{:016x}", policies.standard().revision);
        self.app.audit.append(actor, Action::PolicyChange, "", json!({ "standard": revision }))?;
        self.app.audit.append(actor, Action::KeysChange, "", json!({}))?;
        self.set_auth(auth);
        self.app.engine.reload(policies);
        Ok(())
    }

    #[must_use]
    pub fn audit(&self) -> &Arc<Audit> {
        &self.app.audit
    }

    /// Lets requests under way finish, and takes no more.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }
}
