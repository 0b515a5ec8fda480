use hapax_store::StoreError;
use tokio_postgres::{Error, error::SqlState};

/// Why a PostgreSQL could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL itself is not repeated: it may hold a password.
    #[error(
        "this is not a PostgreSQL URL: {reason}; write postgres://[user[:password]@]host[:port][,host…]/database[?schema=…][&listen=host:port] [HX0130]"
    )]
    Url { reason: String },
    /// It does not answer.
    #[error("{server} cannot be reached: {reason} [HX0131]")]
    Unreachable { server: String, reason: String },
    /// It answers, and wants another user or password.
    #[error("{server} does not let us in: {reason} [HX0131]")]
    Denied { server: String, reason: String },
    /// It answers, and is not what is needed.
    #[error("{server} cannot be used: {reason} [HX0132]")]
    Server { server: String, reason: String },
    #[error(
        "{server} holds tables of version {found} in schema {schema}, and this program knows {known}; update the program [HX0132]"
    )]
    Newer { server: String, schema: String, found: i32, known: i32 },
    #[error("{0} [HX0131]")]
    Store(#[from] StoreError),
}

/// Why there is no first session.
pub(crate) fn first_error(server: &str, error: &Error) -> OpenError {
    let (server, reason) = (server.to_owned(), format!("{}; {}", shown(error), next_step(error)));
    let denied = lacks_password(error) || error.code().is_some_and(|code| code.code().starts_with("28"));
    if denied { OpenError::Denied { server, reason } } else { OpenError::Unreachable { server, reason } }
}

/// What a call wanted, for the words of its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Read(&'static str),
    Write(&'static str),
}

impl Call {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read(name) | Self::Write(name) => name,
        }
    }
}

pub(crate) fn store_error(server: &str, call: Call, error: &Error) -> StoreError {
    let store = server.to_owned();
    let reason = format!("`{}`: {}; {}", call.name(), shown(error), next_step(error));
    match (call, error.code()) {
        (_, Some(code)) if *code == SqlState::DISK_FULL => StoreError::Full { store, reason },
        // The server itself said that the statement came to nothing, unless it was on its way out.
        (_, Some(code)) if !went_away(code) => StoreError::Unavailable { store, reason },
        (Call::Read(_), _) => StoreError::Unavailable { store, reason },
        (Call::Write(_), _) => StoreError::Unknown { store, reason },
    }
}

/// Whether the connection is of no more use.
pub(crate) fn is_lost(error: &Error) -> bool {
    error.is_closed() || error.code().is_none_or(went_away)
}

fn went_away(code: &SqlState) -> bool {
    let code = code.code();
    // Connection exceptions, and a server that shuts down or comes up.
    code.starts_with("08") || code.starts_with("57P")
}

/// The server's own words; of the client's only what cannot hold the URL.
pub(crate) fn shown(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            if source.is_empty() { error.to_string() } else { format!("{error}: {source}") }
        }
    }
}

/// What to do about a server that cannot be believed.
const CERTIFICATE: &str = "this machine's root certificates do not vouch for this name; name a file with the right ones in \
                           SSL_CERT_FILE, or the server as its certificate does";

const PASSWORD: &str = "give the right user and password in the URL";

/// The server asks for a password, and the driver has none to give: it has only words for that.
fn lacks_password(error: &Error) -> bool {
    error.code().is_none() && shown(error).contains("password missing")
}

pub(crate) fn next_step(error: &Error) -> &'static str {
    match error.code().map(SqlState::code) {
        Some("28P01") => PASSWORD,
        Some("28000") => {
            "give the right user in the URL, or let this one in by pg_hba.conf, which may ask for sslmode=require"
        }
        Some("3D000") => "create the database, or name another one in the URL",
        Some("42501") => "grant this user the rights of docs/stores.md",
        Some("55P03") => "another transaction holds the row: keep transactions short",
        Some("53300") => "it has no connection left: raise max_connections, or ask for fewer",
        Some("53100") => "free room on its disk",
        Some("25006") => "this is a standby, or read-only: give the address of the writer",
        Some("57P01" | "57P02" | "57P03") => "it is stopping or starting, wait",
        Some("42P01") => "its tables are gone: open the store anew",
        Some(_) => "look at its log",
        None if lacks_password(error) => PASSWORD,
        None if shown(error).contains("certificate") => CERTIFICATE,
        None => "check that it runs and that this machine may reach it; the next call connects anew",
    }
}
