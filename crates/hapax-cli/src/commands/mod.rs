//! The commands that look at, and decide, what a store holds: through the running process, or by opening the ledger.

mod a2a;
mod audit;
mod config;
mod doubt;
mod explain;
mod key;
mod ledger;
mod op;
mod policy;
mod reach;
mod show;

use clap::Subcommand;

use crate::{failure::Failure, serve::args::ServeArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum Operate {
    /// Begin operations, say how they ended, list them.
    #[command(subcommand)]
    Op(op::Op),
    /// What happened to one operation, why, and what may be done next.
    Explain(explain::Explain),
    /// What nobody knows the end of.
    #[command(subcommand)]
    Doubt(doubt::Doubt),
    /// Tasks between agents: leased, never silently handed out twice.
    #[command(subcommand)]
    A2a(a2a::A2a),
    /// What operators did.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Policy files, before they are in force.
    #[command(subcommand)]
    Policy(policy::Policy),
    /// The embedded ledger, while no process uses it.
    #[command(subcommand)]
    Ledger(ledger::Ledger),
    /// What is in force.
    #[command(subcommand)]
    Config(config::Config),
    /// API keys.
    #[command(subcommand)]
    Key(key::Key),
    /// A script that completes commands in your shell.
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

pub(crate) async fn run(command: Operate) -> Result<(), Failure> {
    match command {
        Operate::Op(op) => op::run(op).await,
        Operate::Explain(explain) => explain::run(explain).await,
        Operate::Doubt(doubt) => doubt::run(doubt).await,
        Operate::A2a(a2a) => Box::pin(a2a::run(a2a)).await,
        Operate::Audit(audit) => audit::run(audit).await,
        Operate::Policy(policy) => policy::run(policy).await,
        Operate::Ledger(ledger) => ledger::run(ledger),
        Operate::Config(config) => config::run(config),
        Operate::Key(key) => key::run(key),
        Operate::Completions { shell } => {
            let mut command = <crate::args::Args as clap::CommandFactory>::command();
            clap_complete::generate(shell, &mut command, "hapax", &mut std::io::stdout());
            Ok(())
        }
    }
}

/// `serve` and `config show` take the same flags.
pub(crate) type Serve = ServeArgs;
