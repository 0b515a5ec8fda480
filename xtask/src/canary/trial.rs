//! One trial: plant, build, run, restore.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::output;
use super::spec::Canary;
use super::tree::Tree;
use crate::failure::{Failure, Result, While};
use crate::process;

const TAIL_LINES: usize = 30;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Found {
        by: String,
    },
    /// The run passed although the bug was there.
    Missed,
    /// A bug that the compiler refuses says nothing about the tests.
    DoesNotBuild,
    /// The run failed without a word of what the canary expects.
    OtherReason {
        expected: String,
    },
}

impl Verdict {
    pub(super) fn is_found(&self) -> bool {
        matches!(self, Self::Found { .. })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { by } => f.write_str(by),
            Self::Missed => f.write_str("NOT FOUND: the run passed"),
            Self::DoesNotBuild => f.write_str("NOT FOUND: the edited code does not build"),
            Self::OtherReason { expected } => write!(f, "NOT FOUND: the run failed without {expected:?}"),
        }
    }
}

/// Where trials happen.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    tree: &'a Tree,
    build: PathBuf,
    logs: PathBuf,
}

struct Ran {
    passed: bool,
    output: String,
}

impl<'a> Bench<'a> {
    pub(super) fn new(tree: &'a Tree, scratch: &Path) -> Result<Self> {
        let logs = scratch.join("logs");
        std::fs::create_dir_all(&logs).while_doing(|| format!("cannot create {}", logs.display()))?;
        Ok(Self { tree, build: scratch.join("build"), logs })
    }

    /// The command on the clean copy.
    pub(super) fn must_pass(&self, command: &[String]) -> Result<()> {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        eprintln!("== without a bug: {}", process::spoken(&words));
        let ran = self.run("clean", &words)?;
        if ran.passed {
            return Ok(());
        }
        eprint!("{}", output::tail(&ran.output, TAIL_LINES));
        Err(Failure::new("this must pass without a planted bug; until then no canary can be judged")
            .rerun_with(process::spoken(&words)))
    }

    /// The copy is clean again afterwards, also when the trial itself could not be carried out.
    pub(super) fn try_out(&self, canary: &Canary) -> Result<Verdict> {
        let planted = canary.planted(|path| self.tree.read(path))?;
        let originals: Vec<(&String, String)> =
            planted.keys().filter_map(|path| Some((path, self.tree.read(path)?))).collect();
        let verdict = planted
            .iter()
            .try_for_each(|(path, text)| self.tree.write(path, text.as_bytes()))
            .and_then(|()| self.judge(canary));
        for (path, text) in originals {
            self.tree.write(path, text.as_bytes())?;
        }
        verdict
    }

    fn judge(&self, canary: &Canary) -> Result<Verdict> {
        let words: Vec<&str> = canary.command.iter().map(String::as_str).collect();
        if let Some(build) = build_only(&words) {
            let built = self.run(&canary.name, &build)?;
            if !built.passed {
                eprint!("{}", output::tail(&built.output, TAIL_LINES));
                return Ok(Verdict::DoesNotBuild);
            }
        }
        let ran = self.run(&canary.name, &words)?;
        if ran.passed {
            return Ok(Verdict::Missed);
        }
        if let Some(expected) = canary.expect.as_ref().filter(|expected| !ran.output.contains(*expected)) {
            eprint!("{}", output::tail(&ran.output, TAIL_LINES));
            return Ok(Verdict::OtherReason { expected: expected.clone() });
        }
        Ok(Verdict::Found { by: output::failed_test(&ran.output).unwrap_or_else(|| process::spoken(&words)) })
    }

    /// Output goes to a log that stays for reading.
    fn run(&self, log: &str, words: &[&str]) -> Result<Ran> {
        let path = self.logs.join(format!("{log}.log"));
        let file = File::create(&path).while_doing(|| format!("cannot create {}", path.display()))?;
        let second = file.try_clone().while_doing(|| format!("cannot write {}", path.display()))?;
        let status = process::command(self.tree.root(), words)?
            .env("CARGO_TARGET_DIR", &self.build)
            .env("CARGO_TERM_COLOR", "never")
            .stdout(file)
            .stderr(second)
            .status()
            .while_doing(|| format!("cannot start `{}`", process::spoken(words)))?;
        let bytes = std::fs::read(&path).while_doing(|| format!("cannot read {}", path.display()))?;
        Ok(Ran { passed: status.success(), output: String::from_utf8_lossy(&bytes).into_owned() })
    }
}

/// The command that builds what the given one would run, where that is known.
fn build_only<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let before =
        |words: &[&'a str], mark: &str| words.iter().copied().take_while(|word| *word != mark).collect::<Vec<_>>();
    match words {
        ["cargo", "nextest", "run", rest @ ..] => Some([&["cargo", "nextest", "run", "--no-run"], rest].concat()),
        ["cargo", "test", rest @ ..] => Some([&["cargo", "test", "--no-run"], rest].concat()),
        ["cargo", "run", rest @ ..] => Some([vec!["cargo", "build"], before(rest, "--")].concat()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_built_first_so_that_a_compile_error_is_not_taken_for_a_find() {
        let build = |line: &str| build_only(&line.split(' ').collect::<Vec<_>>()).map(|words| words.join(" "));
        assert_eq!(build("cargo nextest run -p a t").as_deref(), Some("cargo nextest run --no-run -p a t"));
        assert_eq!(build("cargo test -p a -- t").as_deref(), Some("cargo test --no-run -p a -- t"));
        assert_eq!(build("cargo run -p a --bin m -- --test").as_deref(), Some("cargo build -p a --bin m"));
        assert_eq!(build("bash check.sh"), None);
    }
}
