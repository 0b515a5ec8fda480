use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::begin::TicketAnswer;

/// How the consumer is set up at its broker: what has to be remembered outlasts the last delivery.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsumerWire {
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    #[schemars(range(min = 1, max = 86_400_000))]
    pub ack_wait_ms: u64,
    /// Left out: without limit; then `retention_ms` is needed.
    #[schemars(range(min = 1))]
    pub max_deliveries: Option<u32>,
    #[serde(default)]
    #[schemars(length(max = 64), inner(range(max = 86_400_000)))]
    pub back_offs_ms: Vec<u64>,
    #[schemars(range(min = 1, max = 31_536_000_000_u64))]
    pub retention_ms: Option<u64>,
    /// What is known about handling a message twice; `unsafe` if left out.
    #[schemars(extend("enum" = ["pure", "idempotent", "compensatable", "irreversible", "unsafe", null]))]
    pub effect: Option<String>,
}

/// Asks for the right to handle one delivery of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliverRequest {
    pub consumer: ConsumerWire,
    #[schemars(length(min = 1, max = 255))]
    pub stream: String,
    pub sequence: u64,
    /// What its sender calls the intent behind it: the same over several messages.
    pub intent: Option<String>,
    /// The message. Its fingerprint guards the intent; it is not stored.
    #[serde(default)]
    pub payload_base64: String,
    /// 1 for the first delivery.
    #[schemars(range(min = 1))]
    pub delivery: u32,
    #[schemars(regex(pattern = r"^[0-9a-fA-F]{32}$"))]
    pub nonce: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandledWire {
    Done,
    /// Nothing lasting happened: deliver it again after `delay_ms`.
    Retryable,
    /// It would fail again.
    Failed,
    /// The message cannot be read.
    Undecodable,
    /// It may have happened.
    Unknown,
}

/// How a handler ended.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleRequest {
    pub consumer: ConsumerWire,
    #[schemars(range(min = 1))]
    pub delivery: u32,
    pub token: String,
    pub handled: HandledWire,
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub why: String,
    #[schemars(range(max = 86_400_000))]
    pub delay_ms: Option<u64>,
}

/// What to tell the broker.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "settle", rename_all = "snake_case")]
pub enum SettleWire {
    Ack,
    /// Deliver it again after this.
    Nak {
        after_ms: u64,
    },
    /// Put it aside, durably, where a person finds it; only then tell the broker never to deliver it again.
    Terminate {
        dead_letter: String,
    },
}

/// Handle it, and say meanwhile that it is under way.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeliveryTicket {
    #[serde(flatten)]
    pub ticket: TicketAnswer,
    pub in_progress_every_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum DeliveryVerdicts {
    Execute(DeliveryTicket),
    Settle(SettleWire),
}
