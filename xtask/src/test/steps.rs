//! The steps of the test command, as values: to add one, add an entry.

use std::path::Path;

use super::{built, examples};
use crate::failure::Result;
use crate::{deny, process, python, servers, tidy, tools};

pub(super) struct Step {
    /// For `--only` and `--skip`.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) action: Action,
}

pub(super) enum Action {
    Run(&'static [&'static [&'static str]]),
    Call(fn(&Path) -> Result<Done>),
}

#[derive(Debug)]
pub(super) enum Done {
    Passed,
    Skipped(String),
}

pub(super) fn all() -> Vec<Step> {
    vec![
        Step { name: "fmt", about: "the code is formatted", action: Action::Call(fmt) },
        Step { name: "clippy", about: "no lint speaks up", action: Action::Call(clippy) },
        Step { name: "tidy", about: "layering, purity, links, licences", action: Action::Call(tidied) },
        Step {
            name: "deny",
            about: "advisories, where cargo-deny is installed and GitHub in reach",
            action: Action::Call(denied),
        },
        Step { name: "build", about: "everything builds", action: Action::Call(build) },
        Step { name: "python", about: "clients that others wrote, for the tests", action: Action::Call(python) },
        Step { name: "tests", about: "all tests", action: Action::Call(tests) },
        Step {
            name: "core",
            about: "the rules alone, as a library gets them: without what the program adds",
            action: Action::Run(&[&["cargo", "test", "--quiet", "--package", "hapax-core", "--lib", "--tests"]]),
        },
        Step { name: "sdk", about: "the Python package, the page and the API's document", action: Action::Call(sdk) },
        Step {
            name: "doc-tests",
            about: "the examples in the documentation",
            action: Action::Run(&[&["cargo", "test", "--doc", "--workspace"]]),
        },
        Step { name: "model", about: "all histories of a small world", action: Action::Call(check_model) },
        Step { name: "fuzz", about: "each fuzz target for 15 s", action: Action::Call(fuzz) },
        Step { name: "examples", about: "each example runs to its end", action: Action::Call(examples::run_all) },
    ]
}

fn fmt(root: &Path) -> Result<Done> {
    tools::install_component(root, "fmt", "rustfmt")?;
    process::run(root, &["cargo", "fmt", "--all", "--check"])?;
    Ok(Done::Passed)
}

fn clippy(root: &Path) -> Result<Done> {
    tools::install_component(root, "clippy", "clippy")?;
    process::run(root, &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    Ok(Done::Passed)
}

fn tidied(root: &Path) -> Result<Done> {
    tidy::run(root, &[])?;
    Ok(Done::Passed)
}

/// Building cargo-deny takes longer than all other steps; `tidy` checks licences and sources without it.
fn denied(root: &Path) -> Result<Done> {
    if !tools::DENY.is_installed(root) {
        return Ok(Done::Skipped("cargo-deny is not installed; `cargo xtask deny` installs and runs it".to_owned()));
    }
    if !deny::has_database(root) {
        let why = "the advisories cannot be fetched; `cargo xtask deny --offline` goes by those that were fetched last";
        return Ok(Done::Skipped(why.to_owned()));
    }
    process::run(root, &["cargo", "deny", "check"])?;
    Ok(Done::Passed)
}

fn build(root: &Path) -> Result<Done> {
    built::build(root)?;
    Ok(Done::Passed)
}

/// The daemon that was built, spoken to by the Python package, a browser and schemathesis.
fn sdk(root: &Path) -> Result<Done> {
    const PYTHON: &str = "target/python/bin/python";
    servers::install(root)?;
    built::build(root)?;
    python::install(root)?;
    process::run(root, &[PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "./sdk/python"])?;
    process::run(root, &[PYTHON, "-m", "mypy", "--strict", "sdk/python/src", "sdk/python/examples"])?;
    process::run(root, &[PYTHON, "-m", "pytest", "-q", "sdk/python/tests"])?;
    Ok(Done::Passed)
}

fn python(root: &Path) -> Result<Done> {
    python::install(root)?;
    Ok(Done::Passed)
}

/// Without nextest the same tests run, only slower and without its time limits.
fn tests(root: &Path) -> Result<Done> {
    servers::install(root)?;
    match tools::NEXTEST.install(root) {
        Ok(()) => process::run(root, &["cargo", "nextest", "run", "--workspace"])?,
        Err(why) => {
            eprintln!("cargo-nextest could not be installed, `cargo test` takes its place: {why}");
            process::run(root, &["cargo", "test", "--workspace", "--lib", "--bins", "--tests"])?;
        }
    }
    Ok(Done::Passed)
}

fn check_model(root: &Path) -> Result<Done> {
    built::run(root, "model", &["--test"])?;
    Ok(Done::Passed)
}

fn fuzz(root: &Path) -> Result<Done> {
    built::run(root, "hapax-fuzz", &["--seconds", "15", "all"])?;
    Ok(Done::Passed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_steps_share_a_name() {
        let steps = all();
        let names: BTreeSet<&str> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), steps.len());
    }
}
