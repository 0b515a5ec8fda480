use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use hapax::ledger;
use serde_json::json;

use super::{beside, reach::directory_here, show};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Read every byte and say what is damaged; nothing is changed. Exit code 8 if anything is.
    Check {
        /// [default: the data directory]
        directory: Option<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Save what is whole into a new directory, with the secret and the audit log. The damaged one is not touched.
    Repair {
        directory: PathBuf,
        to: PathBuf,
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: Ledger) -> Result<(), Failure> {
    let failed = |path: &PathBuf, why: String| Failure::Store { url: format!("file:{}", path.display()), why };
    let (report, json, damaged_is_failure) = match command {
        Ledger::Check { directory, json } => {
            let directory = directory.map_or_else(directory_here, Ok)?;
            is_there(&directory).map_err(|why| failed(&directory, why))?;
            (ledger::check(&directory).map_err(|error| failed(&directory, error.to_string()))?, json, true)
        }
        Ledger::Repair { directory, to, json } => {
            is_there(&directory).map_err(|why| failed(&directory, why))?;
            let report = ledger::repair(&directory, &to).map_err(|error| failed(&directory, error.to_string()))?;
            let taken = beside::take_along(&directory, &to, report.damage.len())?;
            if !json {
                outln!("taken along: {}", if taken.is_empty() { "nothing".to_owned() } else { taken.join(", ") });
            }
            (report, json, false)
        }
    };
    let damage: Vec<String> = report.damage.iter().map(ToString::to_string).collect();
    if json {
        show::json(&json!({
            "whole": report.is_whole(), "segments": report.segments, "frames": report.frames, "entries": report.entries,
            "bodies": report.bodies, "ids": report.ids, "damage": damage,
            "torn": report.torn.as_ref().map(ToString::to_string),
        }));
    } else {
        outln!(
            "{} segments, {} frames, {} entries, {} ids, {} bodies",
            report.segments,
            report.frames,
            report.entries,
            report.ids,
            report.bodies
        );
        if let Some(torn) = &report.torn {
            outln!("unfinished, harmless: {torn}");
        }
        for place in &damage {
            outln!("damaged: {place}");
        }
        outln!("{}", if damage.is_empty() { "whole" } else { "damaged" });
    }
    if damaged_is_failure && !damage.is_empty() { Err(Failure::Damaged(damage.len())) } else { Ok(()) }
}

/// Asked before the lock is taken, which would be made on the way. What cannot be read is for the ledger to say.
fn is_there(directory: &Path) -> Result<(), String> {
    match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err("there is no such directory; name that of a ledger [HX0135]".to_owned())
        }
        Ok(_) if !ledger::is_ledger(directory) => {
            let reason = "it has no `ledger` file".to_owned();
            Err(ledger::OpenError::NotALedger { path: directory.to_owned(), reason }.to_string())
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
