//! What lies in a data directory beside the ledger: without the secret all callers would be strangers, and their retries
//! would run twice; without the audit log nobody would know who decided what.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use hapax_server::{
    ServerError,
    audit::{Action, Audit, AuditError},
};
use serde_json::json;

use super::who;
use crate::failure::Failure;

/// Takes it along to a repaired directory, and writes a row about the repair. What was taken along.
pub(super) fn take_along(from: &Path, to: &Path, damage: usize) -> Result<Vec<String>, Failure> {
    let mut taken = Vec::new();
    for name in names(from)? {
        copy(&from.join(&name), &to.join(&name)).map_err(|error| failed(&from.join(&name), &error))?;
        taken.push(name);
    }
    File::open(to).and_then(|dir| dir.sync_all()).map_err(|error| failed(to, &error))?;
    let (audit, evidence) = match Audit::open(to) {
        Ok((audit, _)) => (audit, None),
        // The log was damaged too. It stays as evidence, and a new chain begins, which says so.
        Err(AuditError::Broken { path, bad }) => {
            for name in taken.iter().filter(|name| name.contains(".log")) {
                let (old, new) = (to.join(name), to.join(format!("broken-{name}")));
                fs::rename(&old, &new).map_err(|error| failed(&old, &error))?;
            }
            let name = path.file_name().unwrap_or_default().display().to_string();
            (Audit::open(to).map_err(ServerError::from)?.0, Some(format!("broken-{name}: {bad}")))
        }
        Err(error) => return Err(ServerError::from(error).into()),
    };
    let detail = json!({
        "from": from.display().to_string(), "damaged_places": damage, "taken_along": taken, "broken_log": evidence,
    });
    audit.append(&who::actor(), Action::Repair, "", detail).map_err(ServerError::from)?;
    audit.checkpoint().map_err(ServerError::from)?;
    Ok(taken)
}

/// The secret, and all files of the audit log.
fn names(from: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(|error| failed(from, &error))? {
        let entry = entry.map_err(|error| failed(from, &error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && (name == "secret" || name.starts_with("audit")) && !name.ends_with(".lock") {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let bytes = fs::read(from)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let why = format!("{error}; it was not taken along, so do not use the new directory");
    Failure::Store { url: PathBuf::from(path).display().to_string(), why }
}
