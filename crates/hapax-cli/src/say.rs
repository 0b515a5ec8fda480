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

/// Somebody else's words, for a line of ours: nothing in them steers the terminal or begins a line.
pub(crate) fn plain(words: &str) -> String {
    escaped(words, |_| false)
}

/// The same for words that may have lines of their own, such as an answer or a report.
pub(crate) fn plain_lines(words: &str) -> String {
    escaped(words, |c| c == '\n' || c == '\t')
}

fn escaped(words: &str, is_kept: impl Fn(char) -> bool) -> String {
    words.chars().fold(String::with_capacity(words.len()), |mut plain, c| {
        if steers(c) && !is_kept(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
        plain
    })
}

/// Controls, old and new; what ends a line or turns the direction of writing without being seen.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_written_out() {
        assert_eq!(plain("paid\u{1b}[2J\r\n9\u{9b}31m\u{202e}"), "paid\\u{1b}[2J\\r\\n9\\u{9b}31m\\u{202e}");
        assert_eq!(plain_lines("one\n\ttwo\r"), "one\n\ttwo\\r");
        assert_eq!(plain("Grüße, 東京 👍"), "Grüße, 東京 👍");
    }
}
