//! `hapax serve`: the API, the page, the administrators' door, on one store.

pub(crate) mod alias;
pub(crate) mod args;
pub(crate) mod settings;
mod socket;

use std::{path::Path, sync::Arc, time::Duration};

use hapax::{Hapax, Ledger};
use hapax_server::{
    Auth, Format, Gauge, Keys, Level, Limits, Log, Server,
    audit::{Action, Audit},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{failure::Failure, gateway::kept_secret, store};
use args::ServeArgs;
use settings::Settings;
pub(crate) use socket::{bind as bind_socket, path_in as socket_in, remove as remove_socket};

pub(crate) async fn run(args: ServeArgs) -> Result<(), Failure> {
    let settings = Settings::read(&args)?;
    for warning in &settings.warnings {
        eprintln!("hapax: warning: {warning}");
    }
    let opened = store::open(settings.get("store"))?;
    let directory = opened.directory.clone();
    let engine = Hapax::on(Arc::clone(&opened.store))
        .policies(settings.policies.clone())
        .settings(hapax::Settings { waiters: settings.number("waiters")?, ..hapax::Settings::default() })
        .secret(kept_secret(directory.as_deref())?)
        .build()?;
    let durability = opened.store.durability();
    let (audit, torn) = audit_of(directory.as_deref())?;
    let log = log_of(&settings);
    let auth = auth_of(settings.get("keys"))?;
    let without_keys = matches!(auth, Auth::None);
    let mut builder = Server::builder(engine).auth(auth).limits(limits_of(&settings)?).log(log).audit(audit);
    builder = builder.providers(settings.providers.clone());
    if let Some(ledger) = &opened.ledger {
        let ledger = Arc::clone(ledger);
        builder = builder.gauges(move || gauges(&ledger));
    }
    let server = builder.build()?;

    let public = listen(settings.get("listen")).await?;
    let admin = match settings.get("admin") {
        "off" => None,
        address => Some(listen(address).await?),
    };
    let at = |listener: &TcpListener| listener.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::Signals)?;
    note(&server, Action::Started, "")?;

    eprintln!("hapax serve on http://{}", at(&public));
    eprintln!("  page      http://{}/", at(&public));
    eprintln!("  records   {}, which promises: {durability}", settings.get("store"));
    match &admin {
        Some(listener) => eprintln!("  admin     http://{}/ (all tenants)", at(listener)),
        None => eprintln!("  admin     off"),
    }
    if let Some(cut) = torn {
        eprintln!("  audit     {cut} bytes of an unfinished row were cut off, and a row says so");
    }
    if without_keys {
        eprintln!(
            "hapax: warning: no API keys: every process on this machine may do everything, as the tenant `default`. \
             `hapax key new` makes a key"
        );
    }

    let mut doors = tokio::task::JoinSet::new();
    if let Some(directory) = &directory {
        let (server, socket) = (server.clone(), socket::bind(directory)?);
        doors.spawn(async move {
            server.serve_socket(socket).await;
            Ok(())
        });
    }
    if let Some(admin) = admin {
        let server = server.clone();
        doors.spawn(async move { server.serve_admin(admin).await });
    }
    let public_server = server.clone();
    doors.spawn(async move { public_server.serve(public).await });
    let books = tokio::spawn({
        let server = server.clone();
        async move { server.keep_books().await }
    });
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => reload(&args, &server),
            Some(ended) = doors.join_next() => {
                // A door that cannot be opened is a mistake in the settings, and no reason to serve by half.
                if let Ok(Err(error)) = ended {
                    return Err(error.into());
                }
            }
        }
    }
    eprintln!("hapax: stopping");
    server.stop();
    while doors.join_next().await.is_some() {}
    let _ended = books.await;
    note(&server, Action::Stopped, "")?;
    server.audit().checkpoint().map_err(hapax_server::ServerError::from)?;
    if let Some(directory) = &directory {
        socket::remove(directory);
    }
    eprintln!("hapax: stopped");
    Ok(())
}

fn note(server: &Server, action: Action, subject: &str) -> Result<(), Failure> {
    let detail = serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "process": std::process::id() });
    server.audit().append("hapax", action, subject, detail).map_err(hapax_server::ServerError::from)?;
    Ok(())
}

fn audit_of(directory: Option<&Path>) -> Result<(Audit, Option<u64>), Failure> {
    let Some(directory) = directory else { return Ok((Audit::in_memory(), None)) };
    let (audit, opened) = Audit::open(directory).map_err(hapax_server::ServerError::from)?;
    Ok((audit, (opened.cut > 0).then_some(opened.cut)))
}

fn auth_of(keys: &str) -> Result<Auth, Failure> {
    if keys == "none" {
        return Ok(Auth::None);
    }
    let text =
        std::fs::read_to_string(keys).map_err(|error| Failure::Keys { path: keys.into(), why: error.to_string() })?;
    let keys = Keys::from_toml(&text).map_err(|error| Failure::Keys { path: keys.into(), why: error.to_string() })?;
    Ok(Auth::Keys(keys))
}

fn log_of(settings: &Settings) -> Log {
    let format = if settings.get("log_format") == "json" { Format::Json } else { Format::Text };
    Level::parse(settings.get("log")).map_or_else(Log::silent, |level| Log::to_stderr(level, format))
}

fn limits_of(settings: &Settings) -> Result<Limits, Failure> {
    Ok(Limits {
        connections: settings.number("connections")?,
        body: settings.number("body_bytes")?,
        readers: settings.number("readers")?,
        readers_per_tenant: settings.number("readers_per_tenant")?,
        reader_time: Duration::from_secs(settings.number("reader_seconds")? as u64),
        begins_per_tenant: settings.number("begins_per_tenant")?,
        ..Limits::default()
    })
}

async fn listen(address: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| Failure::Listen { address: address.to_owned(), error })
}

/// Puts keys and policies in force again, all of it or nothing of it.
fn reload(args: &ServeArgs, server: &Server) {
    let read = Settings::read(args).and_then(|settings| Ok((auth_of(settings.get("keys"))?, settings.policies)));
    match read {
        Ok((auth, policies)) => {
            if let Err(error) = server.reload(auth, policies, "signal HUP") {
                eprintln!("hapax: not reloaded, all stays as it was: {error}");
            } else {
                eprintln!("hapax: reloaded");
            }
        }
        Err(failure) => eprintln!("hapax: not reloaded, all stays as it was: {failure}"),
    }
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
