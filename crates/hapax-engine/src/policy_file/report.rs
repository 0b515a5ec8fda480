use std::fmt;

use crate::error::BuildError;

/// More problems than anybody mends in one go; the rest is counted.
const MOST_PROBLEMS: usize = 100;

/// One thing in a policy file: where it stands, and the rule with what to write instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileProblem {
    /// From 1.
    pub line: usize,
    /// The table, such as `surface.http`; empty at the top of the file.
    pub table: String,
    /// Empty where it is about the whole table.
    pub knob: String,
    pub rule: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if !self.table.is_empty() {
            write!(f, ", [{}]", self.table)?;
        }
        if !self.knob.is_empty() {
            write!(f, ", `{}`", self.knob)?;
        }
        write!(f, ": {}", self.rule)
    }
}

/// Something in the file that can be meant, but seldom is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFileWarning(pub FileProblem);

impl fmt::Display for PolicyFileWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A policy file that cannot be used, with everything that is wrong with it, in the order of its lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyFileError {
    pub problems: Vec<FileProblem>,
    /// How many more there are than are listed.
    pub more: usize,
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policy file is refused [HX0030]")?;
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for PolicyFileError {}

/// Gathers what is wrong and what is odd while the file is read.
#[derive(Debug)]
pub struct Report<'a> {
    text: &'a str,
    wrong: Vec<(usize, FileProblem)>,
    odd: Vec<(usize, FileProblem)>,
}

impl<'a> Report<'a> {
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self { text, wrong: Vec::new(), odd: Vec::new() }
    }

    /// `at` is a byte's place in the text.
    pub fn wrong(&mut self, at: usize, table: &str, knob: &str, rule: String) {
        self.wrong.push((at, problem(table, knob, rule)));
    }

    /// As [`Report::wrong`], for what can be meant and seldom is.
    pub fn odd(&mut self, at: usize, table: &str, knob: &str, rule: String) {
        self.odd.push((at, problem(table, knob, rule)));
    }

    /// A policy that was refused as a whole. Said only if nothing was said about its knobs before.
    pub(crate) fn leftover(&mut self, at: usize, table: &str, error: &BuildError) {
        if self.wrong.is_empty() {
            self.wrong(at, table, "", error.to_string());
        }
    }

    #[must_use]
    pub fn refused(self) -> PolicyFileError {
        let count = self.wrong.len();
        let mut problems = placed(self.text, self.wrong);
        problems.truncate(MOST_PROBLEMS);
        PolicyFileError { more: count - problems.len(), problems }
    }

    /// What was read, with what is odd about it; or all that is wrong with it.
    pub fn finished<T>(self, read: T) -> Result<(T, Vec<PolicyFileWarning>), PolicyFileError> {
        if !self.wrong.is_empty() {
            return Err(self.refused());
        }
        Ok((read, placed(self.text, self.odd).into_iter().map(PolicyFileWarning).collect()))
    }
}

fn problem(table: &str, knob: &str, rule: String) -> FileProblem {
    FileProblem { line: 0, table: short(table), knob: short(knob), rule }
}

/// In the order of the file, each with its line, counted in one pass however many there are.
fn placed(text: &str, mut found: Vec<(usize, FileProblem)>) -> Vec<FileProblem> {
    found.sort_by_key(|(at, _)| *at);
    let (mut line, mut counted) = (1, 0);
    found
        .into_iter()
        .map(|(at, problem)| {
            let at = at.min(text.len());
            line += text.as_bytes()[counted..at].iter().filter(|byte| **byte == b'\n').count();
            counted = at;
            FileProblem { line, ..problem }
        })
        .collect()
}

/// A name out of the file, fit for a message.
#[must_use]
pub fn short(name: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = name.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if name.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
