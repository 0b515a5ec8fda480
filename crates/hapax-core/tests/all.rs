//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod beat_rules;
mod dispositions;
mod group_rules;
mod identity_canonical;
mod identity_fingerprint;
mod identity_keys;
mod identity_recipes;
mod meaning;
mod memo_rules;
mod plan_rules;
mod policy_check;
mod presets;
mod rules_cases;
mod rules_doubt;
mod rules_properties;
mod rules_support;
mod rules_table;
mod task_rules;
