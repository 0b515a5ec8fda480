use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use data_encoding::BASE64;
use hapax::{Ledger, Store};
use hapax_engine::{SystemWallClock, WallClock as _};
use hapax_store::{Kind, codec, wire};
use serde_json::json;

use super::{
    failed, file_failed,
    line::{VERSION, Writer},
    progress::Progress,
    secret_of,
};
use crate::{failure::Failure, store};

/// Write all operations of a store into a file, with their answers. No process may be using it.
#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The file to write; it must not be there yet
    file: PathBuf,
    /// The store: `file:DIRECTORY`
    #[arg(long, env = "HAPAX_STORE", value_name = "URL", default_value = store::DEFAULT)]
    store: String,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Counts {
    operations: u64,
    bodies: u64,
    /// Groups, beats, plans and memos.
    left_out: u64,
}

pub(crate) async fn run(export: Export) -> Result<(), Failure> {
    let opened = store::open(&export.store, Path::new(store::DATA)).await?;
    let Some(ledger) = opened.ledger.clone() else {
        let rule = "only a `file:` store can say what it holds; export from the directory".to_owned();
        return Err(Failure::Flag("--store", rule));
    };
    let wrong = file_failed(&export.file);
    // Beside, and moved when it is whole: half an export is none.
    let beside = export.file.with_extension("part");
    if export.file.exists() {
        return Err(wrong(std::io::Error::other("it is there already, and is not overwritten; choose another name")));
    }
    let file = File::create(&beside).map_err(&wrong)?;
    let secret = secret_of(opened.directory.as_ref())?;
    let written = write(&ledger, secret, BufWriter::new(file), &wrong).await;
    let counts = match written {
        Ok((counts, file)) => {
            let file = file.into_inner().map_err(|error| wrong(error.into_error()))?;
            file.sync_all().map_err(&wrong)?;
            std::fs::rename(&beside, &export.file).map_err(&wrong)?;
            counts
        }
        Err(failure) => {
            let _half = std::fs::remove_file(&beside);
            return Err(failure);
        }
    };
    if counts.left_out > 0 {
        eprintln!(
            "hapax: warning: {} groups, beats, plans and memos were left out; an export holds operations only",
            counts.left_out
        );
    }
    if export.json {
        println!(
            "{}",
            json!({ "file": export.file, "operations": counts.operations, "bodies": counts.bodies, "left_out": counts.left_out })
        );
    } else {
        println!("{}: {} operations, {} bodies", export.file.display(), counts.operations, counts.bodies);
    }
    Ok(())
}

async fn write<W: Write>(
    ledger: &Ledger,
    secret: Option<String>,
    to: W,
    wrong: &impl Fn(std::io::Error) -> Failure,
) -> Result<(Counts, W), Failure> {
    let store: &dyn Store = ledger;
    let mut lines = Writer::new(to);
    let mut counts = Counts::default();
    let now = store.now().map(|now| now.0);
    let head =
        json!({ "hapax_export": VERSION, "wall_ms": SystemWallClock.now().0, "store_ms": now, "secret": secret });
    lines.line(&head).map_err(wrong)?;
    let mut progress = Progress::new("exported");
    let mut number = 0;
    while let Some(part) = ledger.part(number).map_err(failed(store))? {
        number += 1;
        for change in part {
            let Some(envelope) = &change.snapshot.record else { continue };
            if envelope.kind != Kind::OPERATION {
                counts.left_out += 1;
                continue;
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
