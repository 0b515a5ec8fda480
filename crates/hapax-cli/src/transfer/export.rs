use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use data_encoding::BASE64;
use hapax::{Id, Stamp, Store};
use hapax_engine::{SystemWallClock, WallClock as _};
use hapax_server::audit::{Action, Audit, AuditError};
use hapax_store::{Changes, Kind, codec, wire};
use serde_json::json;

use super::{
    failed, file_failed, ledger_in,
    line::{VERSION, Writer},
    named,
    progress::Progress,
    secret_of,
};
use crate::{commands::who, failure::Failure, store, whole::Whole};

/// Write all operations of a store into a file, with their answers. No process may be writing to it meanwhile.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The file to write; it must not be there yet
    file: PathBuf,
    /// The store to read [env: HAPAX_STORE] [default: the data directory]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The directory with the ledger, or beside a store that is not a file: there lies the secret [env: HAPAX_DATA] [default:
    /// ./hapax-data]
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

/// So many records are asked for at once.
const AT_ONCE: usize = 1_000;

#[derive(Default)]
struct Counts {
    operations: u64,
    bodies: u64,
    /// Groups, tasks, beats, plans and memos.
    left_out: u64,
}

pub(crate) async fn run(export: Export) -> Result<(), Failure> {
    let (url, data) = named(&export.store, &export.data)?;
    if let Some(directory) = ledger_in(&url) {
        store::is_ledger(directory)?;
    }
    let opened = store::open(&url, &data).await?;
    let wrong = file_failed(&export.file);
    let (whole, file) = Whole::begin(&export.file).map_err(&wrong)?;
    let secret = secret_of(opened.directory.as_ref())?;
    if let Some(audit) = log_in(opened.directory.as_deref())? {
        let name = export.file.file_name().unwrap_or_default().to_string_lossy();
        let detail = json!({ "step": "export", "store": store::shown(&url) });
        let written = audit.append(&who::actor(), Action::Operate, &name, detail);
        written.map_err(hapax_server::ServerError::from)?;
    }
    let (counts, file) = write(&*opened.store, secret, BufWriter::new(file), &wrong).await?;
    let file = file.into_inner().map_err(|error| wrong(error.into_error()))?;
    whole.put(&file).map_err(&wrong)?;
    if counts.left_out > 0 {
        errln!(
            "hapax: warning: {} groups, tasks, beats, plans and memos were left out; an export holds operations only",
            counts.left_out
        );
    }
    if export.json {
        outln!(
            "{}",
            json!({ "file": export.file, "operations": counts.operations, "bodies": counts.bodies, "left_out": counts.left_out })
        );
    } else {
        outln!("{}: {} operations, {} bodies", export.file.display(), counts.operations, counts.bodies);
    }
    Ok(())
}

/// The log of the directory, if it has one. It has one writer: beside a daemon that is the daemon.
fn log_in(directory: Option<&Path>) -> Result<Option<Audit>, Failure> {
    let Some(directory) = directory.filter(|directory| directory.join("audit.log").exists()) else { return Ok(None) };
    match Audit::open(directory) {
        Ok((audit, _)) => Ok(Some(audit)),
        Err(AuditError::InUse { path }) => {
            errln!(
                "hapax: warning: another process writes {}, so that no row of the audit log tells of this export",
                path.display()
            );
            Ok(None)
        }
        Err(error) => Err(hapax_server::ServerError::from(error).into()),
    }
}

async fn write<W: Write>(
    store: &dyn Store,
    secret: Option<String>,
    to: W,
    wrong: &impl Fn(std::io::Error) -> Failure,
) -> Result<(Counts, W), Failure> {
    let mut lines = Writer::new(to);
    let mut counts = Counts::default();
    let began = now(store).await?;
    let head =
        json!({ "hapax_export": VERSION, "wall_ms": SystemWallClock.now().0, "store_ms": began.0, "secret": secret });
    lines.line(&head).map_err(wrong)?;
    let mut progress = Progress::new("exported");
    let mut cursor = None;
    loop {
        let page = store.changes(cursor.as_ref(), AT_ONCE).await.map_err(failed(store))?;
        let Changes::Page { items, next } = page else { return Err(busy(store)) };
        if items.is_empty() {
            break;
        }
        cursor = Some(next);
        for change in items {
            // Half of an export from before a write and half from after it would be of no moment at all.
            if change.snapshot.stamp > began.plus(store.clock_error()) {
                return Err(busy(store));
            }
            let Some(envelope) = &change.snapshot.record else { continue };
            match envelope.kind {
                Kind::OPERATION => {}
                // Who sweeps, and which secret the processes share: that is the store's own.
                Kind::CLAIM | Kind::MARK => continue,
                _ => {
                    counts.left_out += 1;
                    continue;
                }
            }
            let unreadable = |why: String| Failure::Store { url: store.name(), why };
            let record = codec::open(envelope).map_err(|error| unreadable(format!("{}: {error}", change.id)))?;
            // Its windows count from the moment of its write here, and go on counting from that moment elsewhere.
            let record = record.settled(change.snapshot.version, change.snapshot.stamp);
            for body in record.stored_bodies() {
                let bytes = store.get_body(body).await.map_err(failed(store))?;
                let bytes = bytes.ok_or_else(|| unreadable(format!("{}: its body is not there", change.id)))?;
                let name = data_encoding::HEXLOWER.encode(&body.0);
                let line = json!({ "body": name, "owner": change.id.to_string(), "bytes": BASE64.encode(&bytes) });
                lines.line(&line).map_err(wrong)?;
                counts.bodies += 1;
            }
            let line = json!({
                "operation": change.id.to_string(),
                "surface": &*record.about.surface,
                "tenant": &*record.about.tenant,
                "state": format!("{:?}", record.state.name()).to_lowercase(),
                "version": change.snapshot.version.0,
                "record": BASE64.encode(&wire::encode(&codec::seal(&record))),
            });
            lines.line(&line).map_err(wrong)?;
            counts.operations += 1;
            progress.at(counts.operations, None);
        }
    }
    let end = json!({ "end": true, "operations": counts.operations, "bodies": counts.bodies });
    lines.line(&end).map_err(wrong)?;
    Ok((counts, lines.finish().map_err(wrong)?))
}

/// Every answer of a store tells its time, also that nothing is known of an id.
pub(super) async fn now(store: &dyn Store) -> Result<Stamp, Failure> {
    match store.now() {
        Some(now) => Ok(now),
        None => Ok(store.get(&Id([0; 32])).await.map_err(failed(store))?.now),
    }
}

fn busy(store: &dyn Store) -> Failure {
    let why = "somebody writes to it, so that the export would be of no one moment; stop the daemons and gateways that use \
               it, and export again [HX0142]";
    Failure::Store { url: store.name(), why: why.to_owned() }
}
