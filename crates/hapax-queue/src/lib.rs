//! Tasks between agents: durable, explicitly leased, never silently handed out twice.
//!
//! A task goes from a sender to a recipient. A worker leases it, handles it, posts a result; the sender receives the
//! result and acknowledges it. A leased task is never handed out again by time alone: only a repair or the retry gate
//! puts it back, and both fence the old lease first. Work that declares itself idempotent under a key is done once per
//! key; later sends are answered from its recorded result.
//!
//! What a task may become is decided in `hapax_core::task`. This crate reads, lets the rules decide, and swaps.

mod compact;
mod dispatch;
mod error;
mod gate;
mod lease;
mod log;
mod narrow;
mod new_task;
mod post;
mod queue;
mod repair;
mod results;
mod roll;
mod room;
mod scheduler;
mod send;
mod status;
mod worker;

pub use compact::Compacted;
pub use error::{QueueError, Refused};
pub use gate::GateScope;
pub use hapax_core::task::{
    Class, GatePolicy, GateReport, How, Idempotency, LeaseId, Payload, Peer, RepairKind, RepairPosture, Skip, Task,
    TaskId, TaskState, TaskStateName, failure,
};
pub use lease::{Handed, LeaseRequest};
pub use log::{ImportReport, LogLine};
pub use new_task::{NewTask, Sent};
pub use post::{Posted, TaskResult};
pub use queue::{Queue, QueueSettings};
pub use results::Delivery;
pub use scheduler::{Noted, PassRow, Scheduler, SchedulerConfig, SchedulerConfigError, SchedulerHost};
pub use status::{Filter, Status, StatusPage};
pub use worker::{Handled, Worker, WorkerReport};
