//! What the environment says about the queue's retry scheduler.

use hapax_queue::SchedulerConfig;

use crate::failure::Failure;

/// What the scheduler may do, by name and separated by commas. Without `a2a.repair.requeue` its passes change nothing.
const CAPABILITIES: &str = "HAPAX_A2A_AUTO_RETRY_CAPABILITIES";

/// The names of all variables that are read here, as others are named: lower case, without `HAPAX_`.
pub(super) const VARIABLES: [&str; 7] = [
    "a2a_auto_retry_scheduler",
    "a2a_auto_retry_interval_ms",
    "a2a_auto_retry_min_lease_age_ms",
    "a2a_auto_retry_max_attempts",
    "a2a_auto_retry_max_requeues",
    "a2a_auto_retry_scan_limit",
    "a2a_auto_retry_capabilities",
];

/// The scheduler, if it is switched on, and its capabilities. A value that cannot be used stops the start.
pub(super) fn retry() -> Result<(Option<SchedulerConfig>, Vec<String>), Failure> {
    let get = |name: &str| std::env::var(name).ok();
    let config = SchedulerConfig::read(get)?;
    let named = get(CAPABILITIES).unwrap_or_default();
    let granted = named.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Ok((config, granted))
}
