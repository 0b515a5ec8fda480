//! Python programs of others that the tests use: real clients of ours, in an environment of their own below `target`.

use std::path::Path;

use crate::failure::Result;
use crate::{process, servers};

/// What is installed, with the versions that were tried.
const REQUIREMENTS: &str = "tests/python/requirements.txt";
/// Where the tests look for it.
const ENVIRONMENT: &str = "target/python";

/// Installs what is missing; says nothing where all of it is there.
pub(crate) fn install(root: &Path) -> Result<()> {
    let python = format!("{ENVIRONMENT}/bin/python");
    if !process::works(root, &[&python, "-m", "pip", "--version"]) {
        if !process::works(root, &["python3", "-c", "import ensurepip, venv"]) {
            servers::apt(root, &["python3", "python3-venv"])?;
        }
        process::run(root, &["python3", "-m", "venv", "--clear", ENVIRONMENT])?;
    }
    process::run(root, &[&python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS])
}
