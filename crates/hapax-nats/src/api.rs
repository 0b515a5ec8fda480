//! What JetStream is asked and answers, as far as it is read here.

use serde::{Deserialize, Serialize};

/// JetStream's own word that it did not do it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) err_code: u32,
    #[serde(default)]
    pub(crate) description: String,
}

impl Refusal {
    pub(crate) const NO_MESSAGE: u32 = 10_037;
    pub(crate) const NO_STREAM: u32 = 10_059;
    pub(crate) const OTHER_STREAM: u32 = 10_058;
    pub(crate) const WRONG_SEQUENCE: u32 = 10_071;
    const STORE_FAILED: u32 = 10_077;
    const NO_STORAGE: u32 = 10_047;
    const NO_MEMORY: u32 = 10_028;
    const NO_RESOURCES: u32 = 10_023;

    pub(crate) fn is_full(&self) -> bool {
        let limit = self.err_code == Self::STORE_FAILED && self.description.contains("maximum");
        limit || matches!(self.err_code, Self::NO_STORAGE | Self::NO_MEMORY | Self::NO_RESOURCES)
    }

    /// A request that was refused for what it says did nothing; a server in trouble may have done something.
    pub(crate) const fn did_nothing(&self) -> bool {
        self.code >= 400 && self.code < 500
    }

    pub(crate) fn shown(&self) -> String {
        format!("it answered {} ({}); look this up in its log", self.description, self.err_code)
    }
}

/// The one part that every answer may have.
#[derive(Debug, Deserialize)]
pub(crate) struct MaybeRefused {
    pub(crate) error: Option<Refusal>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Lookup<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_by_subj: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_by_subj: Option<&'a str>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct LookedUp {
    pub(crate) message: Held,
}

/// A message as it lies in its stream.
#[derive(Debug, Deserialize)]
pub(crate) struct Held {
    pub(crate) subject: String,
    pub(crate) seq: u64,
    /// Both in base 64.
    #[serde(default)]
    pub(crate) hdrs: String,
    #[serde(default)]
    pub(crate) data: String,
    pub(crate) time: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: StreamConfig,
    pub(crate) state: StreamState,
}

#[derive(Debug, Deserialize)]
pub(crate) struct StreamState {
    pub(crate) last_seq: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub(crate) struct StreamConfig {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) subjects: Vec<String>,
    #[serde(default)]
    pub(crate) storage: String,
    #[serde(default)]
    pub(crate) num_replicas: usize,
    #[serde(default)]
    pub(crate) discard: String,
    #[serde(default)]
    pub(crate) retention: String,
    #[serde(default)]
    pub(crate) max_age: i64,
    #[serde(default)]
    pub(crate) max_msgs: i64,
    #[serde(default)]
    pub(crate) max_bytes: i64,
    #[serde(default)]
    pub(crate) max_msgs_per_subject: i64,
    #[serde(default)]
    pub(crate) deny_delete: bool,
    #[serde(default)]
    pub(crate) sealed: bool,
    #[serde(default)]
    pub(crate) allow_direct: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct CreateConsumer<'a> {
    pub(crate) stream_name: &'a str,
    pub(crate) config: ConsumerConfig<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConsumerConfig<'a> {
    pub(crate) deliver_subject: &'a str,
    pub(crate) deliver_policy: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) opt_start_seq: Option<u64>,
    pub(crate) filter_subject: &'a str,
    pub(crate) ack_policy: &'static str,
    pub(crate) replay_policy: &'static str,
    pub(crate) max_deliver: i64,
    pub(crate) headers_only: bool,
    pub(crate) flow_control: bool,
    pub(crate) mem_storage: bool,
    pub(crate) num_replicas: usize,
    /// In nanoseconds, like all spans here.
    pub(crate) idle_heartbeat: u64,
    pub(crate) inactive_threshold: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ConsumerInfo {
    pub(crate) name: String,
    pub(crate) num_pending: u64,
    pub(crate) delivered: Delivered,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) consumer_seq: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Purge<'a> {
    pub(crate) filter: &'a str,
    /// Up to this sequence, without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seq: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Delete {
    pub(crate) seq: u64,
    pub(crate) no_erase: bool,
}

/// For answers of which only the refusal matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

/// Where there is nothing to say. Some requests take this, and no other emptiness.
#[derive(Debug, Serialize)]
pub(crate) struct Nothing {}
