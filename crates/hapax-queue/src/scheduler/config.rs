//! The seed's variables. A value that cannot be used stops the start and is named.

use hapax_core::{Millis, task::GatePolicy};

/// What the environment says about the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedulerConfig {
    pub interval: Millis,
    pub policy: GatePolicy,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerConfigError {
    #[error("{name} is `{value}`, and has to be {wanted} [HX0122]")]
    BadValue { name: String, value: String, wanted: &'static str },
    #[error(
        "{native} is `{native_value}` and its alias {alias} is `{alias_value}`; set one of them, or both alike [HX0122]"
    )]
    Contradiction { native: String, native_value: String, alias: String, alias_value: String },
}

const NATIVE: &str = "HAPAX_A2A_AUTO_RETRY_";
const ALIAS: &str = "COVENANT_A2A_AUTO_RETRY_";

impl SchedulerConfig {
    /// Reads the variables through `get`. `None`: the scheduler is off. Values are checked even then.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, SchedulerConfigError> {
        let defaults = GatePolicy::default();
        let on = match either(&get, "SCHEDULER")? {
            None => false,
            Some((name, value)) => match value.as_str() {
                "1" | "true" => true,
                "0" | "false" | "" => false,
                _ => return Err(SchedulerConfigError::BadValue { name, value, wanted: "1 or 0" }),
            },
        };
        let interval = number(&get, "INTERVAL_MS", 60_000, 1, u64::MAX, "a number of milliseconds, at least 1")?;
        let whole = "a whole number from 0 to 4294967295";
        let small = |name, default: u32| {
            number(&get, name, default.into(), 0, u32::MAX.into(), whole).map(|value| value as u32)
        };
        let policy = GatePolicy {
            enabled: true,
            min_lease_age: Millis(number(
                &get,
                "MIN_LEASE_AGE_MS",
                defaults.min_lease_age.0,
                0,
                u64::MAX,
                "a number of milliseconds",
            )?),
            max_attempts: small("MAX_ATTEMPTS", defaults.max_attempts)?,
            max_requeues: small("MAX_REQUEUES", defaults.max_requeues)?,
            scan_limit: small("SCAN_LIMIT", defaults.scan_limit)?,
        };
        Ok(on.then_some(Self { interval: Millis(interval), policy }))
    }
}

/// The variable under its own name or its alias.
fn either(get: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<(String, String)>, SchedulerConfigError> {
    let (native, alias) = (format!("{NATIVE}{name}"), format!("{ALIAS}{name}"));
    match (get(&native), get(&alias)) {
        (Some(native_value), Some(alias_value)) if native_value != alias_value => {
            Err(SchedulerConfigError::Contradiction { native, native_value, alias, alias_value })
        }
        (Some(value), _) => Ok(Some((native, value))),
        (None, Some(value)) => Ok(Some((alias, value))),
        (None, None) => Ok(None),
    }
}

fn number(
    get: &impl Fn(&str) -> Option<String>,
    name: &str,
    default: u64,
    least: u64,
    most: u64,
    wanted: &'static str,
) -> Result<u64, SchedulerConfigError> {
    match either(get, name)? {
        None => Ok(default),
        Some((name, value)) => match value.trim().parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            Ok(_) | Err(_) => Err(SchedulerConfigError::BadValue { name, value, wanted }),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where its premise is wrong")]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<SchedulerConfig>, SchedulerConfigError> {
        SchedulerConfig::read(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn off_by_default_and_the_seeds_values_when_on() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("HAPAX_A2A_AUTO_RETRY_SCHEDULER", "0")]), Ok(None));
        let on = read(&[("COVENANT_A2A_AUTO_RETRY_SCHEDULER", "1")]).unwrap().unwrap();
        assert_eq!(on.interval, Millis(60_000));
        assert_eq!(on.policy, GatePolicy { enabled: true, ..GatePolicy::default() });
        let set = read(&[
            ("HAPAX_A2A_AUTO_RETRY_SCHEDULER", "1"),
            ("HAPAX_A2A_AUTO_RETRY_INTERVAL_MS", "5"),
            ("COVENANT_A2A_AUTO_RETRY_MIN_LEASE_AGE_MS", "0"),
            ("HAPAX_A2A_AUTO_RETRY_MAX_ATTEMPTS", "7"),
            ("COVENANT_A2A_AUTO_RETRY_MAX_REQUEUES", "8"),
            ("HAPAX_A2A_AUTO_RETRY_SCAN_LIMIT", "9"),
        ]);
        let policy =
            GatePolicy { enabled: true, min_lease_age: Millis(0), max_attempts: 7, max_requeues: 8, scan_limit: 9 };
        assert_eq!(set, Ok(Some(SchedulerConfig { interval: Millis(5), policy })));
    }

    #[test]
    fn a_bad_value_stops_the_start_and_is_named() {
        for (name, value) in [
            ("HAPAX_A2A_AUTO_RETRY_SCHEDULER", "yes please"),
            ("HAPAX_A2A_AUTO_RETRY_INTERVAL_MS", "0"),
            ("COVENANT_A2A_AUTO_RETRY_INTERVAL_MS", "1m"),
            ("HAPAX_A2A_AUTO_RETRY_MIN_LEASE_AGE_MS", "-1"),
            ("HAPAX_A2A_AUTO_RETRY_MAX_ATTEMPTS", "4294967296"),
            ("COVENANT_A2A_AUTO_RETRY_MAX_REQUEUES", ""),
            ("HAPAX_A2A_AUTO_RETRY_SCAN_LIMIT", "1e3"),
        ] {
            // Also where it is off: a typing error must not wait for the day when it is switched on.
            let text = read(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("HX0122"), "{text}");
        }
    }

    #[test]
    fn an_alias_that_contradicts_is_an_error() {
        let name = |prefix: &str| format!("{prefix}SCAN_LIMIT");
        let both = |alias: &'static str| {
            SchedulerConfig::read(move |asked| match asked {
                _ if asked == name(NATIVE) => Some("5".to_owned()),
                _ if asked == name(ALIAS) => Some(alias.to_owned()),
                _ => None,
            })
        };
        assert_eq!(both("5"), Ok(None));
        assert!(matches!(both("6"), Err(SchedulerConfigError::Contradiction { .. })));
    }
}
