use std::{io, path::PathBuf};

use hapax_client::{Error as ClientError, Refusal};
use hapax_server::ServerError;

/// Why a command ended without its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Failure {
    #[error("no threads to run on: {0}")]
    Runtime(io::Error),
    #[error("the output could not be written: {0}; what was asked for is done, and only its words are missing")]
    Output(String),
    #[error("`{0}` cannot be used: {1} [HX0050]")]
    Flag(&'static str, String),
    #[error("{} cannot be read: {error}; name a file that can be, for `serve` and `gateway` with --config [HX0050]", .path.display())]
    NoFile { path: PathBuf, error: io::Error },
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: hapax_engine::policy_file::PolicyFileError },
    #[error(transparent)]
    Setup(#[from] hapax_gateway::SetupError),
    #[error(transparent)]
    Tls(#[from] hapax_gateway::inbound::TlsProblem),
    #[error("the store `{url}` cannot be used: {why}")]
    Store { url: String, why: String },
    /// As that, but another process has it, which may be done soon.
    #[error("the store `{url}` cannot be used: {why}")]
    InUse { url: String, why: String },
    /// The URL as it may be shown: without user, password and parameters.
    #[error("the store {url} cannot be opened: {why}")]
    SharedStore { url: String, why: String },
    /// The same, and no server was asked: the URL itself cannot be used.
    #[error("the store {url} cannot be opened: {why}")]
    StoreUrl { url: String, why: String },
    #[error("the data directory {} cannot be used: {error}; name another with --data [HX0135]", .path.display())]
    Data { path: PathBuf, error: io::Error },
    #[error(
        "another process holds the data directory {}; on a shared store each daemon and gateway has one of its own: name it with \
         --data, and copy the file `secret` into it [HX0135]",
        .0.display()
    )]
    DataInUse(PathBuf),
    #[error(
        "the process that runs in {} is on {theirs}, and this command was told {ours}; name the same store, or the directory of \
         another process with --data [HX0135]",
        .data.display()
    )]
    OtherStore { data: PathBuf, theirs: String, ours: String },
    #[error(transparent)]
    Engine(#[from] hapax::BuildError),
    #[error(transparent)]
    Promise(#[from] hapax::EngineError),
    #[error("the secret {} cannot be used: {why} [HX0060]", .path.display())]
    Secret { path: PathBuf, why: String },
    #[error("cannot listen on {address}: {error}; {} [HX0061]", listen_next(.error))]
    Listen { address: String, error: io::Error },
    #[error("cannot watch for signals: {0}")]
    Signals(io::Error),
    #[error("{0} pieces of work were still under way when the grace ended; what they did is in doubt [HX0062]")]
    Unfinished(usize),
    #[error("the demo could not run: {0}")]
    Demo(String),
    #[error("{0} orders were charged more than once behind the gateway; please report this with the seed")]
    ChargedTwice(usize),
    #[error("`{name}` ({from}) cannot be used: {rule} [HX0080]")]
    Setting { name: String, from: String, rule: String },
    #[error("the API keys {} cannot be used: {why}", .path.display())]
    Keys { path: PathBuf, why: String },
    #[error(transparent)]
    Server(#[from] hapax_server::ServerError),
    #[error(transparent)]
    Trace(#[from] hapax_server::TraceError),
    #[error(transparent)]
    Client(#[from] hapax_client::Error),
    #[error("no process runs in {}; start `hapax serve` there, or name another file to compare with [HX0160]", .data.display())]
    NotRunning { data: PathBuf },
    #[error(transparent)]
    Retry(#[from] hapax_queue::SchedulerConfigError),
    #[error("{}: {why} [HX0142]", .path.display())]
    Transfer { path: PathBuf, why: String },
    #[error("{}, line {line}: {why}; nothing was imported. Take the export again [HX0141]", .path.display())]
    Damage { path: PathBuf, line: u64, why: String },
    #[error("there is no audit log to prove at {}: {error}; name a data directory, or a file of a chain [HX0082]", .path.display())]
    Chain { path: PathBuf, error: io::Error },
    #[error("{0} places are not as they were written")]
    Damaged(usize),
    #[error("{0} checks failed: this is no store to trust; nothing of yours was touched [HX0136]")]
    NoStore(usize),
    #[error("interrupted; {0}")]
    Interrupted(&'static str),
    #[error("{0} knobs differ")]
    Differs(usize),
    /// Whoever asked for JSON has its document already.
    #[error(transparent)]
    Told(Box<Failure>),
}

/// What to do about an address that cannot be had.
fn listen_next(error: &io::Error) -> &'static str {
    let is = |kind| error.kind() == kind;
    if is(io::ErrorKind::InvalidInput) {
        "write it as HOST:PORT, such as 127.0.0.1:7878"
    } else if is(io::ErrorKind::AddrNotAvailable) {
        "no network of this machine has it; write another"
    } else if is(io::ErrorKind::PermissionDenied) {
        "ports below 1024 need a right of their own; choose a higher one"
    } else {
        "is another process there?"
    }
}

/// Words, and the code at their end.
pub(crate) fn with_code(words: &str) -> (&str, Option<&str>) {
    let code = words.rsplit_once(" [").and_then(|(before, code)| Some((before, code.strip_suffix(']')?)));
    match code {
        Some((before, code)) if code.starts_with("HX") && !code.contains(' ') => (before, Some(code)),
        Some(_) | None => (words, None),
    }
}

impl Failure {
    /// For whoever gave the command. A daemon's words may have a code of their own, which says more than the one that is added to
    /// them; and whoever has to see to an operation needs to know which.
    pub(crate) fn words(&self) -> String {
        let words = self.to_string();
        let words = match with_code(&words) {
            (before, Some(_)) if with_code(before).1.is_some() => before.to_owned(),
            _ => words,
        };
        match (self.refusal().and_then(|refusal| refusal.operation.as_deref()), with_code(&words)) {
            (None, _) => words,
            (Some(operation), (before, Some(code))) => format!("{before} (operation {operation}) [{code}]"),
            (Some(operation), (before, None)) => format!("{before} (operation {operation})"),
        }
    }

    /// What the daemon answered, if it is what it refused.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        if let Self::Client(
            ClientError::InFlight(refusal)
            | ClientError::Mismatch(refusal)
            | ClientError::InDoubt(refusal)
            | ClientError::Refused(refusal),
        ) = self
        {
            Some(refusal)
        } else {
            None
        }
    }

    /// The exit code, as the table in docs/cli.md has it: [`meaning`].
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Told(failure) => failure.code(),
            Self::Flag(..) | Self::NoFile { .. } | Self::File { .. } | Self::Setup(_) => 2,
            Self::Setting { .. } | Self::Keys { .. } | Self::Trace(_) | Self::Retry(_) => 2,
            Self::StoreUrl { .. } => 2,
            Self::Server(
                ServerError::OpenToAll(_)
                | ServerError::NoKeys
                | ServerError::KeysTakenAway
                | ServerError::UnfitPolicies(_)
                | ServerError::Rules(_),
            ) => 2,
            Self::Unfinished(_) => 3,
            Self::Client(ClientError::InFlight(_)) => 4,
            Self::Client(ClientError::Mismatch(_)) => 5,
            Self::Client(ClientError::InDoubt(_)) => 6,
            Self::Client(ClientError::Refused(refusal)) => of_refusal(refusal),
            Self::Damaged(_) | Self::Damage { .. } | Self::NoStore(_) => 8,
            Self::Differs(_) => 9,
            Self::Runtime(_)
            | Self::Output(_)
            | Self::Transfer { .. }
            | Self::Chain { .. }
            | Self::Tls(_)
            | Self::Store { .. }
            | Self::InUse { .. }
            | Self::SharedStore { .. }
            | Self::Data { .. }
            | Self::DataInUse(_)
            | Self::OtherStore { .. }
            | Self::Promise(_)
            | Self::Interrupted(_)
            | Self::Engine(_)
            | Self::Secret { .. }
            | Self::Listen { .. }
            | Self::Server(_)
            | Self::NotRunning { .. }
            | Self::Client(_)
            | Self::Signals(_)
            | Self::Demo(_)
            | Self::ChargedTwice(_) => 1,
        }
    }
}

/// What the daemon refused, in the table's terms.
fn of_refusal(refusal: &Refusal) -> u8 {
    match (refusal.code.as_str(), refusal.status) {
        // Its store does not answer.
        ("HX0008", _) => 1,
        // The endpoint is there, at another door.
        ("HX0072", _) => 10,
        ("HX0112", _) => 5,
        (_, 404) => 7,
        // What was said cannot be used, and only the daemon could tell.
        (_, 400 | 413 | 415) => 2,
        _ => 10,
    }
}

pub(crate) const fn meaning(code: u8) -> &'static str {
    match code {
        0 => "done",
        1 => "it could not be done: no store, no connection, damaged data",
        2 => "the command, a file or a setting cannot be used",
        3 => "the process ended before its work did",
        4 => "another caller is at it",
        5 => "the key was used for another request",
        6 => "whether it happened is unknown",
        7 => "nothing is known under this id or key",
        8 => "a check found damage, or a store that does not keep the contract",
        9 => "there are differences",
        _ => "refused otherwise: not authenticated, not allowed, too late",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_exit_codes_is_the_one_that_is_meant() {
        let page = include_str!("../../../docs/cli.md");
        for code in 0..=10 {
            let row = format!("\n| {code} | {} |\n", meaning(code));
            assert!(page.contains(&row), "docs/cli.md has no row{row}");
        }
    }

    /// A daemon's own code tells more than "the request cannot be used".
    #[test]
    fn of_two_codes_the_nearer_one_is_said() {
        let words =
            |rule: &str| Failure::Setting { name: "provider".into(), from: "file".into(), rule: rule.into() }.words();
        assert_eq!(words("it is none [HX0092]"), "`provider` (file) cannot be used: it is none [HX0092]");
        assert_eq!(words("it is none"), "`provider` (file) cannot be used: it is none [HX0080]");
        assert_eq!(with_code("a list [of things]"), ("a list [of things]", None));
    }
}
