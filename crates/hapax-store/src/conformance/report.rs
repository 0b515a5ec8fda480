use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Passed,
    Failed(String),
    Skipped(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    pub name: String,
    pub verdict: Verdict,
}

/// What became of each check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Report {
    pub checks: Vec<Checked>,
}

impl Report {
    pub(super) fn add(&mut self, name: impl Into<String>, verdict: Verdict) {
        self.checks.push(Checked { name: name.into(), verdict });
    }

    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The names of the failed checks.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.named(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    /// The names of the checks that the harness could not run.
    pub fn skipped(&self) -> impl Iterator<Item = &str> {
        self.named(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }

    fn named(&self, which: impl Fn(&Verdict) -> bool) -> impl Iterator<Item = &str> {
        self.checks.iter().filter(move |checked| which(&checked.verdict)).map(|checked| checked.name.as_str())
    }

    /// # Panics
    /// If a check failed, with the whole report.
    #[allow(clippy::panic, reason = "the suite runs inside somebody's test")]
    #[track_caller]
    pub fn assert_passed(&self) {
        if !self.passed() {
            panic!("this is not a store:\n{self}");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Checked { name, verdict } in &self.checks {
            match verdict {
                Verdict::Passed => writeln!(f, "passed   {name}")?,
                Verdict::Failed(why) => writeln!(f, "FAILED   {name}: {why}")?,
                Verdict::Skipped(why) => writeln!(f, "skipped  {name}: {why}")?,
            }
        }
        Ok(())
    }
}
