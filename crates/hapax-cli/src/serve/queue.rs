//! What is set for the queue between agents: `[a2a]` in the file, `HAPAX_A2A_…` in the environment, and the seed's names for
//! its retry scheduler.

use std::collections::BTreeMap;

use hapax_engine::policy_file::{Report, Section, suggest, value};
use hapax_queue::{QueueSettings, SchedulerConfig};
use hapax_server::SCHEDULER_CAPABILITY;
use toml::de::{DeTable, DeValue};

use super::settings::{Given, Settings, given};
use crate::failure::Failure;

/// Every knob with its default. Without `a2a_` its name is the file's key; with `HAPAX_` it is the environment's.
pub(super) const KNOBS: [(&str, &str); 12] = [
    ("a2a_lease", "60s"),
    ("a2a_max_tasks", "10000000"),
    (SHARE, "a tenth of a2a_max_tasks"),
    ("a2a_expire_overdue", "false"),
    ("a2a_waiters_per_tenant", "1024"),
    ("a2a_auto_retry_scheduler", "0"),
    ("a2a_auto_retry_interval_ms", "60000"),
    ("a2a_auto_retry_min_lease_age_ms", "300000"),
    ("a2a_auto_retry_max_attempts", "3"),
    ("a2a_auto_retry_max_requeues", "1"),
    ("a2a_auto_retry_scan_limit", "100"),
    (CAPABILITIES, "none"),
];

const SHARE: &str = "a2a_max_tasks_per_tenant";
/// What the scheduler may do. Without `a2a.repair.requeue` its passes change nothing.
const CAPABILITIES: &str = "a2a_auto_retry_capabilities";
const ALIAS: &str = "COVENANT_A2A_";
const SCHEDULER: &str = "auto_retry_";

/// What the file says in `[a2a]`.
pub(super) fn in_file(root: &DeTable<'_>, report: &mut Report<'_>, shown: &str) -> Vec<(&'static str, Given)> {
    let mut found = Vec::new();
    let Some((key, value)) = root.get_key_value("a2a") else { return found };
    let mut section = Section::new(report, "a2a".to_owned(), key.span().start);
    let Some(table) = value.get_ref().as_table() else {
        section.wrong("", "is a table; write `[a2a]`".to_owned());
        return found;
    };
    section.only(table, &KNOBS.map(|(name, _)| key_of(name)));
    for (name, default) in KNOBS {
        if let Some(value) = section.given(table, key_of(name), |value| read(name, default, value)) {
            found.push((name, given(&value, &format!("file, {shown}, [a2a]"))));
        }
    }
    found
}

fn read(name: &str, default: &str, given: &DeValue<'_>) -> Result<String, String> {
    match name {
        "a2a_expire_overdue" | "a2a_auto_retry_scheduler" => value::flag(given).map(|flag| flag.to_string()),
        CAPABILITIES => value::text(given).map(str::to_owned),
        SHARE => value::count(given).map(|count| count.to_string()),
        _ if default.parse::<u64>().is_ok() => value::count(given).map(|count| count.to_string()),
        _ => value::text(given).map(str::to_owned),
    }
}

fn key_of(name: &'static str) -> &'static str {
    name.strip_prefix("a2a_").unwrap_or(name)
}

/// The seed's names. One that is none of them is a slip that would silently change nothing.
pub(super) fn aliases(
    knobs: &mut BTreeMap<&'static str, Given>,
    environment: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    // What nobody set falls to its alias; where both are set, the check finds whether they agree.
    let known: Vec<String> = KNOBS
        .iter()
        .filter(|(name, _)| key_of(name).starts_with(SCHEDULER) && *name != CAPABILITIES)
        .map(|(name, _)| format!("{ALIAS}{}", key_of(name).to_uppercase()))
        .collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for (variable, value) in environment.iter().filter(|(variable, _)| variable.starts_with(ALIAS)) {
        if !known.contains(&variable.as_str()) {
            let rule = format!("unknown variable{}", suggest::or_one_of(variable, &known));
            return Err(Failure::Setting { name: variable.clone(), from: "environment".to_owned(), rule });
        }
        let knob = KNOBS.iter().find(|(name, _)| variable.strip_prefix("COVENANT_") == Some(&name.to_uppercase()));
        if let Some((name, _)) = knob
            && knobs.get(name).is_some_and(|known| known.from == "default")
        {
            knobs.insert(name, given(value, &format!("environment, {variable}")));
        }
    }
    Ok(())
}

/// A value that cannot be used stops the start, also one of a scheduler that is switched off.
pub(super) fn check(settings: &Settings) -> Result<(), Failure> {
    of(settings)?;
    settings.number("a2a_waiters_per_tenant")?;
    retry(settings)?;
    Ok(())
}

pub(super) fn of(settings: &Settings) -> Result<QueueSettings, Failure> {
    let usual = QueueSettings::default();
    let max_tasks = settings.number("a2a_max_tasks")? as u64;
    let share = match settings.knobs.get(SHARE) {
        Some(given) if given.from != "default" => Some(settings.number(SHARE)? as u64),
        Some(_) | None => None,
    };
    if share.is_some_and(|share| share > max_tasks) {
        return Err(settings.wrong(SHARE, "at most a2a_max_tasks"));
    }
    let lease = value::millis(&DeValue::String(settings.get("a2a_lease").to_owned().into()));
    let lease = lease.map_err(|rule| settings.wrong("a2a_lease", &rule))?;
    if !(1..=7 * 24 * 3_600 * 1_000).contains(&lease.0) {
        return Err(settings.wrong("a2a_lease", "from 1ms to 7d"));
    }
    let expire_overdue = match settings.get("a2a_expire_overdue") {
        "true" | "1" => true,
        "false" | "0" => false,
        _ => return Err(settings.wrong("a2a_expire_overdue", "true or false")),
    };
    Ok(QueueSettings { max_tasks, max_tasks_per_tenant: share, lease, expire_overdue, ..usual })
}

/// The scheduler, if it is switched on, and its capabilities.
pub(super) fn retry(settings: &Settings) -> Result<(Option<SchedulerConfig>, Vec<String>), Failure> {
    let config = SchedulerConfig::read(|variable| match variable.strip_prefix("HAPAX_") {
        Some(name) => {
            let known = settings.knobs.get(name.to_lowercase().as_str());
            // An alias speaks for itself, so that a bad value is named as it was given.
            let own = known.filter(|given| given.from != "default" && !given.from.contains(ALIAS));
            own.map(|given| given.value.clone())
        }
        None => settings.seed.get(variable).cloned(),
    })?;
    let named = match settings.get(CAPABILITIES) {
        "none" => "",
        named => named,
    };
    let granted: Vec<String> =
        named.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if granted.iter().any(|name| name != SCHEDULER_CAPABILITY) {
        return Err(
            settings.wrong(CAPABILITIES, "`a2a.repair.requeue` is all that it can be granted; `none` otherwise")
        );
    }
    Ok((config, granted))
}
