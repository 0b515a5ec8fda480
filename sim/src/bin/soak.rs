//! `soak NAME [--minutes M | --seconds S] [--seed S]`: fresh seeds until the time is up.
//!
//! Prints how it goes and closes with `N passed, N failed`; exits non-zero if anything failed, with the command that
//! shows it again. `soak --list` names what can be soaked.

use std::{
    process::{Command, ExitCode},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use hapax_sim::{
    histories,
    linear::{self, Verdict},
    sequences, world,
};

/// One thing that can be run for ever.
struct Soak {
    name: &'static str,
    what: &'static str,
    /// Runs one seed; the error is the story.
    run: fn(u64) -> Result<(), String>,
    /// It takes the whole time, and the machine to itself.
    whole: bool,
    /// Shows one seed again.
    again: fn(u64) -> String,
}

const SOAKS: &[Soak] = &[
    Soak {
        name: "simulation",
        what: "whole worlds: engines, callers, a provider, everything that can go wrong",
        run: simulation,
        whole: false,
        again: |seed| {
            format!("HAPAX_SEED={seed} cargo test -p hapax-sim --test all simulation::one_seed -- --nocapture")
        },
    },
    Soak {
        name: "schedules",
        what: "schedules of waiters, gate and cancellation around one key",
        run: |seed| world::schedule::run(seed).map(|_| ()),
        whole: false,
        again: |seed| format!("HAPAX_SEED={seed} cargo test -p hapax-sim --test all schedules::one_seed"),
    },
    Soak {
        name: "histories",
        what: "histories of one key from real threads, checked for an order that explains them",
        run: histories,
        whole: false,
        again: |seed| {
            format!("cargo run -p hapax-sim --bin soak -- histories --seed {seed} (real threads: try it a few times)")
        },
    },
    Soak {
        name: "sequences",
        what: "random sequences of commands, engine against model",
        run: sequences::run,
        whole: false,
        again: |seed| format!("cargo run -p hapax-sim --bin soak -- sequences --seed {seed} --minutes 0"),
    },
    Soak {
        name: "ledger",
        what: "the ledger's own tests from fresh seeds: crash images, failing disks, killed processes, the model",
        run: ledger,
        whole: false,
        again: |seed| format!("HAPAX_SEED={seed} cargo test --release -p hapax-ledger"),
    },
    Soak {
        name: "stores",
        what: "fail-overs under load: Redis Cluster, Sentinel, a PostgreSQL standby, three NATS servers",
        run: stores,
        whole: true,
        again: |_| "cargo xtask soak stores (real servers: try it a few times)".to_owned(),
    },
];

fn ledger(seed: u64) -> Result<(), String> {
    let tests = Command::new("cargo")
        .args(["test", "--release", "--quiet", "-p", "hapax-ledger"])
        .env("HAPAX_SEED", seed.to_string())
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if tests.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&tests.stdout).into_owned()) }
}

/// How long the whole of it lasts.
static LASTS: OnceLock<Duration> = OnceLock::new();

/// The stores have tests of their own for it, each of which goes on for its share of the time.
fn stores(_: u64) -> Result<(), String> {
    const SHARES: u64 = 4;
    let share = LASTS.get().map_or(60, Duration::as_secs) / SHARES;
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "-p", "hapax-redis", "-p", "hapax-postgres", "-p", "hapax-nats", "--test", "all"]);
    command.args(["soak_", "--", "--ignored", "--nocapture", "--test-threads", "1"]);
    let status = command.env("HAPAX_SOAK_SECONDS", share.to_string()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("it ended with {status}; what was seen is above")),
        Err(error) => Err(format!("cargo does not start: {error}")),
    }
}

fn simulation(seed: u64) -> Result<(), String> {
    let report = world::run(seed).map_err(|error| error.to_string())?;
    if report.violations.is_empty() { Ok(()) } else { Err(report.violations.join("\n  ")) }
}

fn histories(seed: u64) -> Result<(), String> {
    let history = histories::record(seed)?;
    match linear::check(&history) {
        // Too many orders to try is no finding.
        Verdict::Linearizable | Verdict::Undecided => Ok(()),
        Verdict::Impossible => Err(format!("no order explains {history:#?}")),
    }
}

struct Asked {
    soak: &'static Soak,
    minutes: f64,
    seed: u64,
}

fn parse(arguments: &[String]) -> Option<Asked> {
    let (name, mut rest) = arguments.split_first()?;
    let soak = SOAKS.iter().find(|soak| soak.name == name)?;
    // Far from the seeds of the test command, and another place each time.
    let mut asked = Asked { soak, minutes: 1.0, seed: fresh() };
    while let Some((option, more)) = rest.split_first() {
        let (value, more) = more.split_first()?;
        match option.as_str() {
            "--minutes" => asked.minutes = value.parse().ok()?,
            "--seconds" => asked.minutes = value.parse::<f64>().ok()? / 60.0,
            "--seed" => asked.seed = value.parse().ok()?,
            _ => return None,
        }
        rest = more;
    }
    Some(asked)
}

#[allow(clippy::disallowed_methods, reason = "the one thing here that must not be the same each time")]
fn fresh() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_secs() << 20
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--list") {
        for soak in SOAKS {
            println!("{:<12} {}", soak.name, soak.what);
        }
        return ExitCode::SUCCESS;
    }
    let Some(asked) = parse(&arguments) else {
        eprintln!("soak NAME [--minutes M | --seconds S] [--seed S]; `soak --list` names what can be soaked");
        return ExitCode::from(2);
    };
    if soak(&asked) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A failing run stops after so many findings.
const ENOUGH: u64 = 10;

#[allow(clippy::disallowed_methods, reason = "a soak lasts for a time of the real clock")]
fn soak(asked: &Asked) -> bool {
    let started = Instant::now();
    let lasts = Duration::from_secs_f64(asked.minutes.max(0.0) * 60.0);
    let lasts = *LASTS.get_or_init(|| lasts);
    let (next, passed, failed) = (AtomicU64::new(asked.seed), AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let told = Mutex::new(Duration::ZERO);
    println!("{}: {}, from seed {} on", asked.soak.name, asked.soak.what, asked.seed);
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..if asked.soak.whole { 1 } else { cores } {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let seed = next.fetch_add(1, Relaxed);
                    match (asked.soak.run)(seed) {
                        Ok(()) => {
                            passed.fetch_add(1, Relaxed);
                        }
                        Err(story) => {
                            let found = failed.fetch_add(1, Relaxed) + 1;
                            println!("seed {seed}: {story}\n  {}", (asked.soak.again)(seed));
                            over.fetch_or(found >= ENOUGH, Relaxed);
                        }
                    }
                    let elapsed = started.elapsed();
                    over.fetch_or(elapsed >= lasts || asked.soak.whole, Relaxed);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    if elapsed >= *told + Duration::from_secs(10) {
                        *told = elapsed;
                        let count = passed.load(Relaxed);
                        println!("{:>6} s: {count} passed, {} failed", elapsed.as_secs(), failed.load(Relaxed));
                    }
                }
            });
        }
    });
    let (passed, failed) = (passed.into_inner(), failed.into_inner());
    println!("{passed} passed, {failed} failed");
    failed == 0
}
