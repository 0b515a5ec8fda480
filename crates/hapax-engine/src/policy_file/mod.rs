//! Policies from a file: TOML in, checked [`Policies`] out.
//!
//! A policy file decides whether money moves twice, so nothing in it is guessed: an unknown name, a number without a
//! unit or a value that a rule forbids is refused, with its line, the rule and what to write instead, and all of them
//! at once. `docs/policy-file.md` has the format.

mod key;
mod knobs;
mod length;
mod report;
mod section;
pub mod suggest;
pub mod value;

use std::collections::BTreeMap;

use hapax_core::{Policy, Preset, identity::Surface};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use crate::{engine::Policies, presets};

pub use report::{FileProblem, PolicyFileError, PolicyFileWarning, Report, short};
pub use section::Section;

use knobs::KNOBS;

/// A table with its name.
pub type Named<'t, 'i> = (&'t Spanned<DeString<'i>>, &'t DeTable<'i>);

const ROOT: [&str; 3] = ["default", "policy", "surface"];

/// A length of time as it stands in a file.
pub(crate) fn length(text: &str) -> Result<hapax_core::Millis, String> {
    length::parse(text)
}

impl Policies {
    /// The longest policy file that is read.
    pub const MOST_FILE_BYTES: usize = 1024 * 1024;

    /// Reads a policy file: the policies, and what is odd about them. A file with anything wrong is refused whole, with
    /// every problem in it.
    pub fn from_toml(text: &str) -> Result<(Self, Vec<PolicyFileWarning>), PolicyFileError> {
        let ((policies, ()), odd) = Self::from_toml_beside(text, &[], |_, _| ())?;
        Ok((policies, odd))
    }

    /// As [`Policies::from_toml`], for a file that holds more than policies: tables with these names at its top are left
    /// to `read`, and what it reports is told together with all else.
    pub fn from_toml_beside<T>(
        text: &str,
        others: &[&str],
        read_others: impl FnOnce(&DeTable<'_>, &mut Report<'_>) -> T,
    ) -> Result<((Self, T), Vec<PolicyFileWarning>), PolicyFileError> {
        let mut report = Report::new(text);
        if text.len() > Self::MOST_FILE_BYTES {
            let rule = format!("{} bytes are more than the {} that are read", text.len(), Self::MOST_FILE_BYTES);
            report.wrong(0, "", "", rule + "; split it, or leave out what the presets say already");
            return Err(report.refused());
        }
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            report.wrong(at, "", "", format!("not TOML: {}", error.message().trim()));
        }
        if !errors.is_empty() {
            return Err(report.refused());
        }
        let policies = read(root.get_ref(), others, &mut report);
        let others = read_others(root.get_ref(), &mut report);
        report.finished((policies, others))
    }
}

fn read(root: &DeTable<'_>, others: &[&str], report: &mut Report<'_>) -> Policies {
    let known = [&ROOT[..], others].concat();
    for key in root.keys() {
        let name = key.get_ref().as_ref();
        if !known.contains(&name) {
            let next = if KNOBS.contains(&name) {
                "knobs stand in a table; put it under `[default]` or `[surface.NAME]`".to_owned()
            } else {
                format!("unknown key{}", suggest::or_one_of(name, &known))
            };
            report.wrong(key.span().start, "", name, next);
        }
    }
    let mut named = BTreeMap::new();
    for (key, table) in tables(root, "policy", report) {
        let name = key.get_ref().as_ref();
        // A policy's name is what a surface's could be: it stands in logs and on pages.
        if let Err(error) = Surface::new(name) {
            report.wrong(key.span().start, "policy", name, error.to_string());
        }
        let mut section = Section::new(report, format!("policy.{name}"), key.span().start);
        let preset = section.preset(table).unwrap_or(Preset::Standard).policy();
        let policy = knobs::read(&mut section, table, name, preset, &["preset"]);
        named.insert(name.to_owned(), Defined { policy, at: key.span().start, used: false });
    }

    let mut policies = Policies::default();
    let mut standard = Preset::Standard.policy();
    match root.get_key_value("default") {
        None => {}
        Some((key, value)) => match value.get_ref() {
            DeValue::Table(table) => {
                let section = Section::new(report, "default".to_owned(), key.span().start);
                standard = surface(section, table, "default", &mut named, standard);
                if let Err(error) = policies.set_standard(standard.clone()) {
                    report.leftover(key.span().start, "default", &error);
                }
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                report.wrong(key.span().start, "", "default", "is a table; write `[default]`".to_owned());
            }
        },
    }
    for (key, table) in tables(root, "surface", report) {
        let (at, name) = (key.span().start, key.get_ref().as_ref());
        let section = Section::new(report, format!("surface.{name}"), at);
        // What holds for all others does not speak of the queue, so a table of its own changes the queue's own preset.
        let base = presets::of_the_queue(name).map_or_else(|| standard.clone(), |policy| Policy::clone(policy));
        let policy = surface(section, table, name, &mut named, base);
        match Surface::new(name) {
            Ok(place) => {
                if let Err(error) = policies.set(place, policy) {
                    report.leftover(at, name, &error);
                }
            }
            Err(error) => report.wrong(at, "surface", name, error.to_string()),
        }
    }
    for (name, defined) in &named {
        if !defined.used {
            report.odd(defined.at, "policy", name, "no surface uses it".to_owned());
        }
    }
    policies
}

/// A `[policy.NAME]`, and whether anybody refers to it.
struct Defined {
    policy: Policy,
    at: usize,
    used: bool,
}

/// What a surface's table says. It starts from the policy or preset it names, else from `standard`: the default, or what
/// is its own.
fn surface(
    mut section: Section<'_, '_>,
    table: &DeTable<'_>,
    name: &str,
    named: &mut BTreeMap<String, Defined>,
    standard: Policy,
) -> Policy {
    let preset = section.preset(table);
    let policy = section.policy_name(table);
    if table.contains_key("preset") && table.contains_key("policy") {
        section.wrong("policy", "a table starts from a `policy` or from a `preset`; remove one of them".to_owned());
    }
    let base = match (policy, preset) {
        (Some(wanted), _) => match named.get_mut(wanted) {
            Some(defined) => {
                defined.used = true;
                defined.policy.clone()
            }
            None => {
                let known: Vec<&str> = named.keys().map(String::as_str).collect();
                let rule =
                    format!("there is no `[policy.{}]`{}", report::short(wanted), suggest::or_one_of(wanted, &known));
                section.wrong("policy", rule);
                standard
            }
        },
        (None, Some(preset)) => preset.policy(),
        (None, None) => standard,
    };
    // A surface that changes nothing is under the policy itself and says so in *explain*.
    let own = table.keys().any(|key| !matches!(key.get_ref().as_ref(), "preset" | "policy"));
    let title = if own { name.to_owned() } else { base.name.to_string() };
    knobs::read(&mut section, table, &title, base, &["preset", "policy"])
}

/// The tables inside a table of the root, `[policy.NAME]` for instance.
pub fn tables<'t, 'i>(root: &'t DeTable<'i>, group: &'static str, report: &mut Report<'_>) -> Vec<Named<'t, 'i>> {
    let Some((key, value)) = root.get_key_value(group) else { return Vec::new() };
    let DeValue::Table(inner) = value.get_ref() else {
        report.wrong(key.span().start, "", group, format!("holds tables; write `[{group}.NAME]`"));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, value) in inner {
        let name = key.get_ref().as_ref();
        match value.get_ref() {
            DeValue::Table(table) => found.push((key, table)),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {
                let rule = if KNOBS.contains(&name) {
                    format!("this knob belongs to one table; put it under `[{group}.NAME]`")
                } else {
                    format!("is a table; write `[{group}.{}]`", report::short(name))
                };
                report.wrong(key.span().start, group, name, rule);
            }
        }
    }
    found
}
