use async_nats::{ConnectError, ConnectErrorKind, RequestErrorKind};
use hapax_store::StoreError;

use crate::api::Refusal;

/// Why a NATS bucket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL itself is not repeated: it may hold a password.
    #[error(
        "this is not a NATS URL: {reason}; write nats://[user:password@]host[:port][,host…]/[bucket][?replicas=N] [HX0100]"
    )]
    Url { reason: &'static str },
    #[error("the bucket `{bucket}` on {server} cannot be used: {reason} [HX0101]")]
    Bucket { server: String, bucket: String, reason: String },
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

/// Why a request brought nothing.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Nothing was sent.
    Connecting(String),
    /// Nobody there has JetStream, or its stream has no leader now: nothing was done.
    Nobody,
    NoAnswer,
    /// The connection ended before the answer.
    Broken,
    Refused(Refusal),
    /// What came is no answer to this.
    Strange(String),
}

impl Failed {
    pub(crate) fn of_request(kind: RequestErrorKind) -> Self {
        match kind {
            RequestErrorKind::TimedOut => Self::NoAnswer,
            RequestErrorKind::NoResponders => Self::Nobody,
            RequestErrorKind::MaxPayloadExceeded | RequestErrorKind::InvalidSubject => {
                Self::Connecting(kind.to_string())
            }
            RequestErrorKind::Other => Self::Broken,
        }
    }

    pub(crate) fn of_connect(error: &ConnectError) -> Self {
        Self::Connecting(match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                "it does not let us in; check user and password in the URL".into()
            }
            ConnectErrorKind::Dns => "its name leads nowhere; check the host in the URL".into(),
            ConnectErrorKind::Tls => "it wants TLS, which is not spoken here; check its tls setting".into(),
            ConnectErrorKind::ServerParse => "its address cannot be read; check the host in the URL".into(),
            kind @ (ConnectErrorKind::TimedOut | ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects) => {
                format!("no connection ({kind}); check that it runs and that this machine may reach it")
            }
        })
    }

    /// In the words of the contract: what is known about the write.
    pub(crate) fn into_store(self, store: &str, call: Call) -> StoreError {
        let (Call::Read(name) | Call::Write(name)) = call;
        let store = store.to_owned();
        let said = |what: &str| format!("`{name}`: {what}");
        let not_known = |reason: String| match call {
            Call::Read(_) => StoreError::Unavailable { store: store.clone(), reason },
            Call::Write(_) => StoreError::Unknown { store: store.clone(), reason },
        };
        match self {
            Self::Connecting(what) => StoreError::Unavailable { reason: said(&what), store },
            Self::Nobody => {
                let what = "nobody answers for its bucket; check that JetStream is on and that the stream has a leader";
                StoreError::Unavailable { reason: said(what), store }
            }
            Self::NoAnswer => {
                not_known(said("no answer in time; check its load and that this user may use the bucket"))
            }
            Self::Broken => not_known(said("the connection ended; the next call connects anew")),
            Self::Refused(refusal) if refusal.is_full() => {
                StoreError::Full { reason: said(&refusal.description), store }
            }
            Self::Refused(refusal) if refusal.did_nothing() => {
                StoreError::Unavailable { reason: said(&refusal.shown()), store }
            }
            Self::Refused(refusal) => not_known(said(&refusal.shown())),
            Self::Strange(what) => not_known(said(&format!("its answer cannot be read: {what}; check its version"))),
        }
    }
}
