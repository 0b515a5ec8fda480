//! `cargo xtask bench NAME [--seconds S] [--json]`: passed on as it is; the program knows its own names.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::program::{Program, passed_on};
use crate::{process, profile, servers};

/// The peers take minutes to build, so only the benchmarks that need them do.
const FEATURES: [(&str, &str); 8] = [
    ("ledger", "peers"),
    ("daemon", "web"),
    ("flood", "web"),
    ("gateway", "web"),
    ("queue", "queue"),
    ("replay", "web"),
    ("store", "stores"),
    ("store-redis", "stores"),
];
/// These start the product as a user would.
const NEED_THE_PROGRAM: [&str; 4] = ["daemon", "flood", "gateway", "replay"];
/// Allocations are counted by a program of their own, so that the counting is not measured along.
const NEED_COUNTS: [&str; 2] = ["engine", "gate"];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let args = passed_on(args);
    if args.is_empty() {
        return Err(Failure::new("which benchmark? cargo xtask bench NAME [--seconds S] [--json]"));
    }
    for arg in &args {
        servers::install_for_bench(root, arg)?;
    }
    if args.iter().any(|arg| NEED_COUNTS.contains(arg)) {
        process::run(root, &["cargo", "build", "--release", "-p", "hapax-bench", "--bin", "hapax-count"])?;
    }
    if args.iter().any(|arg| NEED_THE_PROGRAM.contains(arg)) {
        process::run(root, &["cargo", "build", "--release", "-p", "hapax-cli"])?;
        if let Some(notice) = profile::notice(root)? {
            eprintln!("note: {notice}");
        }
    }
    let wanted = FEATURES.iter().find(|(name, _)| args.contains(name));
    let features: &[&str] = wanted.map_or(&[], |(_, feature)| std::slice::from_ref(feature));
    Program { package: "hapax-bench", bin: None, features }.run(root, &args)
}
