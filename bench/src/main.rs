//! Benchmarks as programs: `cargo xtask bench NAME [--seconds S]`.
//!
//! Ours and the peer alternate in one run, so that both meet the same machine; medians are compared, and the last line
//! is one JSON object.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures the real clock")]
#![allow(clippy::panic, reason = "a benchmark whose work fails has nothing to say")]

mod alloc;
mod cost;
mod counting;
mod engine;
mod fill;
mod fingerprint;
mod flood;
mod gate;
mod grow;
mod join;
#[cfg(feature = "peers")]
mod ledger;
mod pairs;
#[cfg(feature = "peers")]
mod peers;
#[cfg(feature = "queue")]
mod queue;
mod sample;
mod scratch;
mod start;
#[cfg(feature = "stores")]
mod store;
#[cfg(any(feature = "peers", feature = "stores"))]
mod stored;
#[cfg(feature = "web")]
mod web;
mod work;

use std::process::ExitCode;

use serde_json::Value;

/// The allocator of the program that we ship. On Linux that has it in the place of `malloc`, which takes fewer instructions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Bench = fn(f64) -> Value;

const BENCHES: &[(&str, &str, Bench)] = &[
    ("cost", "instructions per pair and per replay, by callgrind", cost::run),
    #[cfg(feature = "web")]
    ("daemon", "durable pairs over HTTP, beside Redis with appendfsync always; start and idle memory", web::daemon),
    ("engine", "begin+complete on the memory store, single thread", engine::run),
    ("fingerprint", "canonical JSON digest against serde_jcs", fingerprint::run),
    ("flood", "one tenant's slowest of a hundred, alone and beside another tenant's flood", flood::run),
    ("gate", "replay look-ups among a million entries", gate::run),
    #[cfg(feature = "web")]
    ("gateway", "durable first executions through the gateway, beside nginx as a plain proxy", web::first),
    ("grow", "pairs/s on ledgers of 0.1, 1 and 10 million records", grow::run),
    ("join", "a thousand waiters on one pending key", join::run),
    #[cfg(feature = "peers")]
    ("ledger", "durable pairs: the engine on the ledger, the raw log, fjall, SQLite", ledger::run),
    #[cfg(feature = "queue")]
    ("queue", "send, lease, post, ack, durable: the queue on the ledger, Redis Streams, PostgreSQL", queue::run),
    #[cfg(feature = "web")]
    ("replay", "duplicates answered by the gateway, beside nginx proxying and a bare server", web::replay),
    #[cfg(feature = "stores")]
    ("store", "durable pairs on Redis and PostgreSQL, beside a hand-written client and pgbench", store::run),
    #[cfg(feature = "stores")]
    ("store-redis", "of `store` only what concerns Redis", store::run_redis),
    ("start", "opening ledgers of 1 and 5 million records after an unclean end", start::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // What the benchmarks start themselves.
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fill-and-die", records, path] => start::fill_and_die(records.parse().unwrap_or(0), path.as_ref()),
        ["cost-run", what, times] => cost::cost_run(what, times.parse().unwrap_or(0)),
        #[cfg(feature = "web")]
        ["web-server"] => web::serve(),
        // For whoever looks at a server with a profiler.
        #[cfg(feature = "web")]
        ["web-load", address, what, clients, seconds] => {
            println!("{}", web::load_alone(address, what, clients, seconds));
        }
        _ => return run(arguments),
    }
    ExitCode::SUCCESS
}

fn run(arguments: Vec<String>) -> ExitCode {
    match asked(arguments.into_iter()) {
        Ok((run, seconds)) => {
            let measured = run(seconds);
            println!("{measured}");
            // Nothing was measured: whoever goes by the figures must not take that for some.
            if measured.get("problem").is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(problem) => {
            eprintln!("{problem}");
            for (name, what, _) in BENCHES {
                eprintln!("  {name:12} {what}");
            }
            ExitCode::FAILURE
        }
    }
}

fn asked(arguments: impl Iterator<Item = String>) -> Result<(Bench, f64), String> {
    let (mut name, mut seconds) = (None, 5.0);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // The last line is JSON in any case.
            "--json" => {}
            "--seconds" => {
                let given = arguments.next().ok_or("--seconds takes a number, for example --seconds 3")?;
                seconds = given.parse().map_err(|_| format!("--seconds takes a number, not `{given}`"))?;
            }
            given => name = Some(given.to_owned()),
        }
    }
    let name = name.ok_or("which benchmark? One of:")?;
    let bench = BENCHES.iter().find(|(known, _, _)| *known == name);
    bench.map(|(_, _, run)| (*run, seconds)).ok_or_else(|| format!("there is no benchmark `{name}`. One of:"))
}
