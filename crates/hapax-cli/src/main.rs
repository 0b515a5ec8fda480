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
mod memory;
mod problem;
mod processors;
mod serve;
mod store;
mod transfer;
mod whole;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use args::{Args, Command};
use failure::Failure;
use processors::Serving;

fn main() -> ExitCode {
    memory::link();
    let matches = Args::command().try_get_matches().unwrap_or_else(|error| cannot_be_read(&error));
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| cannot_be_read(&error));
    match run(args).and_then(|()| say::all_out()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(document) = problem::of(&failure).filter(|_| wants_json(&matches)) {
                outln!("{document}");
            }
            // A refusal may repeat what a caller wrote.
            errln!("hapax: {}", say::plain_lines(&failure.words()));
            ExitCode::from(failure.code())
        }
    }
}

/// Help and the version were asked for; all else is a slip.
fn cannot_be_read(error: &clap::Error) -> ! {
    if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
        outln!("{}", problem::of_the_words(error));
    }
    error.exit()
}

fn wants_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, matches)) => wants_json(matches),
        None => matches.try_get_one("json").ok().flatten().copied().unwrap_or(false),
    }
}

fn run(args: Args) -> Result<(), Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if matches!(args.command, Command::Gateway(_) | Command::Serve(_)) {
        processors::spread(&mut runtime);
    }
    let runtime = runtime.enable_all().build().map_err(Failure::Runtime)?;
    match args.command {
        Command::Gateway(args) => {
            let serving = Serving::beside(&runtime).map_err(Failure::Runtime)?;
            runtime.block_on(gateway::run(*args, serving.crew()))
        }
        Command::Demo(args) => runtime.block_on(demo::run(args)),
        Command::Serve(args) => {
            let serving = Serving::beside(&runtime).map_err(Failure::Runtime)?;
            runtime.block_on(serve::run(*args, serving.crew()))
        }
        Command::Operate(command) => runtime.block_on(commands::run(*command)),
    }
}
