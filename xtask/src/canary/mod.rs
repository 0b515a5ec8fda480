//! `cargo xtask canary`: plants one known bug at a time in a scratch copy and demands that the named test finds it.
//!
//! The product holds no planted bug, not even behind a feature: a canary is a list of edits in `canary/NAME.toml`
//! (docs/adr/0002-planted-bugs-as-edits.md).

mod output;
mod spec;
mod tree;
mod trial;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failure::{Failure, Result, While};
use crate::stopwatch::{Stopwatch, seconds};
use crate::{table, tools};
pub(crate) use spec::Canary;
use tree::Tree;
use trial::{Bench, Verdict};

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let list = args.iter().any(|arg| arg == "--list");
    let names: Vec<&str> = args.iter().map(String::as_str).filter(|arg| *arg != "--list").collect();
    if let Some(flag) = names.iter().find(|name| name.starts_with('-')) {
        return Err(Failure::new(format!("canary takes names and --list, not `{flag}`")));
    }
    let canaries = chosen(load(root)?, &names)?;
    if list {
        let rows: Vec<_> = canaries.iter().map(|canary| vec![canary.name.clone(), canary.story.clone()]).collect();
        print!("{}", table::render(&rows));
        return Ok(());
    }
    if canaries.is_empty() {
        return Err(Failure::new("there are no canaries yet; canary/README.md says how to write one"));
    }
    release(root, &scratch_folder(root), &canaries)
}

/// Beside the ordinary build output, so that both the copy and its builds are kept for the next run.
fn scratch_folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    root.join(target).join("canary")
}

fn load(root: &Path) -> Result<Vec<Canary>> {
    let folder = root.join("canary");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut canaries = Vec::new();
    for entry in std::fs::read_dir(&folder).while_doing(|| format!("cannot list {}", folder.display()))? {
        let path = entry.while_doing(|| format!("cannot list {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).while_doing(|| format!("cannot read {}", path.display()))?;
            canaries.push(Canary::parse(&name, &text)?);
        }
    }
    canaries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(canaries)
}

/// All of them when none is named.
fn chosen(canaries: Vec<Canary>, names: &[&str]) -> Result<Vec<Canary>> {
    if let Some(unknown) = names.iter().find(|name| canaries.iter().all(|canary| canary.name != **name)) {
        return Err(Failure::new(format!("there is no canary/{unknown}.toml; `cargo xtask canary --list` names them")));
    }
    let wanted = |canary: &Canary| names.is_empty() || names.contains(&canary.name.as_str());
    Ok(canaries.into_iter().filter(wanted).collect())
}

struct Line {
    name: String,
    verdict: Verdict,
    took: Duration,
}

fn release(root: &Path, scratch: &Path, canaries: &[Canary]) -> Result<()> {
    // Stale canaries are told before anything is built.
    for canary in canaries {
        canary.planted(|path| std::fs::read_to_string(root.join(path)).ok())?;
    }
    if canaries.iter().any(Canary::uses_nextest) {
        tools::NEXTEST.install(root)?;
    }
    let tree = Tree::sync(root, &scratch.join("tree"))?;
    let bench = Bench::new(&tree, scratch)?;
    check_clean(&bench, canaries)?;

    let mut lines = Vec::new();
    for canary in canaries {
        eprintln!("== {}: {}", canary.name, canary.story);
        let watch = Stopwatch::start();
        let verdict = bench.try_out(canary)?;
        lines.push(Line { name: canary.name.clone(), verdict, took: watch.elapsed() });
    }
    report(&lines)
}

/// A test that fails without the bug proves nothing about the bug.
fn check_clean(bench: &Bench<'_>, canaries: &[Canary]) -> Result<()> {
    let commands: BTreeSet<&[String]> = canaries.iter().map(|canary| canary.command.as_slice()).collect();
    commands.into_iter().try_for_each(|command| bench.must_pass(command))
}

fn report(lines: &[Line]) -> Result<()> {
    let mut rows = vec![["canary", "found by", "seconds"].map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(|line| vec![line.name.clone(), line.verdict.to_string(), seconds(line.took)]));
    print!("{}", table::render(&rows));
    let missed: Vec<&str> =
        lines.iter().filter(|line| !line.verdict.is_found()).map(|line| line.name.as_str()).collect();
    if missed.is_empty() {
        println!("{} canaries, all found", lines.len());
        return Ok(());
    }
    let again = format!("cargo xtask canary {}", missed.join(" "));
    Err(Failure::new(format!("{} of {} canaries were not found", missed.len(), lines.len())).rerun_with(again))
}

#[cfg(test)]
mod tests;
