//! Examples are documentation that runs: each one of the workspace must end well.

use std::path::Path;

use super::built;
use super::steps::Done;
use crate::failure::{Failure, Result};
use crate::metadata::Metadata;

pub(super) fn run_all(root: &Path) -> Result<Done> {
    let examples = found(&Metadata::load_members(root)?);
    if examples.is_empty() {
        return Err(Failure::new("no example was found; they belong in examples/examples/NAME.rs"));
    }
    for example in examples {
        built::run(root, &format!("examples/{example}"), &[])?;
    }
    Ok(Done::Passed)
}

fn found(metadata: &Metadata) -> Vec<String> {
    let targets = metadata.members().flat_map(|package| &package.targets);
    let examples = targets.filter(|target| target.kinds.iter().any(|kind| kind == "example"));
    examples.map(|target| target.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Target, made_up};

    #[test]
    fn every_example_of_every_member_is_run() {
        let mut package = made_up::package("hapax-examples", &[]);
        let target = |name: &str, kind: &str| Target { name: name.to_owned(), kinds: vec![kind.to_owned()] };
        package.targets = vec![target("lib", "lib"), target("payment", "example"), target("agent", "example")];
        assert_eq!(found(&made_up::workspace(vec![package])), ["payment", "agent"]);
    }
}
