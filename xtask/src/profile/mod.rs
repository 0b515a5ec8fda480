//! `cargo xtask profile`: records anew what the program does at work, which releases are compiled with (`profile/README.md`).

mod fit;
mod merge;
#[cfg(test)]
mod wrapper;

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result, While};
use crate::metadata::Metadata;
use crate::process;

pub(crate) use fit::notice;

/// Relative to the repository.
const PROFILE: &str = "profile/hapax.profdata";
const FUNCTIONS: &str = "profile/functions.txt";

/// What a day's work looks like: crowds and single clients, at a gateway and at a daemon. Whoever is killed tells nothing of what it did.
const WORK: [&[&str]; 3] =
    [&["gateway", "--seconds", "10"], &["replay", "--seconds", "5"], &["daemon", "--seconds", "10"]];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(Failure::new(format!("profile takes no arguments, not even `{arg}`")));
    }
    for name in ["RUSTC_WRAPPER", "CARGO_BUILD_RUSTC_WRAPPER"] {
        if std::env::var_os(name).is_some_and(|wrapper| !wrapper.is_empty()) {
            return Err(Failure::new(format!("{name} is set, so `profile/rustc` would not be asked; unset it")));
        }
    }
    for bench in WORK {
        crate::servers::install_for_bench(root, bench[0])?;
    }
    let tool = merge::tool(root)?;
    let target = PathBuf::from(Metadata::load_members(root)?.target);
    // What records is built beside everything else, so that nothing of it is taken for a release.
    let build = target.join("profile");
    let (programs, recorded) = (build.join("release"), build.join("recorded"));
    process::run(root, &["cargo", "build", "--release", "-p", "hapax-bench", "--features", "web"])?;
    build_to_record(root, &build, &recorded)?;
    // The benchmarks start the program that lies beside them.
    let benchmarks = programs.join("hapax-bench");
    std::fs::copy(target.join("release/hapax-bench"), &benchmarks)
        .while_doing(|| "cannot put the benchmarks beside the program that records".to_owned())?;
    let _nothing_there = std::fs::remove_dir_all(&recorded);
    let benchmarks = benchmarks.display().to_string();
    for bench in WORK {
        process::run(root, &[&[benchmarks.as_str()], bench].concat())?;
    }
    merge::merge(root, &tool, &recorded)?;
    // cargo does not compile a dependency again for its sake.
    process::run(root, &["cargo", "clean", "--release"])
}

fn build_to_record(root: &Path, build: &Path, recorded: &Path) -> Result<()> {
    let build = build.display().to_string();
    let line = ["cargo", "build", "--release", "-p", "hapax-cli", "--target-dir", &build];
    let shown = format!("HAPAX_PROFILE=record HAPAX_PROFILE_TO={} {}", recorded.display(), process::spoken(&line));
    eprintln!("$ {shown}");
    let mut command = process::command(root, &line)?;
    let status = command.env("HAPAX_PROFILE", "record").env("HAPAX_PROFILE_TO", recorded).status();
    if status.while_doing(|| format!("cannot start `{shown}`"))?.success() {
        Ok(())
    } else {
        Err(Failure::new("the program that records was not built").rerun_with(shown))
    }
}
