//! A fuzzer that needs no special toolchain: `cargo run -p hapax-fuzz --release -- [--seconds N] [--seed S] [TARGET…|all]`.
//!
//! It knows no coverage. Instead each target says in one number what it saw (which error, which state), and an input
//! that shows something new is kept and changed further. What once failed lies in `corpus/TARGET/` and is tried first.

mod args;
mod corpus;
mod mutate;
mod runner;
mod targets;

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use args::{Args, Ask};
use runner::{Limit, Run};
use targets::{ALL, Target};

/// Two at a time: the machines that run the tests have two cores.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Ask::Run(args)) => args,
        Ok(Ask::List) => {
            for target in ALL {
                println!("{:<16} {}", target.name, target.about);
            }
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    let seed = args.seed.unwrap_or_else(seed_of_the_day);
    println!("seed {seed}, {} s a target", args.seconds);
    runner::keep_panics_quiet();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(target) = args.targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !told(target, &runner::run(target, seed, Limit::Time(Duration::from_secs(args.seconds)))) {
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    if failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints one line for a target, or all about its failure; true if there was none.
fn told(target: &Target, run: &Run) -> bool {
    let per_second = run.executions as f64 / run.took.as_secs_f64().max(1e-9);
    let Some(failure) = &run.failure else {
        println!(
            "{:<16} ok: {:>9} executions, {per_second:>8.0}/s, {} sorts of answer",
            target.name, run.executions, run.kinds
        );
        return true;
    };
    let kept = corpus::keep(target.name, &failure.input);
    let hex: String = failure.input.iter().take(2_048).map(|byte| format!("{byte:02x}")).collect();
    println!(
        "{:<16} FAILED at execution {} of seed {}: {}\n  input ({} bytes): {hex}{}\n  {}",
        target.name,
        run.executions,
        run.seed,
        failure.what,
        failure.input.len(),
        if failure.input.len() > 2_048 { "…" } else { "" },
        match kept {
            Ok(path) => format!("kept in {}; once mended, move it to fuzz/corpus/{}/", path.display(), target.name),
            Err(error) => format!("could not be kept: {error}"),
        },
    );
    false
}

#[allow(clippy::disallowed_methods, reason = "a new seed for every run; it is printed, so the run can be had again")]
fn seed_of_the_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() ^ u64::from(since.subsec_nanos()) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The long runs are optimised and do not notice a sum that overflows; this one does.
    #[test]
    fn every_target_holds_for_a_while() {
        for target in ALL {
            let run = runner::run(target, 1, Limit::Executions(20_000));
            assert!(run.failure.is_none(), "{}: {:?}", target.name, run.failure);
            assert!(run.kinds > 1, "{} sees no difference between inputs", target.name);
        }
    }

    #[test]
    fn no_two_targets_share_a_name() {
        for (index, target) in ALL.iter().enumerate() {
            assert!(ALL.iter().skip(index + 1).all(|other| other.name != target.name), "{}", target.name);
        }
    }
}
