use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use data_encoding::BASE64;
use hapax::{Id, Store, StoreError};
use hapax_engine::{SystemWallClock, WallClock as _};
use hapax_server::audit::{Action, Audit};
use hapax_store::{BodyId, Envelope, Swap, codec, wire};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    export::now,
    failed, file_failed, ledger_in,
    line::{BadLine, Reader, VERSION},
    named,
    progress::Progress,
    secret_of,
};
use crate::{commands::who, failure::Failure, store};

/// Put the operations of an export into a store. What is there stays as it is; saying it twice adds nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// The file that `hapax export` wrote
    file: PathBuf,
    /// The store to fill; no daemon may be using its directory [env: HAPAX_STORE] [default: the data directory]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The directory with the ledger, or beside a store that is not a file: there lies the secret [env: HAPAX_DATA] [default:
    /// ./hapax-data]
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,
    /// Look at the whole file and say what is in it; nothing is written
    #[arg(long)]
    check: bool,
    /// Import although the two stores' clocks differ, which moves the end of every window by the difference
    #[arg(long)]
    accept_clocks: bool,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

/// What one operation came to.
enum Put {
    New,
    Same,
    /// Another record stands under this id; it was left alone.
    Kept,
}

#[derive(Default)]
struct Counts {
    new: u64,
    same: u64,
    kept: u64,
    fences_behind: u64,
}

/// Writes under way at once: the store gathers them into one sync.
const AT_ONCE: usize = 256;
/// A difference below this is drift.
const DRIFT_MS: u64 = 60_000;

struct Head {
    wall: u64,
    store: Option<u64>,
    secret: Option<String>,
    operations: u64,
}

pub(crate) async fn run(import: Import) -> Result<(), Failure> {
    let path = &import.file;
    let damaged = |bad: BadLine| Failure::Damage { path: path.clone(), line: bad.number, why: bad.why };
    // All of it is read before anything is written: a file that is damaged is refused whole.
    let head = survey(&mut open(path)?).map_err(damaged)?;
    if import.check {
        if import.json {
            outln!("{}", json!({ "file": path, "whole": true, "operations": head.operations }));
        } else {
            outln!("{}: whole, {} operations", path.display(), head.operations);
        }
        return Ok(());
    }
    let (url, data) = named(&import.store, &import.data)?;
    if let Some(directory) = ledger_in(&url).filter(|directory| directory.exists()) {
        store::may_be_ledger(directory)?;
    }
    let opened = store::open(&url, &data).await?;
    // A daemon beside the store writes its audit log in there.
    let _held = opened.hold().await?;
    let target = Arc::clone(&opened.store);
    fits(&head, &*target, opened.directory.as_ref(), import.accept_clocks).await?;
    let audit = match &opened.directory {
        None => None,
        Some(directory) => Some(Audit::open(directory).map_err(hapax_server::ServerError::from)?.0),
    };
    let note = |action: Action, detail: Value| match &audit {
        None => Ok(()),
        Some(audit) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let written = audit.append(&who::actor(), action, &name, detail).map(drop);
            written.map_err(|error| Failure::Server(error.into()))
        }
    };
    note(Action::Import, json!({ "operations": head.operations }))?;
    let counts = fill(&target, path, head.operations).await?;
    note(Action::Import, json!({ "new": counts.new, "same": counts.same, "kept": counts.kept }))?;
    if import.json {
        outln!(
            "{}",
            json!({ "new": counts.new, "same": counts.same, "kept": counts.kept, "fences_behind": counts.fences_behind })
        );
    } else {
        outln!(
            "{} new, {} were there already, {} differ and were left as they are",
            counts.new,
            counts.same,
            counts.kept
        );
    }
    if counts.fences_behind > 0 {
        errln!(
            "hapax: warning: {} operations that may run again had higher fences where they come from; a downstream that \
             fences will refuse their next attempts until it is told",
            counts.fences_behind
        );
    }
    Ok(())
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, Failure> {
    Ok(Reader::new(BufReader::new(File::open(path).map_err(file_failed(path))?)))
}

/// Reads every line, and every record in it.
fn survey(lines: &mut Reader<BufReader<File>>) -> Result<Head, BadLine> {
    let first = lines.next()?.ok_or_else(|| lines.bad("there is nothing in it"))?;
    match first["hapax_export"].as_u64() {
        Some(VERSION) => {}
        Some(newer) => return Err(lines.bad(format!("it is of version {newer}; this program reads {VERSION}"))),
        None => return Err(lines.bad("it is no export")),
    }
    let mut head = Head {
        wall: first["wall_ms"].as_u64().unwrap_or_default(),
        store: first["store_ms"].as_u64(),
        secret: first["secret"].as_str().map(str::to_owned),
        operations: 0,
    };
    let mut bodies = 0;
    loop {
        let line = lines.next()?.ok_or_else(|| lines.bad("the last line is missing: the file was cut short"))?;
        if line["end"] == true {
            if line["operations"] != head.operations || line["bodies"] != bodies {
                return Err(lines.bad("it counts other lines than there are"));
            }
            if lines.next()?.is_some() {
                return Err(lines.bad("something follows the last line"));
            }
            return Ok(head);
        }
        match Item::of(&line).map_err(|why| lines.bad(why))? {
            Item::Body { .. } => bodies += 1,
            Item::Operation { .. } => head.operations += 1,
        }
    }
}

enum Item {
    Body { owner: Id, body: BodyId, bytes: Bytes },
    Operation { id: Id, envelope: Envelope },
}

impl Item {
    fn of(line: &Value) -> Result<Self, String> {
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let bytes = |name: &str| BASE64.decode(text(name).as_bytes()).map(Bytes::from);
        if let Some(name) = line["body"].as_str() {
            let body = Id::parse(name).ok_or("its body has no name")?;
            let owner = Id::parse(text("owner")).ok_or("its body is nobody's")?;
            let bytes = bytes("bytes").map_err(|_| "its bytes are not base64")?;
            return Ok(Self::Body { owner, body: BodyId(body.0), bytes });
        }
        let id = Id::parse(text("operation")).ok_or("it is neither a body nor an operation")?;
        let record = bytes("record").map_err(|_| "its record is not base64")?;
        let envelope = wire::decode(&record).map_err(|error| format!("its record cannot be read: {error}"))?;
        let opened = codec::open(&envelope).map_err(|error| format!("its record cannot be read: {error}"))?;
        // An export from before bytes were counted does not say it.
        let envelope = Envelope { beside: opened.bytes_beside(), ..envelope };
        Ok(Self::Operation { id, envelope })
    }
}

/// Whether the records mean the same here as where they come from.
async fn fits(
    head: &Head,
    target: &dyn Store,
    directory: Option<&PathBuf>,
    accept_clocks: bool,
) -> Result<(), Failure> {
    let here = secret_of(directory)?;
    if let (Some(there), Some(here)) = (&head.secret, &here)
        && there != here
    {
        let why = "the directory has another secret, so every retry would be taken for another request; copy the file \
                   `secret` from where the export was made into an empty directory, and import there [HX0142]";
        return Err(Failure::Store { url: target.name(), why: why.to_owned() });
    }
    if head.secret.is_some() && here.is_none() {
        errln!("hapax: warning: this store has no directory; run it with the secret of the store that was exported");
    }
    let Some(there) = head.store else { return Ok(()) };
    let now = now(target).await?;
    // How far each store's time is from the wall's.
    let ahead = |store: u64, wall: u64| i128::from(store) - i128::from(wall);
    let difference = ahead(now.0, SystemWallClock.now().0) - ahead(there, head.wall);
    if difference.unsigned_abs() > u128::from(DRIFT_MS) && !accept_clocks {
        let why = format!(
            "its clock is {} s {} the other's, so every answer would be kept for so much {} than was promised; mend the \
             clock, or say --accept-clocks [HX0142]",
            difference.unsigned_abs() / 1000,
            if difference > 0 { "ahead of" } else { "behind" },
            if difference > 0 { "less" } else { "longer" },
        );
        return Err(Failure::Store { url: target.name(), why });
    }
    Ok(())
}

async fn fill(target: &Arc<dyn Store>, path: &Path, of: u64) -> Result<Counts, Failure> {
    let damaged = |bad: BadLine| Failure::Damage { path: path.to_owned(), line: bad.number, why: bad.why };
    let mut lines = open(path)?;
    let mut counts = Counts::default();
    let mut progress = Progress::new("imported");
    let mut under_way: JoinSet<Result<(Put, bool), StoreError>> = JoinSet::new();
    let mut take = |done: Result<Result<(Put, bool), StoreError>, tokio::task::JoinError>| {
        let done = done.map_err(|error| Failure::Runtime(std::io::Error::other(error)))?;
        let (put, behind) = done.map_err(failed(&**target))?;
        match put {
            Put::New => counts.new += 1,
            Put::Same => counts.same += 1,
            Put::Kept => counts.kept += 1,
        }
        counts.fences_behind += u64::from(behind);
        progress.at(counts.new + counts.same + counts.kept, Some(of));
        Ok::<_, Failure>(())
    };
    lines.next().map_err(damaged)?;
    while let Some(line) = lines.next().map_err(damaged)? {
        if line["end"] == true {
            break;
        }
        match Item::of(&line).map_err(|why| damaged(lines.bad(why)))? {
            // On disk before the record that names it.
            Item::Body { owner, body, bytes } => {
                target.put_body(&owner, body, bytes).await.map_err(failed(&**target))?;
            }
            Item::Operation { id, envelope } => {
                if under_way.len() >= AT_ONCE
                    && let Some(done) = under_way.join_next().await
                {
                    take(done)?;
                }
                under_way.spawn(put(Arc::clone(target), id, envelope));
            }
        }
    }
    while let Some(done) = under_way.join_next().await {
        take(done)?;
    }
    Ok(counts)
}

/// Puts one record where there is none; whether its fence lies ahead of what this store will give next.
async fn put(target: Arc<dyn Store>, id: Id, envelope: Envelope) -> Result<(Put, bool), StoreError> {
    const TRIES: u32 = 5;
    let mut expected = hapax::Version::NEVER;
    for _ in 0..TRIES {
        match target.swap(&id, expected, Some(envelope.clone())).await {
            Ok(Swap::Swapped { version, .. }) => {
                let live = envelope.lease_end.is_some() || envelope.in_doubt;
                let fence = codec::open(&envelope).ok().map(|record| record.attempt.fence.resolve(version));
                let behind = live && fence.is_some_and(|fence| fence > version);
                return Ok((Put::New, behind));
            }
            Ok(Swap::Conflict(there)) => match there.record {
                Some(record) => {
                    let settled = |envelope: &Envelope| codec::open(envelope).ok();
                    let same = settled(&record).map(|known| known.settled(there.version, there.stamp));
                    let same = same.is_some() && same == settled(&envelope);
                    return Ok((if same { Put::Same } else { Put::Kept }, false));
                }
                // It was here once and is gone: its place is free.
                None => expected = there.version,
            },
            // It may have landed; the next try sees it.
            Err(StoreError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Unavailable { store: target.name(), reason: "it does not say what became of a write".to_owned() })
}
