//! Every test of this crate in one program: linking is most of what building tests costs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

mod a2a;
mod audit_killed;
mod at_once;
mod audit_writers;
mod bench;
mod closed_output;
mod crowd;
mod demo;
mod exports;
mod gateway_admin;
mod gateway_bad_answers;
mod gateway_config;
mod gateway_egress;
mod gateway_flood;
mod gateway_heads;
mod gateway_held;
mod gateway_http2_upstream;
mod gateway_killed;
mod gateway_long_answers;
mod gateway_once;
mod gateway_preface;
mod gateway_protocols;
mod gateway_renamed;
mod gateway_share;
mod gateway_slow;
mod gateway_smuggling;
mod gateway_spelling;
mod gateway_streams;
mod gateway_table;
mod gateway_uploads;
mod gateway_upstream_faults;
mod gateway_whose;
mod other_stores;
mod places;
mod real_clients;
mod serve;
mod serve_gateway;
mod serve_tls;
mod shared_stores;
mod store_failures;
mod support;
mod traces;
mod transfer;
mod variables;
