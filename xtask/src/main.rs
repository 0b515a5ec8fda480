//! The repository's own commands, run as `cargo xtask COMMAND`.
//!
//! One command per file or folder. Nothing here is part of the product, so it depends on as little as possible.

mod bench;
mod canary;
mod deny;
mod failure;
mod files;
mod help;
mod metadata;
mod model;
mod process;
mod profile;
mod program;
mod python;
#[cfg(test)]
mod scratch;
mod servers;
mod soak;
mod stopwatch;
mod table;
mod test;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{Failure, Result};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            // The closing line of `test` stays the last one printed.
            if let Some(line) = failure.closing_line() {
                println!("{line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<()> {
    let Some((command, rest)) = args.split_first() else {
        help::print();
        return Ok(());
    };
    let root = repository_root()?;
    match command.as_str() {
        "test" => test::run(&root, rest),
        "tidy" => tidy::run(&root, rest),
        "model" => model::run(&root, rest),
        "canary" => canary::run(&root, rest),
        "bench" => bench::run(&root, rest),
        "soak" => soak::run(&root, rest),
        "deny" => deny::run(&root, rest),
        "profile" => profile::run(&root, rest),
        "help" | "--help" | "-h" => {
            help::print();
            Ok(())
        }
        other => Err(Failure::new(format!("there is no command `{other}`; `cargo xtask help` lists them"))),
    }
}

/// The folder above this crate. Cargo's word at run time wins over the one at build time, because two checkouts may
/// share one target directory.
fn repository_root() -> Result<PathBuf> {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|dir| dir.ends_with("xtask"))
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest_dir
        .parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| Failure::new(format!("{} has no parent folder", manifest_dir.display())))
}
