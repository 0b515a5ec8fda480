//! `cargo xtask deny`: advisories, licences, bans and sources, by cargo-deny.

use std::path::Path;

use crate::failure::Result;
use crate::process;
use crate::program::passed_on;
use crate::tools;

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    tools::DENY.install(root)?;
    let mut line = vec!["cargo", "deny", "check"];
    line.extend(passed_on(args));
    process::run(root, &line)
}
