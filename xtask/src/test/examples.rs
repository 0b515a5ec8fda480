//! Examples are documentation that runs: each one of the workspace must end well.

use std::path::Path;

use super::steps::Done;
use crate::failure::{Failure, Result};
use crate::metadata::Metadata;
use crate::process;

pub(super) fn run_all(root: &Path) -> Result<Done> {
    let examples = found(&Metadata::load_members(root)?);
    if examples.is_empty() {
        return Err(Failure::new("no example was found; they belong in examples/examples/NAME.rs"));
    }
    for line in examples {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        process::run(root, &line)?;
    }
    Ok(Done::Passed)
}

/// One command per example.
fn found(metadata: &Metadata) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for package in metadata.members() {
        for target in package.targets.iter().filter(|target| target.kinds.iter().any(|kind| kind == "example")) {
            let mut line: Vec<String> =
                ["cargo", "run", "-p", &package.name, "--example", &target.name].map(str::to_owned).into();
            if !target.required_features.is_empty() {
                line.extend(["--features".to_owned(), target.required_features.join(",")]);
            }
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Target, made_up};

    #[test]
    fn every_example_of_every_member_is_run_with_the_features_it_needs() {
        let mut package = made_up::package("hapax-examples", &[]);
        let target = |name: &str, kind: &str, features: &[&str]| Target {
            name: name.to_owned(),
            kinds: vec![kind.to_owned()],
            required_features: features.iter().map(|feature| (*feature).to_owned()).collect(),
        };
        package.targets =
            vec![target("lib", "lib", &[]), target("payment", "example", &[]), target("agent", "example", &["tools"])];
        let lines: Vec<String> = found(&made_up::workspace(vec![package])).iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "cargo run -p hapax-examples --example payment",
                "cargo run -p hapax-examples --example agent --features tools"
            ]
        );
    }
}
