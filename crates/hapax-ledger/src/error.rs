use std::{io, path::PathBuf};

use crate::{check::Damage, log::is_full};

/// Why a ledger could not be opened, checked or repaired. Each says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{path} is in use by another process; stop that one, or use another directory [HX0020]")]
    InUse { path: PathBuf },
    #[error("{path} cannot be written to: {source}; the ledger needs a directory that this user may write to [HX0021]")]
    ReadOnly { path: PathBuf, source: io::Error },
    #[error(
        "{path} was written by a newer version (format {found}, this program knows up to {known}); use that version, or another directory [HX0022]"
    )]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error("{path} is not a ledger: {reason}; name an empty directory or one that a ledger made [HX0023]")]
    NotALedger { path: PathBuf, reason: String },
    #[error(
        "{path} is damaged: {damage}; nothing was changed. Look closer with `hapax ledger check {path}`, save what is whole with `hapax ledger repair {path} COPY` [HX0024]"
    )]
    Corrupt { path: PathBuf, damage: Damage },
    #[error("{path} is not empty; a repair only writes to a new directory [HX0025]")]
    NotEmpty { path: PathBuf },
    #[error("{path}: cannot {doing}: {source}; free room on its disk, nothing is lost [HX0026]")]
    Full { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{path}: cannot {doing}: {source}; mend the disk or its rights and start again [HX0027]")]
    Io { path: PathBuf, doing: &'static str, source: io::Error },
}

impl OpenError {
    pub(crate) fn io(path: impl Into<PathBuf>, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| {
            let is = |kinds: &[io::ErrorKind]| kinds.contains(&source.kind());
            if is(&[io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied]) {
                Self::ReadOnly { path, source }
            } else if is(&[io::ErrorKind::NotADirectory, io::ErrorKind::AlreadyExists]) {
                // There, or somewhere on the way there, stands a file.
                Self::NotALedger { path, reason: "it is no directory".into() }
            } else if is_full(&source) {
                Self::Full { path, doing, source }
            } else {
                Self::Io { path, doing, source }
            }
        }
    }
}
