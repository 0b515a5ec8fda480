//! `cargo xtask tidy`: rules about the repository that no compiler checks.
//!
//! Each check is a function from what was read to a list of findings, so that its tests can make the input up.

mod canaries;
mod direction;
mod error_pages;
mod finding;
mod licences;
mod links;
mod markdown;
mod private_words;
mod purity;
mod shape;
mod spdx;

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::files::Sources;
use crate::metadata::Metadata;
use finding::Finding;

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        return Err(Failure::new(format!("tidy takes no arguments, not even `{arg}`")));
    }
    let sources = Sources::read(root)?;
    let metadata = Metadata::load(root)?;
    let findings = look_at(&sources, &metadata)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        return Err(Failure::new(format!("tidy found {} things to fix", findings.len())).rerun_with("cargo xtask tidy"));
    }
    purity::build_for_wasm(root)?;
    println!("tidy: {} packages, {} files, nothing to fix", metadata.packages.len(), sources.paths.len());
    Ok(())
}

fn look_at(sources: &Sources, metadata: &Metadata) -> Result<Vec<Finding>> {
    let mut findings = direction::check(sources, metadata);
    findings.extend(purity::check(sources, metadata));
    findings.extend(links::check(sources));
    findings.extend(error_pages::check(sources));
    findings.extend(private_words::check(sources));
    findings.extend(licences::check(sources, metadata)?);
    findings.extend(shape::check(sources, metadata));
    findings.extend(canaries::check(sources));
    Ok(findings)
}
