//! `cargo xtask bench NAME [--seconds S] [--json]`: passed on as it is; the program knows its own names.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::program::{Program, passed_on};

/// The peers take minutes to build, so only the benchmarks that need them do.
const NEED_PEERS: [&str; 1] = ["ledger"];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let args = passed_on(args);
    if args.is_empty() {
        return Err(Failure::new("which benchmark? cargo xtask bench NAME [--seconds S] [--json]"));
    }
    let features: &[&str] = if args.iter().any(|arg| NEED_PEERS.contains(arg)) { &["peers"] } else { &[] };
    Program { package: "hapax-bench", bin: None, features }.run(root, &args)
}
