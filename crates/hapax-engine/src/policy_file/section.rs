use std::collections::BTreeMap;

use hapax_core::{Policy, Preset};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    report::{Report, short},
    suggest, value,
};

/// One table of the file while it is read: where it stands, and where each of its knobs does.
#[derive(Debug)]
pub struct Section<'r, 'a> {
    report: &'r mut Report<'a>,
    title: String,
    at: usize,
    knobs: BTreeMap<String, usize>,
}

impl<'r, 'a> Section<'r, 'a> {
    #[must_use]
    pub const fn new(report: &'r mut Report<'a>, title: String, at: usize) -> Self {
        Self { report, title, at, knobs: BTreeMap::new() }
    }

    /// The preset that a table names; a wrong one is reported.
    pub fn preset(&mut self, table: &DeTable<'_>) -> Option<Preset> {
        self.given(table, "preset", |value| {
            let name = value::text(value)?;
            Preset::parse(name).ok_or_else(|| {
                let known = Preset::ALL.map(Preset::name);
                format!("there is no preset `{}`{}", short(name), suggest::or_one_of(name, &known))
            })
        })
    }

    /// The name of the policy that a table starts from.
    pub fn policy_name<'t>(&mut self, table: &'t DeTable<'_>) -> Option<&'t str> {
        self.given(table, "policy", value::text)
    }

    /// The value of a knob, if it is there; a wrong one is reported.
    pub fn given<'t, 'i, T>(
        &mut self,
        table: &'t DeTable<'i>,
        knob: &str,
        read: impl FnOnce(&'t DeValue<'i>) -> Result<T, String>,
    ) -> Option<T> {
        let (key, value) = table.get_key_value(knob)?;
        self.saw(knob, key.span().start);
        self.take(knob, value, read)
    }

    /// Reports every key that is none of these.
    pub fn only(&mut self, table: &DeTable<'_>, known: &[&str]) {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let rule = format!("unknown key{}", suggest::or_one_of(name, known));
                self.report.wrong(key.span().start, &self.title, name, rule);
            }
        }
    }

    /// Remembers where a knob stands.
    pub fn saw(&mut self, knob: &str, at: usize) {
        self.knobs.insert(knob.to_owned(), at);
    }

    /// Reads a value, or reports why it cannot be one.
    pub fn take<'t, 'i, T>(
        &mut self,
        knob: &str,
        value: &'t Spanned<DeValue<'i>>,
        read: impl FnOnce(&'t DeValue<'i>) -> Result<T, String>,
    ) -> Option<T> {
        match read(value.get_ref()) {
            Ok(read) => Some(read),
            Err(rule) => {
                self.report.wrong(value.span().start, &self.title, knob, rule);
                None
            }
        }
    }

    /// Something is wrong with a knob, or, if it is not there, with the table.
    pub fn wrong(&mut self, knob: &str, rule: String) {
        self.report.wrong(self.place(knob), &self.title, knob, rule);
    }

    /// Asks the core whether the policy can be used, and tells what it says. What its base says too is the base's own
    /// affair and was told there.
    pub fn check(&mut self, policy: &Policy, base: &Policy) {
        match (policy.check(), base.check()) {
            (Ok(odd), of_base) => {
                let known = of_base.unwrap_or_default();
                for warning in odd.into_iter().filter(|warning| !known.contains(warning)) {
                    let at = self.place(warning.0.knob);
                    self.report.odd(at, &self.title, warning.0.knob, warning.0.rule);
                }
            }
            (Err(error), of_base) => {
                let known = of_base.err().map(|error| error.problems).unwrap_or_default();
                for problem in error.problems.into_iter().filter(|problem| !known.contains(problem)) {
                    self.wrong(problem.knob, problem.rule);
                }
            }
        }
    }

    /// The line a rule is about: the knob's own, that of the table it stands in, or the section's.
    fn place(&self, knob: &str) -> usize {
        let outer = knob.split_once('.').map_or(knob, |(outer, _)| outer);
        self.knobs.get(knob).or_else(|| self.knobs.get(outer)).copied().unwrap_or(self.at)
    }
}
