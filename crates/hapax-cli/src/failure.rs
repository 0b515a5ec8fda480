use std::{io, path::PathBuf, process::ExitCode};

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

impl Failure {
    /// For whoever gave the command. A daemon's words may end with the code that is added to them.
    pub(crate) fn words(&self) -> String {
        let words = self.to_string();
        match words.rsplit_once(' ') {
            Some((before, code)) if code.starts_with("[HX") && before.ends_with(code) => before.to_owned(),
            Some(_) | None => words,
        }
    }

    /// 2: the command was given something that it cannot use. 3: it ended before its work did. 4: in flight. 5: the key was
    /// used for another request. 6: in doubt. 7: not known. 8: damage was found, or a store that is none. 9: there are differences. 10: refused
    /// otherwise. 1: all else.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Flag(..) | Self::NoFile { .. } | Self::File { .. } | Self::Setup(_) => ExitCode::from(2),
            Self::Setting { .. } | Self::Keys { .. } | Self::Trace(_) | Self::Retry(_) => ExitCode::from(2),
            Self::StoreUrl { .. } => ExitCode::from(2),
            Self::Unfinished(_) => ExitCode::from(3),
            Self::Client(hapax_client::Error::InFlight(_)) => ExitCode::from(4),
            Self::Client(hapax_client::Error::Mismatch(_)) => ExitCode::from(5),
            Self::Client(hapax_client::Error::InDoubt(_)) => ExitCode::from(6),
            Self::Client(hapax_client::Error::Refused(refusal)) if refusal.status == 404 => ExitCode::from(7),
            Self::Damaged(_) | Self::Damage { .. } | Self::NoStore(_) => ExitCode::from(8),
            Self::Differs(_) => ExitCode::from(9),
            Self::Client(hapax_client::Error::Refused(_)) => ExitCode::from(10),
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
            | Self::ChargedTwice(_) => ExitCode::FAILURE,
        }
    }
}
