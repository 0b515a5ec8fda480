//! What a command says: results on standard output, all else on standard error.
//!
//! Whoever reads may leave at any time, and no work ends over that. Without a standard error there is nowhere to say so. A reader
//! of standard output that has seen enough, as `head` has, is told no more, and the command ends as it would have; output that
//! could not be written for another reason is a failure, which is said at the end.

use std::{
    fmt,
    io::{self, ErrorKind, Write as _},
    sync::OnceLock,
};

use crate::failure::Failure;

/// Why standard output takes no more.
static ENDED: OnceLock<io::Error> = OnceLock::new();

/// As `println!`, for results.
macro_rules! outln {
    ($($words:tt)*) => { $crate::say::out(::std::format_args!($($words)*)) };
}

/// As `eprintln!`, for all else.
macro_rules! errln {
    ($($words:tt)*) => { $crate::say::err(::std::format_args!($($words)*)) };
}

pub(crate) fn out(words: fmt::Arguments<'_>) {
    if ENDED.get().is_none()
        && let Err(error) = io::stdout().lock().write_all(line(words).as_bytes())
    {
        let _the_first_counts = ENDED.set(error);
    }
}

pub(crate) fn err(words: fmt::Arguments<'_>) {
    let _unheard = io::stderr().lock().write_all(line(words).as_bytes());
}

/// Written at once, so that lines of several threads do not mix.
fn line(words: fmt::Arguments<'_>) -> String {
    format!("{words}\n")
}

/// Whether all results arrived, as far as anybody still wanted them.
pub(crate) fn all_out() -> Result<(), Failure> {
    if let Err(error) = io::stdout().flush() {
        let _the_first_counts = ENDED.set(error);
    }
    match ENDED.get() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::Output(error.to_string())),
        Some(_) | None => Ok(()),
    }
}
