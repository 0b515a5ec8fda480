use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use data_encoding::HEXLOWER;
use hapax_core::identity::Tenant;
use hapax_engine::{Engine, Providers};
use hapax_http1::Crew;
use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig as TlsConfig;
use serde_json::json;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{Semaphore, watch},
};

use crate::{
    app::{App, AtDoor, Door, Gauges},
    audit::{Action, Audit, AuditError},
    auth::{Auth, Capability, Identity, KeyFile, TenantState},
    counted::Counted,
    http,
    limits::Limits,
    log::{Level, Log},
    metrics::{Gauge, Metrics},
    once,
    reload::Reloader,
    seal::Seal,
    tickets::Tickets,
    trace::Tracer,
    trouble::Trouble,
};

/// A server at work, behind a pointer: so all of it is compiled in this crate. An async function is otherwise compiled
/// wherever it is awaited, and everything that it awaits with it.
type Serving<T> = Pin<Box<dyn Future<Output = T> + Send>>;

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
    #[error("the new policies are refused, and the old ones stay in force: {0}")]
    UnfitPolicies(String),
    #[error("the machine has no randomness to give: {0}")]
    Entropy(String),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("the policy of the surface `daemon` cannot guard our own endpoints: {0}")]
    Rules(#[from] hapax_http::RulesError),
}

/// Puts a server together.
pub struct ServerBuilder {
    engine: Engine,
    auth: Auth,
    limits: Limits,
    crew: Crew,
    log: Log,
    audit: Arc<Audit>,
    gauges: Option<Gauges>,
    providers: Providers,
    policies_by_file: bool,
    reloader: Option<Reloader>,
    key_file: Option<KeyFile>,
    tracer: Option<Arc<Tracer>>,
    queue: hapax_queue::QueueSettings,
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

    /// The runtimes that serve connections; the one that takes them if left out.
    #[must_use]
    pub fn crew(mut self, crew: Crew) -> Self {
        self.crew = crew;
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

    /// How the queue between agents behaves.
    #[must_use]
    pub fn queue(mut self, settings: hapax_queue::QueueSettings) -> Self {
        self.queue = settings;
        self
    }

    /// Where keys that are added while the server runs are written down.
    #[must_use]
    pub fn key_file(mut self, file: KeyFile) -> Self {
        self.key_file = Some(file);
        self
    }

    /// Where spans go. Calls of the store are among them if it is [`crate::Traced`].
    #[must_use]
    pub fn tracer(mut self, tracer: Tracer) -> Self {
        self.tracer = Some(Arc::new(tracer));
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

    /// For a process whose policies belong together with something else in its file: they are not taken from elsewhere.
    #[must_use]
    pub fn policies_by_file(mut self) -> Self {
        self.policies_by_file = true;
        self
    }

    /// Whom to ask when an administrator wants the process's files read again.
    #[must_use]
    pub fn reloader(mut self, reloader: Reloader) -> Self {
        self.reloader = Some(reloader);
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
        let trouble = Arc::new(Trouble::new(self.log.clone()));
        let app = App {
            tickets: Tickets::new(self.limits.tickets),
            readers: Arc::new(Semaphore::new(self.limits.readers)),
            bodies: Arc::new(http::Bodies::new(&self.limits)),
            limits: Arc::new(self.limits),
            auth: RwLock::new(Arc::new(self.auth)),
            auth_changes: watch::Sender::new(0),
            seal: Seal::new(&self.engine.derived_key("hapax.server.seal.v1")),
            anonymous: Arc::new(anonymous()),
            metrics: Metrics::default(),
            counted: Counted::default(),
            asked_promise: Mutex::default(),
            trouble: Arc::clone(&trouble),
            log: self.log,
            audit: self.audit,
            once: once::guard(self.engine.clone(), trouble)?,
            key_file: RwLock::new(self.key_file),
            tracer: self.tracer,
            boot: HEXLOWER.encode(&random[..8]),
            csrf,
            gauges: self.gauges,
            providers: self.providers,
            policies_by_file: self.policies_by_file,
            reloader: self.reloader,
            queue: crate::a2a::LazyQueue::new(self.queue),
            document: OnceLock::new(),
            admin_document: OnceLock::new(),
            until_stop: Arc::new(stop.clone()),
            stop,
            engine: self.engine,
        };
        Ok(Server { app: Arc::new(app), crew: self.crew, stopping: Arc::new(stopping) })
    }
}

/// Who everybody is without keys: on loopback, and at the socket in the data directory.
fn anonymous() -> Identity {
    #[allow(clippy::expect_used, reason = "the name is a constant")]
    let tenant = Tenant::new("default").expect("a good name");
    Identity {
        tenant: tenant.clone(),
        principal: "local".into(),
        name: "no key".into(),
        capabilities: Capability::ALL.to_vec(),
        a2a: crate::a2a::Grants::all(),
        surfaces: None,
        state: Arc::new(TenantState::new(None)),
        digest: None,
        home: tenant,
    }
}

/// The daemon, apart from its sockets. Cloning gives another handle.
#[derive(Clone, Debug)]
pub struct Server {
    app: Arc<App>,
    crew: Crew,
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
            crew: Crew::default(),
            log: Log::silent(),
            audit: Arc::new(Audit::in_memory()),
            gauges: None,
            providers: Providers::built_in(),
            policies_by_file: false,
            reloader: None,
            key_file: None,
            tracer: None,
            queue: hapax_queue::QueueSettings::default(),
        }
    }

    pub(crate) const fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Serves tenants until [`Server::stop`].
    pub async fn serve(&self, listener: TcpListener) -> Result<(), ServerError> {
        self.serve_over(listener, None).await
    }

    /// The same, over TLS if a configuration is given.
    pub async fn serve_over(&self, listener: TcpListener, tls: Option<Arc<TlsConfig>>) -> Result<(), ServerError> {
        self.serve_at(listener, Door::Public, tls).await
    }

    /// Serves administrators: all tenants, policies, the audit log.
    pub async fn serve_admin(&self, listener: TcpListener) -> Result<(), ServerError> {
        self.serve_admin_over(listener, None).await
    }

    /// The same, over TLS if a configuration is given.
    pub async fn serve_admin_over(
        &self,
        listener: TcpListener,
        tls: Option<Arc<TlsConfig>>,
    ) -> Result<(), ServerError> {
        self.serve_at(listener, Door::Admin, tls).await
    }

    /// Whether it may be served at all: without keys, only a loopback address.
    pub fn may_serve(&self, listener: &TcpListener) -> Result<(), ServerError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && matches!(&**self.app.auth.read(), Auth::None) {
            return Err(ServerError::OpenToAll(address));
        }
        Ok(())
    }

    fn serve_at(
        &self,
        listener: TcpListener,
        door: Door,
        tls: Option<Arc<TlsConfig>>,
    ) -> Serving<Result<(), ServerError>> {
        let may = self.may_serve(&listener);
        let handler = AtDoor { app: Arc::clone(&self.app), door };
        let (limits, crew, stop) = (Arc::clone(&self.app.limits), self.crew.clone(), self.app.stop.clone());
        Box::pin(async move {
            may?;
            match tls {
                None => http::serve(listener, handler, limits, crew, stop).await,
                Some(config) => http::serve(http::Tls::new(listener, &config), handler, limits, crew, stop).await,
            }
            Ok(())
        })
    }

    /// Serves whoever may open this socket, as an administrator.
    #[must_use = "nothing is served unless this is awaited"]
    pub fn serve_socket(&self, listener: UnixListener) -> Serving<()> {
        let handler = AtDoor { app: Arc::clone(&self.app), door: Door::Socket };
        let (limits, stop) = (Arc::clone(&self.app.limits), self.app.stop.clone());
        Box::pin(http::serve(listener, handler, limits, Crew::default(), stop))
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
            self.app.trouble.say();
            evicted = self.write_evictions(evicted, minutes.is_multiple_of(60)).await;
        }
        // What the last, unfinished minute gave up.
        self.write_evictions(evicted, false).await;
    }

    /// A row about what was given up since there were `before`, if anything was; how many there are now.
    async fn write_evictions(&self, before: u64, sign: bool) -> u64 {
        let now = self.app.engine.stats().evicted;
        let audit = Arc::clone(&self.app.audit);
        let written = tokio::task::spawn_blocking(move || {
            if now > before {
                audit.append("hapax", Action::Eviction, "", json!({ "records": now - before }))?;
            }
            if !sign {
                return Ok(());
            }
            audit.let_go()?;
            audit.checkpoint()
        });
        if let Ok(Err(error)) = written.await {
            self.app.say(Level::Error, "audit_failed", &[("error", &error.to_string())]);
        }
        now
    }

    /// New keys from now on. Whoever's is not among them is turned away with the next request, and reads no more events.
    pub fn set_auth(&self, auth: Auth) {
        self.app.set_auth(auth);
    }

    /// New keys and policies, both or neither; it stands in the audit log first.
    ///
    /// `key_file` is where the keys come from: there they are added and revoked from now on.
    pub fn reload(
        &self,
        auth: Auth,
        key_file: Option<PathBuf>,
        policies: hapax_engine::Policies,
        actor: &str,
    ) -> Result<(), ServerError> {
        if matches!(&auth, Auth::Keys(keys) if keys.is_empty()) {
            return Err(ServerError::NoKeys);
        }
        // Without keys only loopback is served, and where we listen was checked with keys in mind.
        if matches!(auth, Auth::None) && !matches!(&**self.app.auth.read(), Auth::None) {
            return Err(ServerError::KeysTakenAway);
        }
        fit_for_queue(&policies)?;
        self.note_policies(&policies, actor)?;
        let changes = self.app.auth.read().changes(&auth).detail();
        self.app.audit.append(actor, Action::KeysChange, "", changes)?;
        // Held over both, so that nobody adds a key to the one file while those of the other come into force.
        let mut current = self.app.key_file.write();
        *current = key_file.map(KeyFile::at);
        self.set_auth(auth);
        drop(current);
        self.app.engine.reload(policies);
        Ok(())
    }

    /// A row about the policies that are about to be in force.
    pub fn note_policies(&self, policies: &hapax_engine::Policies, actor: &str) -> Result<(), ServerError> {
        self.app.audit.append(actor, Action::PolicyChange, "", crate::api::revisions(policies))?;
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

/// Whether leased tasks stay leased under these policies.
pub fn fit_for_queue(policies: &hapax_engine::Policies) -> Result<(), ServerError> {
    hapax_queue::Queue::check(policies).map_err(|error| ServerError::UnfitPolicies(error.to_string()))
}
