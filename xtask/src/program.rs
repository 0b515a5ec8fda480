//! Running one of our own unpublished programs, with a clear word where it does not exist.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::metadata::Metadata;
use crate::process;

pub(crate) struct Program {
    pub(crate) package: &'static str,
    /// `None`: the package's only program.
    pub(crate) bin: Option<&'static str>,
    pub(crate) features: &'static [&'static str],
}

impl Program {
    pub(crate) fn run(&self, root: &Path, args: &[&str]) -> Result<()> {
        self.require(&Metadata::load_members(root)?)?;
        process::run(root, &self.line(args))
    }

    fn line<'a>(&self, args: &[&'a str]) -> Vec<&'a str> {
        let mut line = vec!["cargo", "run", "--release", "-p", self.package];
        if let Some(bin) = self.bin {
            line.extend(["--bin", bin]);
        }
        for feature in self.features {
            line.extend(["--features", feature]);
        }
        line.push("--");
        line.extend(args);
        line
    }

    /// Cargo's own message for a missing program does not say where it should come from.
    fn require(&self, metadata: &Metadata) -> Result<()> {
        let Some(package) = metadata.member(self.package) else {
            return Err(Failure::new(format!("the workspace has no package `{}`", self.package)));
        };
        let mut bins = package.targets.iter().filter(|target| target.kinds.iter().any(|kind| kind == "bin"));
        if bins.any(|target| self.bin.is_none_or(|wanted| target.name == wanted)) {
            return Ok(());
        }
        let folder = package.manifest.trim_end_matches("Cargo.toml");
        let file = self.bin.map_or_else(|| "src/main.rs".to_owned(), |bin| format!("src/bin/{bin}.rs"));
        Err(Failure::new(format!(
            "package `{}` has no program `{}`; it belongs in {folder}{file}",
            self.package,
            self.bin.unwrap_or(self.package)
        )))
    }
}

/// What stands after the command, without a `--` that the user typed out of habit.
pub(crate) fn passed_on(args: &[String]) -> Vec<&str> {
    let own = if args.first().is_some_and(|first| first == "--") { &args[1..] } else { args };
    own.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::{Target, made_up};

    const MODEL: Program = Program { package: "hapax-sim", bin: Some("model"), features: &[] };

    #[test]
    fn a_missing_program_names_the_file_it_belongs_in() {
        let metadata = made_up::workspace(vec![made_up::package("hapax-sim", &[])]);
        let message = MODEL.require(&metadata).unwrap_err().to_string();
        assert!(message.contains("no program `model`"), "{message}");
        assert!(message.contains("crates/hapax-sim/src/bin/model.rs"), "{message}");
    }

    #[test]
    fn a_program_that_exists_is_run_in_release() {
        let mut package = made_up::package("hapax-sim", &[]);
        package.targets.push(Target { name: "model".into(), kinds: vec!["bin".into()] });
        MODEL.require(&made_up::workspace(vec![package])).unwrap();
        let line = MODEL.line(&["--test"]).join(" ");
        assert_eq!(line, "cargo run --release -p hapax-sim --bin model -- --test");
    }

    #[test]
    fn a_leading_double_dash_is_not_passed_on_twice() {
        let args = ["--".to_owned(), "--test".to_owned()];
        assert_eq!(passed_on(&args), ["--test"]);
    }
}
