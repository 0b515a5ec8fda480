//! Programs as the step `build` has built them: asked for one package alone, cargo would build its dependencies once more,
//! with the features that this package needs.

use std::path::Path;

use crate::failure::Result;
use crate::metadata::Metadata;
use crate::process;

/// Everything there is. Nothing to do where the step `build` came before.
pub(super) fn build(root: &Path) -> Result<()> {
    process::run(root, &["cargo", "build", "--workspace", "--all-targets"])
}

/// Builds and runs one program of the workspace.
pub(super) fn run(root: &Path, program: &str, args: &[&str]) -> Result<()> {
    build(root)?;
    let program = format!("{}/debug/{program}", Metadata::load_members(root)?.target);
    process::run(root, &[&[program.as_str()], args].concat())
}
