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
    /// It does not answer, or does not let us in.
    #[error("{server} cannot be reached: {reason} [HX0131]")]
    Unreachable { server: String, reason: String },
    #[error("{0} [HX0131]")]
    Store(StoreError),
}

/// What a call that may be made again would say of trying again is left out: whoever opens a store with a wrong password has to
/// change it.
impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        if let StoreError::Unavailable { store, reason } = error {
            Self::Unreachable { server: store, reason }
        } else {
            Self::Store(error)
        }
    }
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
        Some("NOPERM") if is_in_script(error) => Refused::Unsure,
        Some("OOM") => Refused::Full,
        Some(
            "NOSCRIPT" | "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "NOAUTH"
            | "WRONGPASS" | "NOPERM" | "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT" | "LAYOUT",
        ) => Refused::Yes,
        Some(_) | None => Refused::Unsure,
    }
}

/// A command inside of a script was not allowed: those before it were carried out.
fn is_in_script(error: &RedisError) -> bool {
    // Redis 7.2 and Valkey say the first, with NOPERM; older ones the second, as any other error.
    says(error, "ACL failure in script") || says(error, "user executing the script")
}

pub(crate) fn says(error: &RedisError, words: &str) -> bool {
    error.detail().is_some_and(|said| said.contains(words))
}

/// The client's words, which never hold the URL.
pub(crate) fn shown(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) if error.is_timeout() => "no answer in time".to_owned(),
        (None, _) if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            "it does not know this user with this password".to_owned()
        }
        (None, _) => error.to_string(),
    }
}

const RIGHTS: &str = "give this user the rights of docs/stores.md";

fn next_step(error: &RedisError, when: When) -> &'static str {
    match (error.code(), when) {
        (Some("NOAUTH" | "WRONGPASS"), _) => "check user and password in the URL",
        (None, _) if error.kind() == redis::ErrorKind::AuthenticationFailed => "check user and password in the URL",
        (Some("NOPERM"), _) => RIGHTS,
        (Some("ERR"), _) if says(error, "no permissions") || is_in_script(error) => RIGHTS,
        (Some("ERR"), _) if says(error, "DB index") => {
            "name one of its databases in the URL, or raise `databases` in its configuration"
        }
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
        (Some(_), When::Asked) => "look at its log",
        (None, When::Asked) => "the next call connects anew",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> RedisError {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap().extract_error().unwrap_err()
    }

    /// A script is stopped at a command that its user may not run, and has written by then. That it was not allowed is no word that
    /// it did nothing.
    #[test]
    fn what_was_not_allowed_inside_of_a_script_may_have_written() {
        for line in [
            "NOPERM ACL failure in script: User app has no permissions to run the 'append' command script: 2f, on @user_script:9.",
            "ERR The user executing the script can't run this command or subcommand script: 2f, on @user_script:9.",
        ] {
            let error = store_error("redis://host/", Call::Write("swap"), When::Asked, &said(line));
            assert!(matches!(error, StoreError::Unknown { .. }) && error.to_string().contains("rights"), "{error}");
        }
        let line = "NOPERM this user has no permissions to run the 'evalsha' command";
        let error = store_error("redis://host/", Call::Write("swap"), When::Asked, &said(line));
        assert!(matches!(error, StoreError::Unavailable { .. }) && error.to_string().contains("rights"), "{error}");
    }

    /// Only a connection that was lost is made anew.
    #[test]
    fn the_next_step_is_one_that_helps() {
        let step = |line: &str, when| next_step(&said(line), when);
        assert!(step("ERR something else", When::Asked).contains("log"));
        assert!(step("ERR DB index is out of range", When::Connecting).contains("database"));
        let gone = RedisError::from(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
        assert!(next_step(&gone, When::Asked).contains("anew"));
    }
}
