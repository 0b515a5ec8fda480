//! `cargo xtask model [-- ARGS…]`: the exhaustive checker.

use std::path::Path;

use crate::failure::Result;
use crate::program::{Program, passed_on};

const PROGRAM: Program = Program { package: "hapax-sim", bin: Some("model"), features: &[] };

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    PROGRAM.run(root, &passed_on(args))
}
