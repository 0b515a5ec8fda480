//! The table of these endpoints, for the router and the OpenAPI document.

use super::Name;
use crate::{
    auth::Capability,
    endpoint::{self, Content, Endpoint, Needs, SchemaOf, schema},
    wire,
};

const fn post(
    name: Name,
    path: &'static str,
    summary: &'static str,
    request: SchemaOf,
    answers: &'static [(u16, &'static str, Content)],
) -> Endpoint {
    let needs = Needs::Key(Capability::Operate);
    let plain = endpoint::endpoint(endpoint::Name::Agents(name), "POST", path, needs, summary);
    Endpoint { request: Some(request), answers, ..plain }
}

const fn get(
    name: Name,
    path: &'static str,
    summary: &'static str,
    answers: &'static [(u16, &'static str, Content)],
) -> Endpoint {
    let needs = Needs::Key(Capability::Read);
    Endpoint { answers, ..endpoint::endpoint(endpoint::Name::Agents(name), "GET", path, needs, summary) }
}

type Answers = &'static [(u16, &'static str, Content)];

const CONFLICT: (u16, &str, Content) = (409, "The group, the beat or the plan refuses; it says why.", Content::Problem);
const LEVEL: (u16, &str, Content) = (501, "The store keeps no index of groups.", Content::Problem);

const TURN: Answers = &[(200, "The group's current turn.", Content::Json(schema::<wire::TurnWire>)), CONFLICT, LEVEL];
const DONE: Answers = &[(200, "It is so.", Content::Json(schema::<wire::DoneWire>)), CONFLICT];
const VERDICTS: Answers = &[
    (200, "Run it, or the recorded answer.", Content::Json(schema::<wire::Verdicts>)),
    (409, "In flight, in doubt, superseded, or done too long ago.", Content::Problem),
    (422, "The key was used for another request.", Content::Problem),
];
const PLAN: Answers = &[(200, "How the undoing stands.", Content::Json(schema::<wire::PlanWire>)), CONFLICT];
const BEAT: Answers = &[(200, "The beat as it is now.", Content::Json(schema::<wire::BeatWire>)), CONFLICT];

const fn decided(name: Name, path: &'static str, summary: &'static str, request: SchemaOf) -> Endpoint {
    Endpoint { needs: Needs::Key(Capability::Resolve), ..post(name, path, summary, request, PLAN) }
}

pub(crate) static ENDPOINTS: &[Endpoint] = &[
    post(Name::CreateGroup, "/v1/groups", "Make a group, or find it.", schema::<wire::GroupRequest>, TURN),
    get(
        Name::ShowGroup,
        "/v1/groups/{id}",
        "A group as it stands, and whether it may be superseded.",
        &[(200, "The group.", Content::Json(schema::<wire::GroupWire>))],
    ),
    post(
        Name::Supersede,
        "/v1/groups/{id}:supersede",
        "A newer turn; says what may have started in the older ones.",
        schema::<wire::SupersedeRequest>,
        &[(200, "The newer turn.", Content::Json(schema::<wire::SupersededWire>)), CONFLICT],
    ),
    post(
        Name::Fork,
        "/v1/groups/{id}:fork",
        "Queue: the message that comes next gets a group of its own.",
        schema::<wire::ForkRequest>,
        TURN,
    ),
    post(
        Name::ForceComplete,
        "/v1/groups/{id}:force_complete",
        "Let this turn finish whatever comes; the later message gets a group of its own.",
        schema::<wire::ForkRequest>,
        TURN,
    ),
    post(
        Name::Absorb,
        "/v1/groups/{id}:absorb",
        "One more message belongs to this turn.",
        schema::<wire::AbsorbRequest>,
        DONE,
    ),
    post(
        Name::Commit,
        "/v1/groups/{id}:commit",
        "A commit point: no supersede and no absorb from here on.",
        schema::<wire::NothingRequest>,
        DONE,
    ),
    post(
        Name::Close,
        "/v1/groups/{id}:close",
        "Nothing starts in it any more, and what it kept is let go.",
        schema::<wire::NothingRequest>,
        DONE,
    ),
    post(
        Name::ClaimActivity,
        "/v1/activities:claim",
        "Ask for the right to make a call to a provider once.",
        schema::<wire::ActivityRequest>,
        &[
            (200, "Make the call, or its recorded answer.", Content::Json(schema::<wire::ActivityVerdicts>)),
            (409, "In flight, in doubt, superseded, or done too long ago.", Content::Problem),
            (410, "It was answered, and the answer is not kept any more.", Content::Problem),
            (422, "The identity was used for another request.", Content::Problem),
        ],
    ),
    post(
        Name::AnswerActivity,
        "/v1/activities/{id}:answer",
        "What the provider answered; its status decides whether that is final.",
        schema::<wire::AnswerRequest>,
        &[(200, "It is recorded.", Content::Json(schema::<wire::StepAnswer>)), CONFLICT],
    ),
    post(
        Name::EndActivity,
        "/v1/activities/{id}:end",
        "How the stream of a call ended: all of it came, or it broke off.",
        schema::<wire::StreamEndRequest>,
        &[(200, "It is recorded.", Content::Json(schema::<wire::StepAnswer>)), CONFLICT],
    ),
    get(
        Name::RunEffects,
        "/v1/runs/{run}/effects",
        "What a run did outside: claimed, completed, released, escaped.",
        &[(200, "The effects, the oldest first.", Content::Json(schema::<wire::RunEffects>)), LEVEL],
    ),
    post(
        Name::BeginTool,
        "/v1/tools:begin",
        "Ask for the right to run a tool once, by its declaration.",
        schema::<wire::ToolRequest>,
        VERDICTS,
    ),
    post(
        Name::Gather,
        "/v1/beats:gather",
        "These messages arrived together, in any order.",
        schema::<wire::GatherRequest>,
        &[(200, "What is known of them.", Content::Json(schema::<wire::GatheredWire>))],
    ),
    post(
        Name::AbsorbIntoBeat,
        "/v1/beats:absorb",
        "More messages belong to an open beat.",
        schema::<wire::AbsorbBeatRequest>,
        &[(200, "The beat as it is now.", Content::Json(schema::<wire::AbsorbedWire>)), CONFLICT],
    ),
    post(Name::Seal, "/v1/beats:seal", "The beat is complete.", schema::<wire::SealRequest>, BEAT),
    post(
        Name::BeginBeat,
        "/v1/beats:begin",
        "Ask for the right to answer a sealed beat once.",
        schema::<wire::BeatBeginRequest>,
        VERDICTS,
    ),
    post(
        Name::LookUp,
        "/v1/memos:look_up",
        "Whether what was computed may be used again, and why.",
        schema::<wire::LookUpRequest>,
        &[(200, "Reuse, revalidate or recompute.", Content::Json(schema::<wire::MemoWire>))],
    ),
    post(
        Name::Keep,
        "/v1/memos:keep",
        "Keep a computation, unless its phase is never reused.",
        schema::<wire::KeepRequest>,
        &[(200, "Whether it was kept.", Content::Json(schema::<wire::KeptWire>))],
    ),
    get(Name::ShowPlan, "/v1/compensations/{id}", "The plan of a group that is being undone.", PLAN),
    post(
        Name::Unwind,
        "/v1/compensations/{id}:unwind",
        "Undo what a group has done: mark it, wait for what is under way, write the plan down.",
        schema::<wire::UnwindRequest>,
        PLAN,
    ),
    post(
        Name::NextInverse,
        "/v1/compensations/{id}:next",
        "Claim the next inverse of the plan.",
        schema::<wire::NextRequest>,
        &[(200, "What is to be done next.", Content::Json(schema::<wire::NextWire>)), CONFLICT],
    ),
    decided(
        Name::SeenTo,
        "/v1/compensations/{id}:seen_to",
        "A person has undone this effect by other means. It is written to the audit log first.",
        schema::<wire::SeenToRequest>,
    ),
    decided(
        Name::RetryInverse,
        "/v1/compensations/{id}:retry",
        "A person has found that this inverse may be tried again. It is written to the audit log first.",
        schema::<wire::RetryRequest>,
    ),
    post(
        Name::Deliver,
        "/v1/bus:deliver",
        "Ask for the right to handle one delivery of a message.",
        schema::<wire::DeliverRequest>,
        &[(200, "Handle it, or what to tell the broker.", Content::Json(schema::<wire::DeliveryVerdicts>))],
    ),
    post(
        Name::Settle,
        "/v1/bus/{id}:settle",
        "How the handler of a delivery ended; answers what to tell the broker.",
        schema::<wire::SettleRequest>,
        &[(200, "What to tell the broker.", Content::Json(schema::<wire::SettleWire>))],
    ),
    post(
        Name::SubmitJob,
        "/v1/jobs:submit",
        "Submit a job under the key that its client gave it.",
        schema::<wire::JobRequest>,
        VERDICTS,
    ),
    post(
        Name::ReportJob,
        "/v1/jobs/{id}:report",
        "Whether the job was accepted, and the answer to whoever submits it again.",
        schema::<wire::JobReport>,
        &[
            (200, "It is recorded.", Content::Json(schema::<wire::StepAnswer>)),
            (409, "The token no longer counts, or it was decided otherwise.", Content::Problem),
        ],
    ),
    get(
        Name::ShowJob,
        "/v1/jobs/{id}",
        "A job as it stands.",
        &[(200, "The job.", Content::Json(schema::<wire::JobWire>))],
    ),
];
