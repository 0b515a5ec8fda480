//! Stories of agents and workflows that hold on every store of level *full*: groups, turns, beats, compensation, memos,
//! activities, tools, messages, jobs. Each is told once, here, and acted out on each store by that store's own tests.
//!
//! In memory time stands still and jumps; on a real server it passes, and [`Shifted`] lets it jump.

mod cast;
mod observed;
mod shifted;
mod world;

pub mod activities;
pub mod beats;
pub mod compensation;
pub mod fences;
pub mod guard;
pub mod jobs;
pub mod memos;
pub mod races;
pub mod refund;
pub mod tools;
pub mod turns;

use std::sync::Arc;

use hapax_core::{Effect, group::WhyNot};
use hapax_engine::{Engine, GroupError, GroupHandle, Turn};

pub use cast::*;
pub use observed::{Mood, Observed};
pub use shifted::Shifted;
pub use world::{Stage, TestClock, World};

/// Effects whose starts the group lists.
const LISTED: [Effect; 2] = [Effect::Compensatable, Effect::Irreversible];

async fn group(engine: &Engine, name: &str) -> (GroupHandle, Turn) {
    let group = engine.group("acme", name).unwrap();
    let turn = group.create().await.unwrap();
    (group, turn)
}

fn why(error: &GroupError) -> WhyNot {
    let GroupError::Refused { why, .. } = error else { panic!("{error}") };
    *why
}

/// Lets the work go on for so many writes, and dies then. What it came to, if it was done before that.
async fn dies_after<T: Send + 'static>(
    world: &World,
    writes: usize,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let gate = world.store.hold_swaps();
    gate.add_permits(writes);
    let working = tokio::spawn(work);
    world.settle().await;
    world.store.hold_nothing();
    if working.is_finished() {
        return Some(working.await.unwrap());
    }
    working.abort();
    None
}

/// Hands all stories to a macro, as `family [story story]`. They are for a runtime of one thread.
#[macro_export]
macro_rules! stories {
    ($($tell:tt)+) => {
        $($tell)+! {
            activities [
                a_retried_node_gets_the_recorded_answer
                a_final_refusal_is_recorded_like_any_answer
                no_answer_is_given_that_is_not_in_the_store
                passing_failures_may_be_tried_again_and_doubtful_ones_may_not
                what_was_not_sent_leaves_nothing_and_what_was_lost_leaves_a_doubt
                a_provider_that_honours_keys_is_called_again_inside_its_window_and_not_beyond
                a_lost_charge_is_not_forgotten_over_a_later_call_that_came_to_nothing
                a_business_key_comes_before_the_place
                ids_of_other_systems_are_taken_over_by_their_recipe
                a_run_lists_what_it_did_and_what_escaped_it
                a_stream_is_recorded_by_its_start_and_its_end
            ]
            beats [
                a_beat_is_found_by_any_of_its_messages_in_any_order
                an_absorbed_message_belongs_to_the_beat_until_it_is_sealed
                a_partial_overlap_names_the_beats_and_what_is_unanswered
                nothing_is_absorbed_into_a_committed_turn
                a_beat_is_forgotten_when_its_time_is_over
                a_beat_is_not_forgotten_while_it_is_answered
                a_beat_and_a_session_have_their_limits
            ]
            compensation [
                a_saga_is_undone_from_its_last_step_to_its_first
                crashed_between_any_two_steps_each_inverse_happens_once_and_in_order
                an_inverse_that_may_have_happened_is_not_run_again_but_shown_to_a_person
                nothing_is_undone_while_a_member_is_in_doubt
                a_lost_charge_holds_up_the_undoing_after_a_later_call_that_was_not_sent
                a_lost_charge_that_is_found_is_undone_after_a_later_call_that_never_started
                a_lost_charge_holds_up_the_undoing_after_a_later_call_of_no_group
                a_member_under_way_is_waited_for
                a_start_that_died_before_it_was_listed_does_not_hold_up_the_rest
                what_cannot_be_undone_is_said_and_the_rest_is
                an_inverse_that_fails_for_now_is_gone_on_with_later
                an_inverse_is_remembered_as_long_as_its_group_is_undone
                c9_not_applied_is_not_enough_while_the_owner_may_wake
                a_member_that_is_run_again_is_undone_once
                an_inverse_that_is_recorded_twice_is_run_once
                an_activity_is_undone_with_what_its_provider_answered
                an_inverse_gets_every_digit_of_what_was_paid
                a_plan_whose_last_step_was_seen_to_lets_its_group_go
                undoing_one_group_leaves_what_another_did_alone
                a_call_of_no_group_is_neither_fenced_nor_undone_by_the_one_before_it
                what_no_inverse_was_declared_for_is_not_nothing
                an_undoing_of_which_nothing_came_is_called_failed
            ]
            fences [
                a_superseded_turns_late_call_is_fenced_before_its_effect
                g1_a_begin_that_is_a_start_is_checked_after_its_write
                g2_a_report_means_may_have_started_and_is_never_both_where_it_counts
                g3_a_refused_start_is_taken_back_after_the_lapse_too
                g4_nothing_starts_once_the_group_is_being_undone
                a_start_that_cannot_ask_its_group_does_not_run_and_is_taken_back
                what_lapsed_after_its_start_is_reported_although_it_is_open
                an_overtaken_caller_leaves_no_earlier_begin_of_its_own_behind
                a_reported_start_is_not_refused_to_the_caller_that_says_it_again
                a_listed_start_can_be_said_again_while_its_group_is_undone
                a_start_that_was_never_listed_leaves_no_doubt_when_it_is_said_again
            ]
            guard [
                a_message_that_was_handled_is_not_handled_by_the_next_consumer
                a_doubtful_message_ends_with_a_person
            ]
            jobs [
                a_submission_survives_the_restart_of_either_side
                accepted_and_rejected_have_times_of_their_own
            ]
            memos [
                a_declaration_that_is_not_understood_is_refused
                a_memo_is_not_reused_when_any_dependency_moved
                never_is_never_and_what_is_not_declared_is_not_reused
                results_of_tools_are_reused_only_if_their_operation_is_keyed
                other_inputs_other_tenants_and_old_memos_are_no_use
            ]
            refund [
                wherever_the_first_process_dies_there_is_one_refund
                the_corrected_refund_fences_the_late_call_or_is_told_of_it
            ]
            tools [
                a_reworded_call_is_the_same_call_and_a_changed_one_is_not
                a_turn_group_bounds_what_counts_as_the_same_action
                what_names_the_call_has_to_be_there
                a_tool_is_undone_by_what_it_declared
                what_identifies_a_call_beside_its_business_key_is_guarded
                long_numbers_are_not_rounded_into_one
            ]
            turns [
                an_irreversible_start_is_a_commit_point_and_says_why
                an_inverse_does_not_take_back_that_a_start_is_irreversible
                a_turn_that_is_let_finish_is_neither_overtaken_nor_added_to
                a_supersede_said_twice_is_one_and_reports_the_same
                a_member_whose_owner_died_is_followed_to_its_lapse
                a_newer_turn_takes_over_what_an_older_one_had_not_started
                another_tenants_turn_is_no_use
                a_closed_group_goes_after_its_members_and_not_before
                a_closing_that_was_cut_short_is_gone_on_with_by_the_sweeper
                a_turn_is_found_again_by_its_number
                a_supersede_said_again_reports_what_the_newer_turn_has_taken_up
                a_turn_of_a_forgotten_group_is_none_of_its_namesake
                a_call_that_is_not_let_start_is_told_why
            ]
        }
    };
}

/// As [`stories!`], those that are for a runtime of several threads.
#[macro_export]
macro_rules! threaded_stories {
    ($($tell:tt)+) => {
        $($tell)+! {
            races [
                a_thousand_races_of_start_and_supersede
                racing_deliveries_put_each_message_into_one_beat
                eight_executors_of_one_node_make_one_call
                one_refund_and_both_callers_the_same_answer
            ]
        }
    };
}

/// All stories as tests of this file, a family in each: a server is not started for every single one. The file has a
/// function `stage` that makes a [`Stage`].
#[macro_export]
macro_rules! tell_on_a_server {
    () => {
        $crate::stories!($crate::tell_families);
        $crate::threaded_stories!($crate::tell_families_on_threads);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tell_families {
    ($($family:ident [$($story:ident)+])+) => {
        $(#[tokio::test]
        async fn $family() {
            let stage = stage();
            $(
                println!(stringify!($story));
                $crate::stories::$family::$story(&stage).await;
            )+
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tell_families_on_threads {
    ($($family:ident [$($story:ident)+])+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $family() {
            let stage = stage();
            $(
                println!(stringify!($story));
                $crate::stories::$family::$story(&stage).await;
            )+
        })+
    };
}
