//! The suite that decides whether something is a store: yours as well as ours.
//!
//! ```
//! use std::sync::Arc;
//! use hapax_store::{Answer, MemoryStore, Store, conformance};
//!
//! struct Mine;
//!
//! impl conformance::Harness for Mine {
//!     fn open(&self) -> Answer<'_, Arc<dyn Store>> {
//!         Box::pin(async { Ok(Arc::new(MemoryStore::default()) as Arc<dyn Store>) })
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! conformance::run(Arc::new(Mine)).await.assert_passed();
//! conformance::run_faulty(Arc::new(Mine), 7, 10).await.assert_passed();
//! # });
//! ```
//!
//! Each check has a name that says what holds; a failed one says what was seen instead. What a harness cannot do (open
//! the same data again, move time) is skipped and said to be. Nothing in here panics but
//! [`Report::assert_passed`].

/// Ends a check that has seen something that must not be.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::conformance::check::Halt::Failed(format!($($what)+)));
        }
    };
}

mod body;
mod cancel;
mod check;
mod envelope;
mod feed;
mod harness;
mod index;
mod list;
mod oracle;
mod race;
mod removal;
mod report;
mod sample;
mod step;
mod swap;
mod time;
mod twin;
mod usage;
mod version;
mod watch;

use std::sync::Arc;

pub use harness::Harness;
pub use report::{Checked, Report, Verdict};
pub use twin::run_faulty;

use check::{Check, attempt};

macro_rules! checks {
    ($($module:ident :: $check:ident,)+) => {
        &[$(Check {
            name: concat!(stringify!($module), "::", stringify!($check)),
            run: |bench| Box::pin($module::$check(bench)),
        }),+]
    };
}

const CHECKS: &[Check] = checks![
    swap::a_first_write_expects_never,
    swap::what_was_written_is_read,
    swap::a_wrong_version_changes_nothing,
    swap::a_conflict_returns_the_current_snapshot,
    swap::a_version_is_good_for_one_write,
    swap::one_id_does_not_touch_another,
    removal::has_a_version_of_its_own,
    removal::a_late_write_conflicts,
    removal::of_what_is_absent_moves_the_version,
    removal::its_version_is_kept_for_the_late_write_window,
    version::grows_with_every_write,
    version::never_repeats_after_a_removal,
    version::never_repeats_once_a_removal_is_forgotten,
    version::never_repeats_over_a_reopening,
    time::now_is_never_before_the_stamp,
    time::stamps_of_one_id_never_run_back,
    time::moves_on,
    time::stamps_stay_over_a_reopening,
    index::lease_end_counts_from_the_stamp_of_the_write,
    index::expiry_counts_from_the_stamp_of_the_write,
    index::moments_come_earliest_first,
    index::a_moved_moment_is_found_where_it_is,
    index::doubt_is_found,
    index::tenant_age_is_the_order_of_the_last_writes,
    index::pages_miss_nothing_while_writes_go_on,
    index::is_there_after_a_reopening,
    list::groups_hold_their_members,
    list::a_queue_keeps_its_order,
    list::an_entry_goes_when_its_record_lets_it_go,
    usage::follows_every_kind_of_write,
    usage::weighs_what_is_kept,
    usage::a_conflict_counts_nothing,
    usage::stays_exact_when_many_write,
    usage::is_there_after_a_reopening,
    feed::shows_every_record_from_the_start,
    feed::shows_the_latest_state,
    feed::shows_removals,
    feed::resumes_from_every_cursor,
    feed::misses_nothing_while_many_write,
    feed::never_passes_a_write_that_ends_late,
    feed::a_removal_is_shown_or_the_gap_is_said,
    feed::resumes_after_a_reopening,
    watch::wakes_when_somebody_else_writes,
    watch::a_change_right_after_set_up_wakes,
    watch::wakes_on_removals,
    watch::a_thousand_rapid_changes_lose_no_wake,
    watch::wakes_all_who_watch,
    watch::a_dropped_future_loses_no_wake,
    watch::a_dropped_watch_disturbs_nobody,
    body::is_read_back,
    body::a_repeat_is_harmless,
    body::a_dropped_one_is_gone,
    body::all_are_listed,
    body::is_there_after_a_reopening,
    envelope::comes_back_as_it_went,
    envelope::may_be_large,
    envelope::comes_back_after_a_reopening,
    race::a_first_write_has_one_winner,
    race::each_version_has_one_winner,
    race::many_ids_at_once,
    race::a_swap_is_seen_by_every_later_read,
    cancel::a_dropped_swap_leaves_old_or_new,
];

/// Runs every check, each on a store of its own.
pub async fn run(harness: Arc<dyn Harness>) -> Report {
    run_only(harness, "").await
}

/// Runs the checks whose names begin like this, for instance `feed::`.
pub async fn run_only(harness: Arc<dyn Harness>, prefix: &str) -> Report {
    let mut report = Report::default();
    for check in CHECKS.iter().filter(|check| check.name.starts_with(prefix)) {
        let verdict = attempt(check, &harness).await;
        report.add(check.name, verdict);
    }
    report
}
