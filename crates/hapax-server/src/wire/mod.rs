//! What goes over the wire. Each type is read or written by serde and described by schemars, so that the OpenAPI
//! document cannot say anything else than what the code does.

mod activity;
mod beat;
mod begin;
mod bus;
mod compensation;
mod event;
mod explain;
mod group;
mod job;
mod list;
mod memo;
mod outcome;
mod policy;
mod problem;
mod step;
mod tool;

pub use activity::{
    ActivityAnswer, ActivityReplay, ActivityRequest, ActivityTicket, ActivityVerdicts, AnswerRequest, EffectRow,
    FieldWire, RecipeWire, RunEffects, StreamAgain, StreamEndRequest, StreamFinished, StreamWhole,
};
pub use beat::{
    AbsorbBeatRequest, AbsorbedWire, BeatBeginRequest, BeatWire, FoundMessage, GatherRequest, GatheredWire, SealRequest,
};
pub use begin::{
    BeginRequest, EpochPair, ExplainRequest, JoinedFailure, ReplayAnswer, ScopePart, TicketAnswer, Verdicts,
};
pub use bus::{ConsumerWire, DeliverRequest, DeliveryTicket, DeliveryVerdicts, HandledWire, SettleRequest, SettleWire};
pub use compensation::{
    CompensationWire, InverseWire, NextRequest, NextWire, PlanWire, RetryRequest, SeenToRequest, StepWire,
    UnsettledWire, UnwindRequest,
};
pub use event::EventWire;
pub use explain::{AttemptWire, EvidenceWire, ExplanationWire, ResolvedWire};
pub use group::{
    AbsorbRequest, CommitPointWire, DoneWire, ForkRequest, GroupRequest, GroupWire, MayWire, NothingRequest,
    ReportedWire, StartWire, SupersedeRequest, SupersededWire, TurnWire,
};
pub use job::{JobEnd, JobReport, JobRequest, JobWire};
pub use list::{OperationPage, OperationRow};
pub use memo::{DependenciesWire, InputWire, KeepRequest, KeptWire, LookUpRequest, MemoWire};
pub use outcome::{OutcomeError, OutcomeWire, class_name};
pub use policy::{PolicyList, PolicyWire};
pub use problem::ProblemWire;
pub use step::{
    FailRequest, FinishRequest, PostureWire, ReleaseRequest, ReleaseWhy, RenewRequest, ResolutionWire, ResolveRequest,
    StepAnswer, TokenRequest,
};
pub use tool::ToolRequest;
