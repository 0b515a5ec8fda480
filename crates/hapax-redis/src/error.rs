use hapax_store::StoreError;
use redis::RedisError;

/// Why a Redis could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL itself is not repeated: it may hold a password.
    #[error(
        "this is not a Redis URL: {reason}; write redis://[user:password@]host[:port][,host…]/[database][?prefix=…][&sentinel=…], or rediss:// for TLS [HX0130]"
    )]
    Url { reason: String },
    #[error("the key prefix {prefix:?} cannot be used: {reason} [HX0130]")]
    Prefix { prefix: String, reason: &'static str },
    #[error("{server} cannot be used: {reason} [HX0132]")]
    Server { server: String, reason: String },
    #[error("{0} [HX0131]")]
    Store(#[from] StoreError),
}

/// What a call wanted, for the words of its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Read(&'static str),
    Write(&'static str),
}

/// Whether the request had left when it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Connecting,
    Asked,
}

pub(crate) fn store_error(server: &str, call: Call, when: When, error: &RedisError) -> StoreError {
    let (Call::Read(name) | Call::Write(name)) = call;
    let store = server.to_owned();
    let reason = format!("`{name}`: {}; {}", shown(error), next_step(error, when));
    match (call, when, refused(error)) {
        (_, _, Refused::Full) => StoreError::Full { store, reason },
        (_, When::Connecting, _) | (Call::Read(_), _, _) | (_, _, Refused::Yes) => {
            StoreError::Unavailable { store, reason }
        }
        (Call::Write(_), When::Asked, Refused::Unsure) => StoreError::Unknown { store, reason },
    }
}

enum Refused {
    /// The server itself said that it did nothing.
    Yes,
    Full,
    Unsure,
}

/// By the first word of what the server said. Any other may come from a script that broke off half-way.
fn refused(error: &RedisError) -> Refused {
    match error.code() {
        Some("OOM") => Refused::Full,
        Some(
            "NOSCRIPT" | "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "NOAUTH"
            | "WRONGPASS" | "NOPERM" | "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT" | "LAYOUT",
        ) => Refused::Yes,
        Some(_) | None => Refused::Unsure,
    }
}

/// The client's words, which never hold the URL.
fn shown(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) if error.is_timeout() => "no answer in time".to_owned(),
        (None, _) => error.to_string(),
    }
}

fn next_step(error: &RedisError, when: When) -> &'static str {
    match (error.code(), when) {
        (Some("NOAUTH" | "WRONGPASS"), _) => "check user and password in the URL",
        (None, _) if error.kind() == redis::ErrorKind::AuthenticationFailed => "check user and password in the URL",
        (Some("NOPERM"), _) => "let this user run scripts and the commands of docs/stores.md",
        (Some("MISCONF"), _) => "look at its log: it cannot write to its disk",
        (Some("OOM"), _) => "raise maxmemory",
        (Some("READONLY"), _) => "this is a replica: give the address of its master",
        (Some("CLUSTERDOWN"), _) => "some of its slots have no master: wait, or look at `redis-cli --cluster check`",
        (Some("TRYAGAIN"), _) => "its slot is being moved to another server: wait until that is done",
        (Some("LAYOUT"), _) => "let the version of Hapax that wrote it finish its work, or use another prefix",
        (Some("LOADING"), _) => "it is reading its data after a start, wait",
        (_, When::Connecting) if shown(error).contains("certificate") => {
            "this machine's root certificates do not vouch for this name; name a file with the right ones in SSL_CERT_FILE, \
             or the server as its certificate does"
        }
        (_, When::Connecting) => "check that it runs and that this machine may reach it",
        (_, When::Asked) => "the next call connects anew",
    }
}
