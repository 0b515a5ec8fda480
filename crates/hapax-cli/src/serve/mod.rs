//! `hapax serve`: the API, the page, the administrators' door, on one store.

pub(crate) mod alias;
pub(crate) mod args;
mod gateway;
mod queue;
pub(crate) mod settings;
mod socket;

use std::{
    net::ToSocketAddrs as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hapax::{Engine, Hapax, Ledger, Span};
use hapax_gateway::inbound::TlsFiles;
use hapax_server::{
    Auth, Crew, Format, Gauge, Keys, Level, Limits, Log, Server, Traced, Tracer,
    audit::{Action, Audit, AuditOptions},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{failure::Failure, gateway::kept_secret, store};
use args::ServeArgs;
use gateway::Beside;
use settings::{Given, Settings};
pub(crate) use socket::{Way, bind as bind_socket, remove as remove_socket, store_in as store_at_socket};

/// What a file says by itself. What a start refuses of it is refused here, routes included; where records are is not asked, since the
/// file may be a gateway's.
pub(crate) fn of_file(path: &Path) -> Result<Settings, Failure> {
    let args = ServeArgs { config: Some(path.to_owned()), ..ServeArgs::default() };
    let settings = Settings::of_file(&args)?;
    hapax_server::fit_for_queue(&settings.policies)?;
    gateway::read(&args, None)?;
    Ok(settings)
}

/// What a start would take on from these flags, the variables and the file, and of the gateway beside it where each came from.
pub(crate) fn in_force(args: &ServeArgs) -> Result<(Settings, Vec<(String, Given)>), Failure> {
    let settings = Settings::read(args)?;
    queue::retry(&settings)?;
    closed_to_strangers(&settings, &auth_of(settings.get("keys"))?)?;
    let beside = gateway::in_force(args, &settings)?;
    Ok((settings, beside))
}

pub(crate) async fn run(args: ServeArgs, crew: Crew) -> Result<(), Failure> {
    crate::files::take_all();
    let settings = Settings::read(&args)?;
    for warning in &settings.warnings {
        errln!("hapax: warning: {warning}");
    }
    for note in &settings.notes {
        errln!("hapax: warning: {note}");
    }
    let (retry, granted) = queue::retry(&settings)?;
    // Before anything is opened or made: a slip leaves nothing behind.
    let auth = auth_of(settings.get("keys"))?;
    closed_to_strangers(&settings, &auth)?;
    let beside = gateway::wanted(&args, settings.get("store"))?;
    let opened = store::open(settings.get("store"), Path::new(settings.get("data"))).await?;
    let directory = opened.directory.clone();
    let _held = opened.hold().await?;
    let (tracer, exporter) = match settings.get("otlp") {
        "off" => (None, None),
        endpoint => {
            let (tracer, exporter) = Tracer::to(endpoint, settings.number("otlp_one_in")? as u64)?;
            (Some(tracer), Some(exporter))
        }
    };
    let mut store = Arc::clone(&opened.store);
    if tracer.is_some() {
        store = Arc::new(Traced::around(store));
    }
    let secret = kept_secret(directory.as_deref())?;
    let engine = Hapax::on(store)
        .policies(settings.policies.clone())
        .settings(hapax::Settings {
            gate: settings.gate(),
            waiters: settings.number("waiters")?,
            demand_durable: settings.get("durability") == "durable",
            ..hapax::Settings::default()
        })
        .secret(secret.clone())
        .build()?;
    store::agree(&engine).await?;
    // Here, and not on a thread that serves connections.
    engine.sweep_from_now_on();
    let durability = opened.store.durability();
    let (audit, torn) = audit_of(directory.as_deref(), &settings)?;
    let log = log_of(&settings);
    let without_keys = matches!(auth, Auth::None);
    let mut builder = Server::builder(engine.clone())
        .auth(auth)
        .limits(limits_of(&settings)?)
        .crew(crew.clone())
        .log(log.clone())
        .audit(audit);
    builder = builder.queue(queue::of(&settings)?);
    if let Some(path) = key_file_of(&settings) {
        builder = builder.key_file(hapax_server::KeyFile::at(path));
    }
    builder = builder.providers(settings.providers.clone());
    if let Some(ledger) = &opened.ledger {
        let ledger = Arc::clone(ledger);
        builder = builder.gauges(move || gauges(&ledger));
    }
    if let Some(tracer) = tracer {
        builder = builder.tracer(tracer);
    }
    if beside.is_some() {
        // Policies give requests their names at the gateway: they change with its routes, or not at all.
        builder = builder.policies_by_file();
    }
    let (reloader, mut asked) = hapax_server::reloads();
    let server = builder.reloader(reloader).build()?;
    let exporting = exporter.map(|exporter| tokio::spawn(exporter.run()));

    let tls = match (settings.get("tls_certificate"), settings.get("tls_key")) {
        ("none", _) | (_, "none") => None,
        (certificate, key) => Some(TlsFiles { certificate: certificate.into(), key: key.into() }.server()?),
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let public = listen(settings.get("listen")).await?;
    let admin = match settings.get("admin") {
        "off" => None,
        address => Some(listen(address).await?),
    };
    let at = |listener: &TcpListener| listener.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
    // A door that must not be opened is said before anything else is.
    for listener in [&public].into_iter().chain(&admin) {
        server.may_serve(listener)?;
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::Signals)?;
    let gateway = gateway::start(beside, &engine, secret, log, crew).await?;
    note(&server, Action::Started, "")?;

    errln!("hapax serve on {scheme}://{}", at(&public));
    errln!("  page      {scheme}://{}/", at(&public));
    if let Some(gateway) = &gateway {
        gateway.say_hello();
    }
    errln!("  records   {}, which promises: {durability}", store::shown(settings.get("store")));
    match &admin {
        Some(listener) => errln!("  admin     {scheme}://{}/ (all tenants)", at(listener)),
        None => errln!("  admin     off"),
    }
    if let Some(cut) = torn {
        errln!("  audit     {cut} bytes of an unfinished row were cut off, and a row says so");
    }
    store::warn_if_forgetful(&*opened.store, &settings.policies);
    let connections = settings.number("connections")? as u64;
    if let Some(most) = crate::files::most().filter(|most| *most < connections) {
        errln!(
            "hapax: warning: this process may have {most} files open, fewer than the {connections} connections that it \
             would take; raise the limit (`ulimit -n`), or lower `connections`"
        );
    }
    if without_keys {
        errln!(
            "hapax: warning: no API keys: every process on this machine may do everything, as the tenant `default`. \
             `hapax key new` makes a key"
        );
    }

    let mut doors = tokio::task::JoinSet::new();
    if let Some(directory) = &directory {
        let (server, socket) = (server.clone(), socket::bind(directory, settings.get("store"))?);
        doors.spawn(async move {
            server.serve_socket(socket).await;
            Ok(())
        });
    }
    if let Some(admin) = admin {
        let (server, tls) = (server.clone(), tls.clone());
        doors.spawn(async move { server.serve_admin_over(admin, tls).await });
    }
    let public_server = server.clone();
    doors.spawn(async move { public_server.serve_over(public, tls).await });
    let keeping = tokio::spawn({
        let server = server.clone();
        async move { server.keep_queue(retry, &granted).await }
    });
    let books = tokio::spawn({
        let server = server.clone();
        async move { server.keep_books().await }
    });
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                let done = reloaded(&args, &settings, &server, &engine, gateway.as_ref(), "signal HUP");
                let _said = told_of_reload(done);
            }
            Some(asked) = asked.recv() => {
                let done = reloaded(&args, &settings, &server, &engine, gateway.as_ref(), &asked.actor);
                asked.answer(told_of_reload(done));
            }
            () = gateway::tidy(gateway.as_ref()) => {}
            Some(ended) = doors.join_next() => {
                // A door that cannot be opened is a mistake in the settings, and no reason to serve by half.
                if let Ok(Err(error)) = ended {
                    return Err(error.into());
                }
            }
        }
    }
    errln!("hapax: stopping");
    if let Some(gateway) = &gateway {
        gateway.running.stop();
    }
    server.stop();
    while doors.join_next().await.is_some() {}
    let mut unfinished = Ok(());
    if let Some(gateway) = gateway {
        let live = gateway.running.live();
        unfinished = tokio::select! {
            ended = gateway.running.ended() => ended,
            _ = terminate.recv() => Err(Failure::Unfinished(live.count())),
            _ = interrupt.recv() => Err(Failure::Unfinished(live.count())),
        };
    }
    let _ended = (books.await, keeping.await);
    note(&server, Action::Stopped, "")?;
    server.audit().checkpoint().map_err(hapax_server::ServerError::from)?;
    if let Some(directory) = &directory {
        socket::remove(directory);
    }
    drop(server);
    if let Some(exporting) = exporting {
        // With the server its tracer is gone, so the exporter sends what is left and ends.
        let _in_time = tokio::time::timeout(Duration::from_secs(2), exporting).await;
    }
    unfinished?;
    errln!("hapax: stopped");
    Ok(())
}

pub(crate) fn note(server: &Server, action: Action, subject: &str) -> Result<(), Failure> {
    let detail = serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "process": std::process::id() });
    server.audit().append("hapax", action, subject, detail).map_err(hapax_server::ServerError::from)?;
    Ok(())
}

fn audit_of(directory: Option<&Path>, settings: &Settings) -> Result<(Audit, Option<u64>), Failure> {
    let Some(directory) = directory else { return Ok((Audit::in_memory(), None)) };
    let keep = match settings.span("audit_keep")? {
        Span::Forever => None,
        Span::For(length) => Some(Duration::from_millis(length.0)),
    };
    let options = AuditOptions { file_bytes: settings.number("audit_file_bytes")? as u64, keep };
    let (audit, opened) = Audit::open_with(directory, options).map_err(hapax_server::ServerError::from)?;
    Ok((audit, (opened.cut > 0).then_some(opened.cut)))
}

fn key_file_of(settings: &Settings) -> Option<PathBuf> {
    Some(settings.get("keys")).filter(|keys| *keys != "none").map(PathBuf::from)
}

fn auth_of(keys: &str) -> Result<Auth, Failure> {
    if keys == "none" {
        return Ok(Auth::None);
    }
    let text = std::fs::read_to_string(keys).map_err(|error| {
        let why =
            format!("{error}; `hapax key new NAME --tenant T >> {keys}` makes it, with a first key in it [HX0081]");
        Failure::Keys { path: keys.into(), why }
    })?;
    let keys = Keys::from_toml(&text).map_err(|error| Failure::Keys { path: keys.into(), why: error.to_string() })?;
    Ok(Auth::Keys(keys))
}

/// Without keys nobody from elsewhere may come to a door. Where an address has a name that is not known here, the listener sees to it.
fn closed_to_strangers(settings: &Settings, auth: &Auth) -> Result<(), Failure> {
    let first = |name: &str| settings.get(name).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let open = ["listen", "admin"].into_iter().filter_map(first).find(|address| !address.ip().is_loopback());
    match open {
        Some(address) if matches!(auth, Auth::None) => Err(hapax_server::ServerError::OpenToAll(address).into()),
        Some(_) | None => Ok(()),
    }
}

fn log_of(settings: &Settings) -> Log {
    let format = if settings.get("log_format") == "json" { Format::Json } else { Format::Text };
    Level::parse(settings.get("log")).map_or_else(Log::silent, |level| Log::to_stderr(level, format))
}

fn limits_of(settings: &Settings) -> Result<Limits, Failure> {
    Ok(Limits {
        connections: settings.number("connections")?,
        // A quarter is left to others, however many one address asks for.
        connections_per_peer: settings.number("connections")?.div_ceil(4).saturating_mul(3),
        body: settings.number("body_bytes")?,
        readers: settings.number("readers")?,
        readers_per_tenant: settings.number("readers_per_tenant")?,
        reader_time: Duration::from_secs(settings.number("reader_seconds")? as u64),
        begins_per_tenant: settings.number("begins_per_tenant")?,
        queue_waiters_per_tenant: settings.number("a2a_waiters_per_tenant")?,
        ..Limits::default()
    })
}

async fn listen(address: &str) -> Result<TcpListener, Failure> {
    hapax_server::listening(address).await.map_err(|error| Failure::Listen { address: address.to_owned(), error })
}

/// Whoever asked, the operator at the process is told as well, and of what the file says that only a restart puts in force.
pub(crate) fn told_of_reload(done: Result<Vec<&'static str>, Failure>) -> Result<Vec<String>, String> {
    match &done {
        Ok(waiting) if waiting.is_empty() => errln!("hapax: reloaded"),
        Ok(waiting) => errln!("hapax: reloaded; {} changed as well, and wait for a restart", waiting_words(waiting)),
        Err(failure) => errln!("hapax: not reloaded, all stays as it was: {failure}"),
    }
    let names = |waiting: Vec<&str>| waiting.into_iter().map(str::to_owned).collect();
    done.map(names).map_err(|failure| failure.to_string())
}

pub(crate) fn waiting_words(names: &[impl AsRef<str>]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// Puts keys, policies and routes in force again, all of it or nothing of it; what else is set otherwise than at the start.
fn reloaded(
    args: &ServeArgs,
    at_start: &Settings,
    server: &Server,
    engine: &Engine,
    gateway: Option<&Beside>,
    actor: &str,
) -> Result<Vec<&'static str>, Failure> {
    let settings = Settings::read(args)?;
    let waiting = settings.differing(at_start);
    let (auth, key_file) = (auth_of(settings.get("keys"))?, key_file_of(&settings));
    // Asked before anything is put in force, so that a refusal leaves all as it was.
    hapax_server::fit_for_queue(&settings.policies)?;
    let wanted = gateway::wanted(args, settings.get("store"))?;
    let setup = gateway::prepare(gateway, wanted, &settings.policies, engine)?;
    let policies_and_keys = || server.reload(auth, key_file, settings.policies, actor);
    match gateway.zip(setup) {
        Some((gateway, setup)) => gateway.running.reload(setup, policies_and_keys)?,
        None => policies_and_keys()?,
    }
    Ok(waiting)
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floating-point numbers")]
fn gauges(ledger: &Ledger) -> Vec<Gauge> {
    let status = ledger.status();
    let gauge = |name, help, value: u64| Gauge { name, help, value: value as f64, counter: false };
    let counter = |name, help, value: u64| Gauge { name, help, value: value as f64, counter: true };
    vec![
        gauge("hapax_ledger_records", "Ids in the index, removals that are still remembered included.", status.slots),
        gauge("hapax_ledger_index_bytes", "Memory of the index.", status.index_bytes),
        gauge("hapax_ledger_needed_bytes", "Bytes of the log that are still needed.", status.needed_bytes),
        gauge("hapax_ledger_log_bytes", "Bytes of the log on disk.", status.log_bytes),
        counter("hapax_ledger_syncs_total", "Frames written, each with one sync.", status.frames),
        counter(
            "hapax_ledger_writes_total",
            "Writes in them: divided by the syncs, the size of a batch.",
            status.writes,
        ),
        counter("hapax_ledger_carried_total", "Records carried forward by the cleaner.", status.carried),
        counter("hapax_ledger_clock_steps_total", "Jumps of the machine's clock.", status.clock_steps),
    ]
}
