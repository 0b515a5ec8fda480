//! What goes over the wire. Each type is read or written by serde and described by schemars, so that the OpenAPI
//! document cannot say anything else than what the code does.

mod begin;
mod event;
mod explain;
mod list;
mod outcome;
mod policy;
mod problem;
mod step;

pub use begin::{
    BeginRequest, EpochPair, ExplainRequest, JoinedFailure, ReplayAnswer, ScopePart, TicketAnswer, Verdicts,
};
pub use event::EventWire;
pub use explain::{AttemptWire, EvidenceWire, ExplanationWire, ResolvedWire};
pub use list::{OperationPage, OperationRow};
pub use outcome::{OutcomeError, OutcomeWire, class_name};
pub use policy::{PolicyList, PolicyWire};
pub use problem::ProblemWire;
pub use step::{
    FailRequest, FinishRequest, PostureWire, ReleaseRequest, ReleaseWhy, RenewRequest, ResolutionWire, ResolveRequest,
    StepAnswer, TokenRequest,
};
