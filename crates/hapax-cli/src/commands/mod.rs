//! The commands that look at, and decide, what a store holds: through the running process, or by opening the ledger.

mod a2a;
mod audit;
mod bench;
mod beside;
mod config;
mod doubt;
mod explain;
mod key;
mod ledger;
mod op;
mod policy;
mod reach;
mod reload;
mod show;
mod verify;
pub(crate) mod who;

use clap::Subcommand;

use crate::{failure::Failure, serve::args::ServeArgs, transfer};

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
    /// Write all operations of a store into a file, with their answers.
    Export(transfer::Export),
    /// Put the operations of an export into a store; what is there stays as it is.
    Import(transfer::Import),
    /// Measure this machine and store: durable operations a second, and how long one takes.
    Bench(bench::Bench),
    /// Have the running gateway or daemon read its files again, as SIGHUP does; says what is wrong with them.
    Reload(reload::Reload),
    /// What is in force.
    #[command(subcommand)]
    Config(config::Config),
    /// API keys.
    #[command(subcommand)]
    Key(Box<key::Key>),
    /// Try a store before trusting it: the suite, the faults, and what it may promise. Exit code 8 if it is none.
    Verify(verify::Verify),
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
        Operate::Export(export) => transfer::export(export).await,
        Operate::Import(import) => transfer::import(import).await,
        Operate::Bench(bench) => bench::run(bench).await,
        Operate::Reload(reload) => reload::run(reload).await,
        Operate::Config(config) => config::run(config),
        Operate::Key(key) => key::run(*key).await,
        Operate::Verify(verify) => verify::run(verify).await,
        Operate::Completions { shell } => {
            let mut command = <crate::args::Args as clap::CommandFactory>::command();
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "hapax", &mut script);
            outln!("{}", String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
    }
}

/// A key under which one invocation's change happens once.
fn fresh_key() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    let failed = |error: getrandom::Error| Failure::Runtime(std::io::Error::other(error));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(data_encoding::HEXLOWER.encode(&bytes))
}

/// `serve` and `config show` take the same flags.
pub(crate) type Serve = ServeArgs;
