//! What travels.

use hapax_core::Body;
use hapax_core::Outcome;
use hapax_queue::{How, Status, TaskResult, TaskState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerWire {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdempotencyWire {
    /// `idempotent` or `unsafe`.
    pub class: String,
    pub key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// A UUID of the sender's choice: sent again, it is the same task.
    pub id: String,
    pub recipient: PeerWire,
    pub kind: String,
    #[serde(default)]
    pub intent: String,
    /// Any JSON.
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    /// Bytes instead of JSON.
    pub payload_base64: Option<String>,
    pub parent: Option<String>,
    /// Milliseconds since 1970.
    pub deadline: Option<u64>,
    pub idempotency: Option<IdempotencyWire>,
    /// The sender's name for people.
    pub display: Option<String>,
    /// Only for administrators: on behalf of this peer.
    #[serde(rename = "as")]
    pub acting_as: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SentWire {
    pub id: String,
    /// `queued`, `replayed`, `joined` or `already_resolved`.
    pub status: String,
    /// It had been sent before.
    pub again: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultWire>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultWire {
    /// `completed`, `partial` or `failed`.
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub json: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl ResultWire {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let status = TaskResult::status_of(outcome).to_owned();
        let bytes = match &outcome.body {
            Body::Inline(bytes) => bytes.to_bytes(),
            Body::Empty | Body::Stored { .. } | Body::Uncaptured { .. } | Body::Handle(_) => bytes::Bytes::new(),
        };
        let text = std::str::from_utf8(&bytes).ok();
        let json =
            text.filter(|_| TaskResult::is_json(outcome)).and_then(|text| RawValue::from_string(text.into()).ok());
        let plain = text.filter(|_| json.is_none()).map(str::to_owned);
        let base64 = text.is_none().then(|| data_encoding::BASE64.encode(&bytes));
        Self { status, json, text: plain, base64 }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRequestWire {
    /// How the worker is called in records.
    pub worker: Option<String>,
    #[serde(default = "one")]
    pub limit: usize,
    pub lease_ms: Option<u64>,
    /// How long to wait for work; at most 30 seconds.
    #[serde(default)]
    pub wait_ms: u64,
    /// 32 hexadecimal digits that name this call: said again after a lost answer, it returns what it took.
    pub request: Option<String>,
    #[serde(rename = "as")]
    pub acting_as: Option<String>,
}

const fn one() -> usize {
    1
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HandedWire {
    pub task: TaskWire,
    pub lease_id: String,
    /// Shows that one holds the lease; keep it to oneself.
    pub token: String,
    pub attempt: u32,
    pub lease_ms: u64,
    /// To be forwarded to calls that take an idempotency key.
    pub forward_key: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HandedList {
    pub items: Vec<HandedWire>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskWire {
    pub id: String,
    pub sender: PeerWire,
    pub recipient: PeerWire,
    pub kind: String,
    pub intent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency: Option<IdempotencyWire>,
}

impl TaskWire {
    pub(crate) fn of(order: &hapax_core::task::Order) -> Self {
        let peer = |peer: &hapax_core::task::Peer| PeerWire {
            key: peer.key.to_string(),
            display: Some(peer.display.to_string()),
        };
        let text = String::from_utf8(order.payload.bytes.to_vec()).ok().filter(|_| order.payload.json);
        let payload = text.and_then(|text| RawValue::from_string(text).ok());
        let payload_base64 = payload.is_none().then(|| data_encoding::BASE64.encode(&order.payload.bytes));
        Self {
            id: order.id.to_string(),
            sender: peer(&order.sender),
            recipient: peer(&order.recipient),
            kind: order.kind.to_string(),
            intent: order.intent.to_string(),
            payload,
            payload_base64,
            parent: order.parent.map(|parent| parent.to_string()),
            deadline: order.deadline.map(|deadline| deadline.wall.0),
            idempotency: order
                .idempotency
                .as_ref()
                .map(|known| IdempotencyWire { class: known.class.name().to_owned(), key: known.key.to_string() }),
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequestWire {
    pub task: String,
    pub token: String,
    /// For `renew`.
    pub lease_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostRequestWire {
    pub task: String,
    pub token: String,
    /// `completed`, `partial` or `failed`.
    pub status: String,
    #[schemars(with = "Option<serde_json::Value>")]
    pub json: Option<Box<RawValue>>,
    pub text: Option<String>,
    pub base64: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DoneWire {
    pub task: String,
    /// It was so before.
    pub already: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultsRequest {
    #[serde(default = "ten")]
    pub limit: usize,
    #[serde(default)]
    pub wait_ms: u64,
    #[serde(rename = "as")]
    pub acting_as: Option<String>,
}

const fn ten() -> usize {
    10
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeliveryWire {
    pub task: String,
    pub kind: String,
    pub recipient: PeerWire,
    /// `posted`, `replayed`, `joined`, `forced` or `expired`.
    pub how: String,
    pub attempt: u32,
    pub at: u64,
    pub result: ResultWire,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct DeliveryList {
    pub items: Vec<DeliveryWire>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    pub task: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct StatusWire {
    pub task: TaskWire,
    /// `queued`, `joined`, `leased`, `stale`, `result_pending`, `delivered` or `compacted`.
    pub state: String,
    pub attempt: u32,
    pub overdue: bool,
    pub sent_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    pub repairs: Vec<RepairWire>,
    /// Results that came too late to count.
    pub evidence: Vec<EvidenceWire>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RepairWire {
    /// `requeue`, `auto_requeue` or `force_error`.
    pub repair: String,
    pub lease_id: String,
    pub actor: String,
    pub reason: String,
    pub at: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EvidenceWire {
    pub attempt: u32,
    pub at: u64,
    pub result: ResultWire,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct StatusPageWire {
    pub items: Vec<StatusWire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl StatusWire {
    pub(crate) fn of(status: &Status) -> Self {
        let task = &status.task;
        let (owner, joined, how) = match &task.state {
            TaskState::Leased(leased) => (Some(leased.owner.to_string()), None, None),
            TaskState::Joined { leader } => (None, Some(leader.to_string()), None),
            TaskState::Resolved(resolved) => (None, None, Some(how(resolved.how).to_owned())),
            TaskState::Sent { .. } | TaskState::Queued { .. } | TaskState::Compacted { .. } => (None, None, None),
        };
        let repair = |repair: &hapax_core::task::Repair| RepairWire {
            repair: super::repair::name(&repair.kind).to_owned(),
            lease_id: repair.lease.to_string(),
            actor: repair.actor.to_string(),
            reason: repair.reason.to_string(),
            at: repair.wall.0,
        };
        Self {
            task: TaskWire::of(&task.order),
            state: status.state.name().to_owned(),
            attempt: task.attempt,
            overdue: status.overdue,
            sent_at: task.sent_wall.0,
            lease_id: status.lease_id.map(|lease| lease.to_string()),
            lease_age_ms: status.lease_age.map(|age| age.0),
            owner,
            joined,
            how,
            repairs: task.repairs.iter().map(repair).collect(),
            evidence: task
                .evidence
                .iter()
                .map(|kept| EvidenceWire {
                    attempt: kept.attempt,
                    at: kept.wall.0,
                    result: ResultWire::of(&kept.outcome),
                })
                .collect(),
        }
    }
}

pub(crate) const fn how(how: How) -> &'static str {
    match how {
        How::Posted(_) => "posted",
        How::Replayed => "replayed",
        How::Joined(_) => "joined",
        How::Forced => "forced",
        How::Expired => "expired",
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairRequest {
    pub task: String,
    pub lease_id: String,
    /// `requeue` or `force_error`.
    pub repair: String,
    /// For `requeue`: `idempotent` or `operator_accepted`.
    pub posture: Option<String>,
    /// For `force_error`.
    pub message: Option<String>,
    pub reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryRequest {
    /// Without it, this is a preview and changes nothing.
    pub enable: bool,
    pub min_lease_age_ms: u64,
    pub max_attempts: u32,
    pub max_requeues: u32,
    pub scan_limit: u32,
}

impl Default for RetryRequest {
    fn default() -> Self {
        let policy = hapax_queue::GatePolicy::default();
        Self {
            enable: false,
            min_lease_age_ms: policy.min_lease_age.0,
            max_attempts: policy.max_attempts,
            max_requeues: policy.max_requeues,
            scan_limit: policy.scan_limit,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RetryReport {
    pub enabled: bool,
    pub min_lease_age_ms: u64,
    pub max_attempts: u32,
    pub max_requeues: u32,
    pub scan_limit: u32,
    pub considered: u32,
    pub requeued: Vec<RetryEntry>,
    pub skipped: Vec<RetryEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct RetryEntry {
    pub task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CompactedWire {
    pub looked_at: u64,
    pub compacted: u64,
    pub kept: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ImportedWire {
    pub tasks: u64,
    pub cached: u64,
    pub known: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn_line: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompactRequest {}
