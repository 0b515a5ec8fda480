//! `cargo xtask bench NAME [--seconds S] [--json]`: passed on as it is; the program knows its own names.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::program::{Program, passed_on};

const PROGRAM: Program = Program { package: "hapax-bench", bin: None };

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let args = passed_on(args);
    if args.is_empty() {
        return Err(Failure::new("which benchmark? cargo xtask bench NAME [--seconds S] [--json]"));
    }
    PROGRAM.run(root, &args)
}
