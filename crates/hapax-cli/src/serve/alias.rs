//! The seeds' names. Each stands for a knob of the `job` or `api` surface; where the file sets that knob too, to something
//! else, nobody can say which is meant.

use std::{collections::BTreeMap, path::Path};

use hapax::{
    Millis, Policies, Policy, Preset, Span,
    identity::{KeySource, Pointer, Surface},
    policy::{Capacity, Mode, OnInFlight, Treatment},
};
use hapax_engine::{
    gate::GateSize,
    policy_file::{Report, Section, value},
};
use hapax_server::wire::PolicyWire;
use toml::de::DeTable;

use super::settings::{self, Given, OTHERS, given};
use crate::failure::Failure;

/// What `[idempotency]` says.
pub(super) type Seed = Vec<(&'static str, Given)>;

const IN_FILE: [&str; 6] = [
    "enabled",
    "default_ttl_hours",
    "processing_ttl_seconds",
    "auto_generate_keys",
    "timestamp_bucket_seconds",
    "key_prefix",
];

pub(super) fn in_file(root: &DeTable<'_>, report: &mut Report<'_>, shown: &str) -> Seed {
    let Some((key, value)) = root.get_key_value("idempotency") else { return Vec::new() };
    let mut section = Section::new(report, "idempotency".to_owned(), key.span().start);
    let Some(table) = value.get_ref().as_table() else {
        section.wrong("", "is a table; write `[idempotency]`".to_owned());
        return Vec::new();
    };
    section.only(table, &IN_FILE);
    let mut seed = Vec::new();
    let mut add = |name: &'static str, value: Option<String>| {
        seed.extend(value.map(|value| (name, given(&value, &format!("file, {shown}, [idempotency]")))));
    };
    for name in ["default_ttl_hours", "processing_ttl_seconds", "timestamp_bucket_seconds"] {
        add(name, section.given(table, name, value::count).map(|count| count.to_string()));
    }
    for name in ["enabled", "auto_generate_keys"] {
        add(name, section.given(table, name, value::flag).map(|flag| flag.to_string()));
    }
    add("key_prefix", section.given(table, "key_prefix", value::text).map(str::to_owned));
    seed
}

/// One name of the seeds: the surface and the knob it stands for, and how it is set.
struct Alias {
    name: &'static str,
    surface: &'static str,
    knob: &'static str,
    kind: Kind,
    set: fn(&mut Policy, u64),
}

/// What a name takes: `true` as a number of seconds would be a lease of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Parts of a second are rounded up.
    Duration,
    Count,
    Flag,
}

impl Kind {
    fn read(self, text: &str) -> Result<u64, &'static str> {
        match self {
            Self::Flag => match text {
                "true" | "1" => Ok(1),
                "false" | "0" => Ok(0),
                _ => Err("true or false"),
            },
            Self::Count => {
                let count = text.replace('_', "").parse().ok().filter(|count| (1..=1_000_000_000).contains(count));
                count.ok_or("a whole number from 1 to 1000000000")
            }
            Self::Duration => {
                let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0 && *number < 1e15);
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
                number.map(|number| number.ceil() as u64).ok_or("a number from 0 on")
            }
        }
    }
}

fn seconds(value: u64) -> Span {
    Span::For(Millis::from_secs(value))
}

const WAITS: &str = "IDEMPOTENCY_WAIT_FOR_PENDING";
const WAIT_TIME: &str = "IDEMPOTENCY_PENDING_WAIT_TIMEOUT";

const ALIASES: [Alias; 11] = [
    Alias {
        name: "IDEMPOTENCY_PENDING_TTL_SECONDS",
        surface: "job",
        knob: "lease",
        kind: Kind::Duration,
        set: |policy, value| policy.lease = Millis::from_secs(value),
    },
    Alias {
        name: "IDEMPOTENCY_COMMITTED_TTL_SECONDS",
        surface: "job",
        knob: "success",
        kind: Kind::Duration,
        set: |policy, value| policy.success = seconds(value),
    },
    Alias {
        name: "IDEMPOTENCY_REJECTED_TTL_SECONDS",
        surface: "job",
        knob: "final_failure",
        kind: Kind::Duration,
        set: |policy, value| policy.final_failure = Treatment::Replay(seconds(value)),
    },
    Alias {
        name: "IDEMPOTENCY_MAX_ENTRIES",
        surface: "job",
        knob: "capacity",
        kind: Kind::Count,
        set: |policy, value| policy.capacity = Capacity::of(value, policy.capacity.on_full),
    },
    Alias {
        name: "IDEMPOTENCY_CLEANUP_INTERVAL_SECONDS",
        surface: "job",
        knob: "sweep",
        kind: Kind::Duration,
        set: |policy, value| policy.sweep = Millis::from_secs(value),
    },
    Alias {
        name: WAITS,
        surface: "job",
        knob: "on_in_flight",
        kind: Kind::Flag,
        set: |policy, value| {
            policy.on_in_flight = match (value, policy.on_in_flight, Preset::Job.policy().on_in_flight) {
                (0, _, _) => OnInFlight::Reject,
                (_, OnInFlight::Reject, waits) => waits,
                (_, waits @ OnInFlight::Wait { .. }, _) => waits,
            };
        },
    },
    Alias {
        name: WAIT_TIME,
        surface: "job",
        knob: "on_in_flight",
        kind: Kind::Duration,
        set: |policy, value| {
            if let OnInFlight::Wait { most } = &mut policy.on_in_flight {
                *most = Millis::from_secs(value);
            }
        },
    },
    Alias {
        name: "default_ttl_hours",
        surface: "api",
        knob: "success",
        kind: Kind::Duration,
        set: |policy, value| {
            policy.success = Span::For(Millis::from_hours(value));
            policy.final_failure = Treatment::Replay(Span::For(Millis::from_hours(value)));
        },
    },
    Alias {
        name: "processing_ttl_seconds",
        surface: "api",
        knob: "lease",
        kind: Kind::Duration,
        set: |policy, value| policy.lease = Millis::from_secs(value),
    },
    Alias {
        name: "enabled",
        surface: "api",
        knob: "mode",
        kind: Kind::Flag,
        // Switched off: everything runs, and what would have been stopped is still counted.
        set: |policy, value| policy.mode = if value == 0 { Mode::Shadow } else { Mode::Enforce },
    },
    Alias {
        name: "auto_generate_keys",
        surface: "api",
        knob: "key",
        kind: Kind::Flag,
        set: |policy, value| policy.key.source = Some(sources(value != 0)),
    },
];

/// Variables that begin as the seeds' do and are none of them: a slip that would silently change nothing.
fn unknown_variables(environment: &BTreeMap<String, String>) -> Result<(), Failure> {
    const PREFIX: &str = "IDEMPOTENCY_";
    let known: Vec<&str> = ALIASES.iter().map(|alias| alias.name).filter(|name| name.starts_with(PREFIX)).collect();
    let unknown = environment.keys().find(|name| name.starts_with(PREFIX) && !known.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| {
        let rule = format!("unknown variable{}", hapax_engine::policy_file::suggest::or_one_of(name, &known));
        Err(Failure::Setting { name: name.clone(), from: "environment".to_owned(), rule })
    })
}

/// Where the seed looks for a key; and whether one is made from the request where there is none.
fn sources(automatic: bool) -> Vec<KeySource> {
    let mut sources = vec![KeySource::Header("Idempotency-Key".to_owned())];
    sources.extend(Pointer::parse("/idempotency_key").map(KeySource::JsonPointer));
    sources.extend(automatic.then_some(KeySource::Automatic));
    sources
}

/// What has no place here, and what to do instead: nothing is read and then ignored. What is left over is worth a warning.
fn without_a_place(policies: &Policies, seed: &Seed) -> Result<Option<String>, Failure> {
    let said = |wanted: &str| seed.iter().find(|(name, _)| *name == wanted).map(|(_, given)| given);
    let Some(given) = said("timestamp_bucket_seconds") else { return Ok(None) };
    let name = "timestamp_bucket_seconds";
    if said("auto_generate_keys").is_some_and(|given| given.value == "false") {
        let rule = "no keys are made, so there is nothing to put into buckets; remove it".to_owned();
        return Err(Failure::Setting { name: name.to_owned(), from: given.from.clone(), rule });
    }
    let api = Surface::new("api").map_err(|error| Failure::Flag("surface", error.to_string()))?;
    let kept = policies.iter().find(|(surface, _)| **surface == api).map(|(_, policy)| policy.success);
    let kept = kept.unwrap_or_else(|| Preset::Api.policy().success);
    if given.value.parse().is_ok_and(|value| kept == seconds(value)) {
        return Ok(None);
    }
    Ok(Some(format!(
        "`{name}` ({}): a key that is made from a request names it for as long as its answer is kept, now {kept}, and not until \
         the next full bucket. Whoever means the same request anew within that time sends a key; or set `success = \"{}s\"` \
         under [surface.api], and leave out `default_ttl_hours`",
        given.from, given.value
    )))
}

/// `key_prefix` is what the keys of a Redis begin with; every other store is kept apart by its own name.
pub(super) fn prefixed(store: &Given, seed: &Seed) -> Result<(Option<Given>, Option<String>), Failure> {
    let Some((name, prefix)) = seed.iter().find(|(name, _)| *name == "key_prefix") else { return Ok((None, None)) };
    let wrong =
        |rule: &str| Failure::Setting { name: (*name).to_owned(), from: prefix.from.clone(), rule: rule.to_owned() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/".contains(&byte);
    if prefix.value.is_empty() || !prefix.value.bytes().all(plain) {
        return Err(wrong("letters, digits and -_.:/"));
    }
    if !store.value.starts_with("redis://") && !store.value.starts_with("rediss://") {
        let told = format!(
            "`{name}` ({}): only the keys of a Redis begin with something; {} keeps records apart by itself",
            prefix.from,
            crate::store::shown(&store.value)
        );
        return Ok((None, Some(told)));
    }
    let wanted = format!("prefix={}:", prefix.value.trim_end_matches(':'));
    let parameters = store.value.rsplit_once('@').map_or(store.value.as_str(), |(_, place)| place);
    let parameters = parameters.split_once('?').map(|(_, parameters)| parameters);
    match parameters.and_then(|all| all.split('&').find(|one| one.starts_with("prefix="))) {
        Some(native) if native == wanted => Ok((None, None)),
        Some(_) => {
            Err(wrong("the store's URL has another `prefix`; two different values cannot both be meant, so remove one"))
        }
        None => {
            let joined = if parameters.is_some() { '&' } else { '?' };
            let value = format!("{}{joined}{wanted}", store.value);
            Ok((Some(Given { value, from: store.from.clone() }), None))
        }
    }
}

/// What the seeds' names came to.
pub(super) struct Applied {
    /// What was changed, and from where.
    pub(super) said: Vec<(String, Given)>,
    pub(super) warning: Option<String>,
    /// How many answers a process keeps at hand, where somebody said so.
    pub(super) gate_entries: Option<u64>,
}

/// What the seeds' names come to for a process that reads nothing else of a daemon's settings.
pub(crate) struct Seeded {
    pub(crate) store: String,
    pub(crate) notes: Vec<String>,
    pub(crate) gate: GateSize,
    /// Whether the surface `api` was spoken of.
    pub(crate) of_api: bool,
}

/// As [`apply`] and [`prefixed`], for a gateway of its own.
pub(crate) fn alone(policies: &mut Policies, path: &Path, text: &str, store: &str) -> Result<Seeded, Failure> {
    let environment = settings::environment()?;
    settings::unknown_variables(&environment)?;
    let shown = path.display().to_string();
    let read = Policies::from_toml_beside(text, &OTHERS, |root, report| in_file(root, report, &shown));
    let ((_, seed), _) = read.map_err(|error| Failure::File { path: path.to_owned(), error })?;
    let applied = apply(policies, text, &seed, &environment)?;
    let (prefixed, note) = prefixed(&given(store, ""), &seed)?;
    let said_of_api = |(name, _): &(&str, Given)| *name != "key_prefix";
    Ok(Seeded {
        store: prefixed.map_or_else(|| store.to_owned(), |given| given.value),
        notes: applied.warning.into_iter().chain(note).collect(),
        gate: gate_of(applied.gate_entries),
        of_api: seed.iter().any(said_of_api),
    })
}

pub(super) fn gate_of(entries: Option<u64>) -> GateSize {
    let standard = GateSize::default();
    let entries = entries.and_then(|most| usize::try_from(most).ok());
    GateSize { entries: entries.unwrap_or(standard.entries), ..standard }
}

/// The knobs in which two policies differ. A name may stand for several, and what it changes of one says nothing about another.
fn differing(before: &Policy, after: &Policy) -> Vec<String> {
    let before = PolicyWire::of(before).knobs;
    let after = PolicyWire::of(after).knobs.into_iter();
    after.filter(|(name, value)| before.get(name) != Some(value)).map(|(name, _)| name).collect()
}

/// Puts the seeds' names into the policies.
pub(super) fn apply(
    policies: &mut Policies,
    file: &str,
    seed: &Seed,
    environment: &BTreeMap<String, String>,
) -> Result<Applied, Failure> {
    unknown_variables(environment)?;
    let mut said: Vec<(&Alias, Given)> = Vec::new();
    for alias in &ALIASES {
        let in_environment =
            environment.get(alias.name).map(|value| given(value, &format!("environment, {}", alias.name)));
        let in_file = seed.iter().find(|(name, _)| *name == alias.name).map(|(_, given)| given.clone());
        said.extend(in_environment.or(in_file).map(|given| (alias, given)));
    }
    let parsed: toml::Table = file.parse().unwrap_or_default();
    // `capacity.max_records` may stand there as a whole, `capacity = …`, too.
    let in_table = |surface: &str, knob: &str| {
        let mut at = parsed.get("surface").and_then(|surfaces| surfaces.get(surface));
        for part in knob.split('.') {
            at = match at {
                Some(toml::Value::Table(table)) => table.get(part),
                whole => whole,
            };
        }
        at.is_some()
    };
    let never_waits = said.iter().any(|(alias, given)| alias.name == WAITS && Kind::Flag.read(&given.value) == Ok(0));
    let mut gate_entries = None;
    for (alias, given) in &said {
        let wrong = |rule: String| Failure::Setting { name: alias.name.to_owned(), from: given.from.clone(), rule };
        let value = alias.kind.read(given.value.trim().to_lowercase().as_str());
        let value = value.map_err(|rule| wrong(rule.to_owned()))?;
        let surface = Surface::new(alias.surface).map_err(|error| wrong(error.to_string()))?;
        let native = policies.iter().find(|(known, _)| **known == surface).map(|(_, policy)| Policy::clone(policy));
        let preset = if alias.surface == "job" { Preset::Job } else { Preset::Api };
        let before = native.unwrap_or_else(|| preset.policy());
        let mut after = before.clone();
        (alias.set)(&mut after, value);
        if alias.name == "IDEMPOTENCY_MAX_ENTRIES" {
            gate_entries = Some(value);
        }
        // How long to wait says that somebody waits.
        let waits_all_the_same = alias.name == WAIT_TIME && after.on_in_flight == OnInFlight::Reject && !never_waits;
        let differing = differing(&before, &after);
        let differing = differing.iter().map(String::as_str).chain(waits_all_the_same.then_some(alias.knob));
        if let Some(knob) = differing.into_iter().find(|knob| in_table(alias.surface, knob)) {
            let rule = format!(
                "`[surface.{}]` sets `{knob}`, which this name stands for; two different values cannot both be meant, so remove one",
                alias.surface
            );
            return Err(wrong(rule));
        }
        policies.set(surface, after).map_err(|error| wrong(error.to_string()))?;
    }
    let warning = without_a_place(policies, seed)?;
    let prefix = seed.iter().filter(|(name, _)| *name == "key_prefix" || *name == "timestamp_bucket_seconds");
    let prefix: Vec<(String, Given)> = prefix.map(|(name, given)| ((*name).to_owned(), given.clone())).collect();
    let said = said.into_iter().map(|(alias, given)| (alias.name.to_owned(), given)).chain(prefix).collect();
    Ok(Applied { said, warning, gate_entries })
}
