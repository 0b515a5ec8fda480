use std::path::PathBuf;

use clap::Subcommand;

use crate::commands::reach::Reach;

#[derive(Debug, Subcommand)]
pub(crate) enum A2a {
    /// Send a task; the same id again is the same task.
    Send(Box<Send>),
    /// Take tasks that wait for you. Nobody else is handed them from then on.
    Lease(Lease),
    /// Still at it: more time.
    Renew {
        task: String,
        token: String,
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 60_000)]
        lease_ms: u64,
        #[command(flatten)]
        reach: Reach,
    },
    /// Give a task back: nothing happened.
    Release {
        task: String,
        token: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Post a result; the same one twice is fine.
    Post(Post),
    /// The results of what you sent, until you acknowledge them.
    Results {
        /// On behalf of this peer
        #[arg(long = "as", value_name = "PEER")]
        acting_as: Option<String>,
        #[arg(long, default_value_t = 10)]
        limit: usize,
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
        wait_ms: u64,
        #[command(flatten)]
        reach: Reach,
    },
    /// You have the result: it is not delivered again.
    Ack {
        task: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// One task, or many.
    Status(Status),
    /// Take a lease back: requeue the task, or end it with an error.
    Repair(Box<Repair>),
    /// Requeue stale leases of idempotent tasks. A preview unless --enable is given.
    RetryStale(RetryStale),
    /// Drop what is done, delivered and acknowledged. Cached results stay.
    Compact {
        #[command(flatten)]
        reach: Reach,
    },
    /// Write the queue as a log, one JSON object per line.
    Export {
        file: PathBuf,
        #[command(flatten)]
        reach: Reach,
    },
    /// Read such a log; what is there already stays as it is.
    Import {
        file: PathBuf,
        #[command(flatten)]
        reach: Reach,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Send {
    /// Whom it is for
    pub(super) recipient: String,
    /// What sort of task it is
    pub(super) kind: String,
    #[arg(long, value_name = "JSON")]
    pub(super) payload: Option<String>,
    /// In words, for people
    #[arg(long)]
    pub(super) intent: Option<String>,
    /// A UUID of your choice; a random one if left out
    #[arg(long, value_name = "UUID")]
    pub(super) id: Option<String>,
    /// The idempotency key: it is done once under this key, and running it twice does no harm
    #[arg(long)]
    pub(super) key: Option<String>,
    /// With --key: running it twice would do harm
    #[arg(long = "unsafe", requires = "key")]
    pub(super) unsafe_to_repeat: bool,
    #[arg(long, value_name = "UUID")]
    pub(super) parent: Option<String>,
    /// Milliseconds since 1970
    #[arg(long, value_name = "TIME")]
    pub(super) deadline: Option<u64>,
    /// On behalf of this peer
    #[arg(long = "as", value_name = "PEER")]
    pub(super) acting_as: Option<String>,
    #[command(flatten)]
    pub(super) reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Lease {
    /// On behalf of this peer
    #[arg(long = "as", value_name = "PEER")]
    pub(super) acting_as: Option<String>,
    /// How you are called in records
    #[arg(long)]
    pub(super) worker: Option<String>,
    #[arg(long, default_value_t = 1)]
    pub(super) limit: usize,
    #[arg(long, value_name = "MILLISECONDS")]
    pub(super) lease_ms: Option<u64>,
    /// How long to wait for work
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub(super) wait_ms: u64,
    #[command(flatten)]
    pub(super) reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Post {
    /// As given by lease
    pub(super) task: String,
    /// As given by lease
    pub(super) token: String,
    #[arg(long, default_value = "completed", value_parser = ["completed", "partial", "failed"])]
    pub(super) status: String,
    /// The result, as JSON
    #[arg(long = "result", value_name = "JSON")]
    pub(super) json_result: Option<String>,
    /// The result, as text
    #[arg(long)]
    pub(super) text: Option<String>,
    #[command(flatten)]
    pub(super) reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// One task; all if left out
    pub(super) task: Option<String>,
    /// queued, joined, leased, stale, result_pending, delivered or compacted
    #[arg(long)]
    pub(super) state: Option<String>,
    #[arg(long)]
    pub(super) kind: Option<String>,
    /// Sent or received by this peer
    #[arg(long)]
    pub(super) peer: Option<String>,
    /// In flight for so long without a renewal
    #[arg(long, value_name = "MILLISECONDS")]
    pub(super) min_lease_age_ms: Option<u64>,
    /// Waiting past their deadline
    #[arg(long)]
    pub(super) overdue: bool,
    #[arg(long, default_value_t = 50)]
    pub(super) limit: usize,
    #[arg(long)]
    pub(super) cursor: Option<String>,
    #[command(flatten)]
    pub(super) reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Repair {
    pub(super) task: String,
    /// requeue: hand it out again. force_error: end it with an error
    #[arg(value_parser = ["requeue", "force_error"])]
    pub(super) repair: String,
    /// The lease that `status` names: a newer one is left alone
    #[arg(long)]
    pub(super) lease_id: String,
    /// With requeue, why that is safe: idempotent (the task says so) or operator_accepted (you say so)
    #[arg(long, value_parser = ["idempotent", "operator_accepted"])]
    pub(super) posture: Option<String>,
    /// With force_error, what the sender is told
    #[arg(long)]
    pub(super) message: Option<String>,
    /// Why; it stands in the task and in the audit log
    #[arg(long)]
    pub(super) reason: String,
    #[command(flatten)]
    pub(super) reach: Reach,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryStale {
    /// Do it; without this, only say what would be done
    #[arg(long)]
    pub(super) enable: bool,
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 300_000)]
    pub(super) min_lease_age_ms: u64,
    /// Executions in all
    #[arg(long, default_value_t = 3)]
    pub(super) max_attempts: u32,
    /// In this pass
    #[arg(long, default_value_t = 1)]
    pub(super) max_requeues: u32,
    #[arg(long, default_value_t = 100)]
    pub(super) scan_limit: u32,
    #[command(flatten)]
    pub(super) reach: Reach,
}
