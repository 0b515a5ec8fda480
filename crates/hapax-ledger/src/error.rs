use std::{io, path::PathBuf};

use crate::check::Damage;

/// Why a ledger could not be opened, checked or repaired. Each says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{path} is in use by another process; stop that one, or use another directory")]
    InUse { path: PathBuf },
    #[error("{path} cannot be written to: {source}; the ledger needs a directory that this user may write to")]
    ReadOnly { path: PathBuf, source: io::Error },
    #[error(
        "{path} was written by a newer version (format {found}, this program knows up to {known}); use that version, or another directory"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{path} is not a ledger: {reason}; name an empty directory or one that a ledger made")]
    NotALedger { path: PathBuf, reason: String },
    #[error(
        "{path} is damaged: {damage}; nothing was changed. Look closer with `hapax_ledger::check`, save what is whole into a new directory with `hapax_ledger::repair`"
    )]
    Corrupt { path: PathBuf, damage: Damage },
    #[error("{path} is not empty; a repair only writes to a new directory")]
    NotEmpty { path: PathBuf },
    #[error("{path}: cannot {doing}: {source}")]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| {
            if matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied) {
                Self::ReadOnly { path, source }
            } else {
                Self::Io { path, doing, source }
            }
        }
    }
}
