//! Cargo's helpers that a fresh machine may lack.

use std::path::Path;

use crate::failure::Result;
use crate::process;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    /// As in `cargo NAME`.
    pub(crate) subcommand: &'static str,
    pub(crate) package: &'static str,
}

pub(crate) const NEXTEST: Tool = Tool { subcommand: "nextest", package: "cargo-nextest" };
pub(crate) const DENY: Tool = Tool { subcommand: "deny", package: "cargo-deny" };

impl Tool {
    pub(crate) fn is_installed(self, root: &Path) -> bool {
        process::works(root, &["cargo", self.subcommand, "--version"])
    }

    pub(crate) fn install(self, root: &Path) -> Result<()> {
        if self.is_installed(root) {
            return Ok(());
        }
        eprintln!("{} is missing; building it takes some minutes, once", self.package);
        process::run(root, &["cargo", "install", "--locked", self.package])
    }
}

/// rustfmt and clippy come with the toolchain, but not with its minimal profile.
pub(crate) fn install_component(root: &Path, subcommand: &str, component: &str) -> Result<()> {
    if process::works(root, &["cargo", subcommand, "--version"]) {
        return Ok(());
    }
    process::run(root, &["rustup", "component", "add", component])
}
