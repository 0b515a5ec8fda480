//! `cargo xtask deny`: advisories, licences, bans and sources, by cargo-deny.

use std::path::Path;

use crate::failure::Result;
use crate::process;
use crate::program::passed_on;
use crate::tools;

/// Words that cargo-deny wants before the name of its command; all others belong to the check.
const BEFORE: [&str; 3] = ["--offline", "--locked", "--frozen"];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    tools::DENY.install(root)?;
    process::run(root, &line(&passed_on(args)))
}

/// Whether the advisories of today can be had.
pub(crate) fn has_database(root: &Path) -> bool {
    process::works(root, &["cargo", "deny", "fetch", "db"])
}

fn line<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let (before, after): (Vec<&str>, Vec<&str>) = args.iter().partition(|arg| BEFORE.contains(arg));
    [vec!["cargo", "deny"], before, vec!["check"], after].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a train, by the advisories that were fetched last.
    #[test]
    fn offline_stands_where_cargo_deny_looks_for_it() {
        assert_eq!(line(&[]), ["cargo", "deny", "check"]);
        assert_eq!(line(&["advisories", "--offline"]), ["cargo", "deny", "--offline", "check", "advisories"]);
    }
}
