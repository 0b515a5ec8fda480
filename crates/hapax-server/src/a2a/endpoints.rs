use schemars::{Schema, SchemaGenerator};

use super::wire;
use crate::endpoint::{Content, Endpoint, Name, Needs, Parameter, endpoint, schema};

/// What can be asked of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Act {
    Send,
    Lease,
    Renew,
    Release,
    Post,
    Results,
    Ack,
    Tasks,
    Task,
    Repair,
    RetryStale,
    Compact,
    Export,
    Import,
}

type Answers = &'static [(u16, &'static str, Content)];

const fn post(
    act: Act,
    path: &'static str,
    summary: &'static str,
    request: crate::endpoint::SchemaOf,
    answers: Answers,
) -> Endpoint {
    Endpoint { request: Some(request), answers, ..endpoint(Name::A2a(act), "POST", path, Needs::AnyKey, summary) }
}

fn text(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "string", "maxLength": 512 })
}

fn number(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "integer", "minimum": 0 })
}

fn flag(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "boolean" })
}

macro_rules! answers {
    ($about:literal, $shape:ty) => {
        &[
            (200, $about, Content::Json(schema::<$shape>)),
            (400, "The request cannot be used.", Content::Problem),
            (403, "The key lacks the capability.", Content::Problem),
            (404, "No task of yours has this id.", Content::Problem),
            (409, "The lease was taken back, or it was decided otherwise.", Content::Problem),
            (422, "The idempotency key was used for another payload.", Content::Problem),
        ]
    };
}

const fn query(name: &'static str, about: &'static str, schema: crate::endpoint::SchemaOf) -> Parameter {
    Parameter { name, about, schema }
}

const NDJSON: Content = Content::Text("application/x-ndjson");

pub(crate) static ENDPOINTS: &[Endpoint] = &[
    post(
        Act::Send,
        "/v1/a2a/send",
        "Send a task.",
        schema::<wire::SendRequest>,
        answers!("It is queued, replayed or joined.", wire::SentWire),
    ),
    post(
        Act::Lease,
        "/v1/a2a/lease",
        "Take tasks that wait for you.",
        schema::<wire::LeaseRequestWire>,
        answers!("Yours until you post, release, or somebody repairs.", wire::HandedList),
    ),
    post(
        Act::Renew,
        "/v1/a2a/renew",
        "Still at it: more time.",
        schema::<wire::TokenRequestWire>,
        answers!("Renewed.", wire::DoneWire),
    ),
    post(
        Act::Release,
        "/v1/a2a/release",
        "Give it back: nothing happened.",
        schema::<wire::TokenRequestWire>,
        answers!("Back in its queue.", wire::DoneWire),
    ),
    post(
        Act::Post,
        "/v1/a2a/post",
        "Post a result; the same one twice is fine.",
        schema::<wire::PostRequestWire>,
        answers!("It is the result.", wire::DoneWire),
    ),
    post(
        Act::Results,
        "/v1/a2a/results",
        "Receive the results of what you sent.",
        schema::<wire::ResultsRequest>,
        answers!("Until you acknowledge them.", wire::DeliveryList),
    ),
    post(
        Act::Ack,
        "/v1/a2a/ack",
        "Acknowledge a result.",
        schema::<wire::AckRequest>,
        answers!("It will not be delivered again.", wire::DoneWire),
    ),
    Endpoint {
        query: &[
            query("state", "Only in this state.", text),
            query("kind", "Only of this kind.", text),
            query("peer", "Only sent or received by this peer.", text),
            query("min_lease_age_ms", "Only in flight for so long without a renewal.", number),
            query("overdue", "Only past their deadline.", flag),
            query("cursor", "Where to go on: `next` of the page before.", text),
            query("limit", "How many at most; 50 if left out.", number),
        ],
        answers: &[
            (200, "A page.", Content::Json(schema::<wire::StatusPageWire>)),
            (400, "A parameter cannot be used.", Content::Problem),
        ],
        ..endpoint(Name::A2a(Act::Tasks), "GET", "/v1/a2a/tasks", Needs::AnyKey, "Tasks of yours, page by page.")
    },
    Endpoint {
        query: &[query("id", "The task's id.", text)],
        answers: &[
            (200, "The task.", Content::Json(schema::<wire::StatusWire>)),
            (404, "No task of yours has this id.", Content::Problem),
        ],
        ..endpoint(Name::A2a(Act::Task), "GET", "/v1/a2a/task", Needs::AnyKey, "One task.")
    },
    post(
        Act::Repair,
        "/v1/a2a/repair",
        "Take a lease back. It is written to the audit log first.",
        schema::<wire::RepairRequest>,
        answers!("As it stands now.", wire::StatusWire),
    ),
    post(
        Act::RetryStale,
        "/v1/a2a/retry-stale",
        "One pass of the retry gate; a preview unless enabled.",
        schema::<wire::RetryRequest>,
        answers!("What it did, or would do.", wire::RetryReport),
    ),
    post(
        Act::Compact,
        "/v1/a2a/compact",
        "Drop what is done, delivered and acknowledged.",
        schema::<wire::CompactRequest>,
        answers!("How much.", wire::CompactedWire),
    ),
    Endpoint {
        query: &[query("cursor", "Where to go on: from the header `link` of the page before.", text)],
        answers: &[
            (200, "Some of it, one JSON object a line; the header `link` says where there is more.", NDJSON),
            (400, "The cursor cannot be used.", Content::Problem),
        ],
        ..endpoint(Name::A2a(Act::Export), "GET", "/v1/a2a/export", Needs::Admin, "The queue of a tenant as a log.")
    },
    Endpoint {
        takes_text: true,
        answers: &[
            (200, "What was read. What was there already stays as it is.", Content::Json(schema::<wire::ImportedWire>)),
            (400, "A line cannot be used; the detail says which.", Content::Problem),
        ],
        ..endpoint(Name::A2a(Act::Import), "POST", "/v1/a2a/import", Needs::Admin, "Read such a log, or a part of one.")
    },
];
