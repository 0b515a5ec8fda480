//! The one error of these commands: a sentence for the person who reads it, and what to do next.

use std::fmt;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    rerun: Option<String>,
    closing_line: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), rerun: None, closing_line: None }
    }

    /// Names the command that shows the failure again.
    pub(crate) fn rerun_with(mut self, command: impl Into<String>) -> Self {
        self.rerun = Some(command.into());
        self
    }

    /// A line that is printed after the error, as the very last one.
    pub(crate) fn close_with(mut self, line: impl Into<String>) -> Self {
        self.closing_line = Some(line.into());
        self
    }

    pub(crate) fn rerun(&self) -> Option<&str> {
        self.rerun.as_deref()
    }

    pub(crate) fn closing_line(&self) -> Option<&str> {
        self.closing_line.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.rerun {
            Some(command) => write!(f, "\n  run it again with: {command}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Says what was being done when a lower error came up.
pub(crate) trait While<T> {
    fn while_doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn while_doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Failure::new(format!("{}: {error}", what())))
    }
}
