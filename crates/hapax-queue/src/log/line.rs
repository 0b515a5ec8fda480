use bytes::Bytes;
use data_encoding::BASE64;
use hapax_core::task::Payload;
use serde::{Deserialize, Serialize};

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum LogLine {
    TaskSent {
        at: u64,
        task: TaskLine,
    },
    TaskLeased {
        at: u64,
        task_id: String,
        lease_id: String,
        attempt: u32,
        owner: String,
    },
    ResultPosted {
        at: u64,
        task_id: String,
        how: String,
        status: u16,
        class: u8,
        attempt: u32,
        result: Content,
    },
    ResultDelivered {
        at: u64,
        task_id: String,
    },
    /// Only its id and digest are known.
    TaskCompacted {
        task_id: String,
        digest: String,
        sender: String,
        recipient: String,
    },
    /// An answer that later tasks under the same key receive.
    ResultCached {
        operation: String,
        record: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerLine {
    pub key: String,
    pub display: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskLine {
    pub id: String,
    pub sender: PeerLine,
    pub recipient: PeerLine,
    pub kind: String,
    #[serde(default)]
    pub intent: String,
    pub payload: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyLine>,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub number: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdempotencyLine {
    pub class: String,
    pub key: String,
}

/// Bytes as they are: JSON as the text that came, so that its digest stays the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "content", rename_all = "snake_case")]
pub enum Content {
    Json { text: String },
    Bytes { base64: String },
}

impl Content {
    pub(super) fn of(json: bool, bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) if json => Self::Json { text: text.to_owned() },
            Ok(_) | Err(_) => Self::Bytes { base64: BASE64.encode(bytes) },
        }
    }

    pub(super) fn payload(&self) -> Option<Payload> {
        match self {
            Self::Json { text } => Some(Payload { json: true, bytes: Bytes::copy_from_slice(text.as_bytes()) }),
            Self::Bytes { base64 } => {
                BASE64.decode(base64.as_bytes()).ok().map(|bytes| Payload { json: false, bytes: bytes.into() })
            }
        }
    }
}
