//! `cargo xtask soak NAME [--minutes M | --seconds S]`: the long runs; passed on as it is.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::program::{Program, passed_on};
use crate::servers;

const PROGRAM: Program = Program { package: "hapax-sim", bin: Some("soak"), features: &[] };

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let args = passed_on(args);
    if args.is_empty() {
        return Err(Failure::new("which long run? cargo xtask soak NAME [--minutes M | --seconds S]"));
    }
    if args.first() == Some(&"stores") {
        servers::install(root)?;
    }
    PROGRAM.run(root, &args)
}
