//! `model`: drives the real rules through every state of the configurations and checks every invariant in each.
//!
//! `model --list` names the configurations, `model --test` runs those of the test command, `model --long` all of them,
//! `model NAME…` the ones named. The exit code is not zero if a promise was broken.

#![allow(clippy::disallowed_methods, reason = "a program that says how long it took")]

use std::{
    collections::VecDeque,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use hapax_sim::checker::{Config, Report, Size, configs, search};

/// Where a search stops for the sake of memory, and says so.
const MOST: u64 = 40_000_000;
/// What the test command has to get through.
const LEAST: u64 = 1_000_000;

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let all = configs();
    let chosen: Vec<Config> = match asked.first().map(String::as_str) {
        Some("--list") => {
            for config in &all {
                println!("{:<28} {:?}, {}, {} clients", config.name, config.size, config.class, config.clients.len());
            }
            return ExitCode::SUCCESS;
        }
        None | Some("--test") => all.into_iter().filter(|config| config.size <= Size::Test).collect(),
        Some("--small") => all.into_iter().filter(|config| config.size <= Size::Small).collect(),
        Some("--long") => all,
        Some(_) => all.into_iter().filter(|config| asked.iter().any(|name| name == config.name)).collect(),
    };
    if chosen.is_empty() {
        eprintln!("no such configuration; `model --list` names them, `--test` and `--long` run many");
        return ExitCode::from(2);
    }
    let started = Instant::now();
    let reports = search_all(chosen);
    let states: u64 = reports.iter().map(|report| report.states).sum();
    let transitions: u64 = reports.iter().map(|report| report.transitions).sum();
    let broken: Vec<_> = reports.iter().filter_map(|report| report.violation.as_ref()).collect();
    println!(
        "{:<28} {states:>10} states {transitions:>11} transitions  in {:.1} s",
        "all",
        started.elapsed().as_secs_f64()
    );
    for violation in &broken {
        println!("\n{violation}");
    }
    if !broken.is_empty() {
        return ExitCode::FAILURE;
    }
    let cut_short = reports.iter().any(|report| !report.complete);
    let too_few = matches!(asked.first().map(String::as_str), None | Some("--test")) && states < LEAST;
    if too_few || (cut_short && asked.first().is_none_or(|first| first != "--long")) {
        println!("the search did not go far enough: {states} states, {LEAST} wanted, all of each configuration");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The configurations are strangers to each other: each thread takes the next one.
fn search_all(chosen: Vec<Config>) -> Vec<Report> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(chosen.len());
    let queue = Mutex::new(VecDeque::from(chosen));
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(config) = next else { return };
                    let report = search(&config, Some(MOST));
                    println!("{report}");
                    reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                }
            });
        }
    });
    reports.into_inner().unwrap_or_else(PoisonError::into_inner)
}
