//! The `hapax` command.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when nobody reads any more; use `outln!` and `errln!`"
)]

// First, for its macros.
#[macro_use]
mod say;

mod args;
mod commands;
mod demo;
mod failure;
mod files;
mod gateway;
mod serve;
mod store;
mod transfer;
mod whole;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use failure::Failure;

/// Records and requests are allocated in one thread and freed in another all the time, which glibc's arenas do not like.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args).and_then(|()| say::all_out()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A refusal may repeat what a caller wrote.
            errln!("hapax: {}", say::plain_lines(&failure.words()));
            failure.code()
        }
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    match args.command {
        Command::Gateway(args) => runtime.block_on(gateway::run(*args)),
        Command::Demo(args) => runtime.block_on(demo::run(args)),
        Command::Serve(args) => runtime.block_on(serve::run(*args)),
        Command::Operate(command) => runtime.block_on(commands::run(*command)),
    }
}
