//! `hapax bench`: what this machine and this store can do, in half a minute. Comparisons with others are
//! `cargo xtask bench`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use hapax::{Begun, Effect, Engine, Hapax, InScope, Millis, Outcome, Policy, Preset, Span, identity::Tenant};
use serde_json::json;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use super::show;
use crate::{failure::Failure, store};

/// Measure this machine and store: durable operations a second, how long one takes, and replays.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// What to measure: `file:DIRECTORY` measures a scratch ledger on that directory's disk, `memory:` no disk at all
    #[arg(long, env = "HAPAX_STORE", value_name = "URL", default_value = store::DEFAULT, hide_env_values = true)]
    store: String,
    /// Seconds per case
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Only the JSON object
    #[arg(long)]
    json: bool,
}

const TASKS: [usize; 3] = [1, 16, 64];
/// In a store that keeps everything in memory a case ends with so many pairs, however much time is left: the machine has other uses
/// for its memory.
const MOST_IN_MEMORY: u64 = 200_000;
/// So often a task makes room for others, and for the clock: a store in memory never waits for anything.
const MAKES_ROOM: u64 = 32;
const SURFACE: &str = "hapax-bench";
const BODY: usize = 1024;
/// What is measured in a store that others use is gone soon.
const KEPT: Millis = Millis::from_secs(60);

pub(super) async fn run(bench: Bench) -> Result<(), Failure> {
    let scratch = Scratch::for_url(&bench.store);
    let url = scratch.as_ref().map_or_else(|| bench.store.clone(), |scratch| format!("file:{}", scratch.0.display()));
    let opened = store::open(&url, Path::new(store::DATA)).await?;
    let durability = opened.store.durability().to_string();
    let policy = Policy { success: Span::For(KEPT), ..Preset::Standard.policy() };
    let engine = Hapax::on(Arc::clone(&opened.store)).policy(SURFACE, policy).build()?;
    let tenant = Tenant::new("bench").map_err(|error| Failure::Flag("tenant", error.to_string()))?;
    // Keys that no earlier run has used.
    let mut run = [0; 8];
    getrandom::fill(&mut run).map_err(|error| Failure::Runtime(std::io::Error::other(error)))?;
    let run = data_encoding::HEXLOWER.encode(&run);
    let scope = engine.surface(SURFACE).tenant(&tenant).within("run", &run);
    let limits = Limits {
        turn: Duration::from_secs(bench.seconds),
        pairs: if opened.directory.is_none() { MOST_IN_MEMORY } else { u64::MAX },
        stop: stopped_by_signals()?,
    };
    let say = |case: &str| {
        if !bench.json {
            errln!("hapax: {case} …");
        }
    };

    let mut rows = Vec::new();
    let mut cases = serde_json::Map::new();
    let mut done = 0;
    for tasks in TASKS {
        let case = format!("begin + complete, {tasks} at once");
        say(&case);
        let measured = pairs(&engine, &scope, tasks, &limits, &mut done).await;
        rows.push(measured.row(&case));
        cases.insert(format!("pairs@{tasks}"), measured.json());
    }
    say("replay, 1 at once");
    let measured = replays(&scope, done, &limits).await;
    rows.push(measured.row("replay, 1 at once"));
    cases.insert("replays@1".to_owned(), measured.json());
    drop((engine, opened));
    if limits.stop.load(Relaxed) {
        return Err(Failure::Interrupted(
            "what it had measured is removed, and in a store that others use gone in a minute",
        ));
    }
    if !bench.json {
        outln!("{}, which promises: {durability}", store::shown(&bench.store));
        show::table(&["CASE", "A SECOND", "MEDIAN", "99 %"], &rows);
    }
    show::json(&json!({
        "bench": "self", "store": store::shown(&bench.store), "durability": durability, "seconds": bench.seconds, "body_bytes": BODY,
        "cases": cases,
    }));
    Ok(())
}

/// When a case is over.
struct Limits {
    turn: Duration,
    pairs: u64,
    /// Somebody wants it to end: what is under way ends as ever, so that nothing is left behind.
    stop: Arc<AtomicBool>,
}

impl Limits {
    fn are_met(&self, since: Instant, pairs: u64) -> bool {
        self.stop.load(Relaxed) || pairs >= self.pairs || since.elapsed() >= self.turn
    }
}

fn stopped_by_signals() -> Result<Arc<AtomicBool>, Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stopping.store(true, Relaxed);
    });
    Ok(stop)
}

/// A ledger beside the user's own, which stays untouched; gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn for_url(url: &str) -> Option<Self> {
        let path = url.strip_prefix("file:")?;
        let path = PathBuf::from(path.strip_prefix("//").unwrap_or(path));
        let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = format!(".hapax-bench-{}", std::process::id());
        Some(Self(beside.unwrap_or_else(|| std::path::Path::new(".")).join(name)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

struct Measured {
    took: f64,
    micros: Vec<u64>,
    failed: u64,
}

impl Measured {
    #[allow(clippy::cast_precision_loss, reason = "figures for people")]
    fn rate(&self) -> f64 {
        (self.micros.len() as f64 / self.took).round()
    }

    /// Microseconds that so many of a hundred did not exceed.
    fn at(&self, percent: usize) -> u64 {
        let last = self.micros.len().saturating_sub(1);
        self.micros.get(last * percent / 100).copied().unwrap_or_default()
    }

    fn row(&self, name: &str) -> Vec<String> {
        let micros = |value: u64| format!("{value} µs");
        vec![name.to_owned(), self.rate().to_string(), micros(self.at(50)), micros(self.at(99))]
    }

    fn json(&self) -> serde_json::Value {
        json!({ "per_second": self.rate(), "median_us": self.at(50), "p99_us": self.at(99), "failed": self.failed })
    }
}

async fn pairs(engine: &Engine, scope: &InScope, tasks: usize, limits: &Limits, done: &mut u64) -> Measured {
    let (first, next) = (*done, Arc::new(AtomicU64::new(*done)));
    let body = Bytes::from(vec![b'x'; BODY]);
    let since = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (engine, scope, body) = (engine.clone(), scope.clone(), body.clone());
            let next = Arc::clone(&next);
            let limits = Limits { stop: Arc::clone(&limits.stop), ..*limits };
            tokio::spawn(async move {
                let (mut micros, mut failed) = (Vec::new(), 0);
                while !limits.are_met(since, next.load(Relaxed) - first) {
                    let one = Instant::now();
                    let number = next.fetch_add(1, Relaxed);
                    if pair(&engine, &scope, number, &body).await {
                        micros.push(took(one));
                    } else {
                        failed += 1;
                    }
                    make_room(number).await;
                }
                (micros, failed)
            })
        })
        .collect();
    let mut measured = Measured { took: 0.0, micros: Vec::new(), failed: 0 };
    for task in running {
        let (micros, failed) = task.await.unwrap_or_default();
        measured.micros.extend(micros);
        measured.failed += failed;
    }
    measured.took = since.elapsed().as_secs_f64();
    measured.micros.sort_unstable();
    *done = next.load(Relaxed);
    measured
}

async fn make_room(number: u64) {
    if number.is_multiple_of(MAKES_ROOM) {
        tokio::task::yield_now().await;
    }
}

async fn pair(engine: &Engine, scope: &InScope, number: u64, body: &Bytes) -> bool {
    match scope.clone().key(number).effect(Effect::Irreversible).begin().await {
        Ok(Begun::Execute(ticket)) => {
            ticket.complete(engine, Outcome::success(body.clone())).await.is_ok_and(|stepped| stepped.is_done())
        }
        Ok(Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) | Err(_) => false,
    }
}

/// Of the newest, so that none of them has expired meanwhile.
async fn replays(scope: &InScope, done: u64, limits: &Limits) -> Measured {
    const NEWEST: u64 = 256;
    let mut measured = Measured { took: 0.0, micros: Vec::new(), failed: 0 };
    let since = Instant::now();
    let mut number = 0;
    while !limits.are_met(since, 0) && done > 0 {
        let key = done - 1 - number % NEWEST.min(done);
        number += 1;
        let one = Instant::now();
        match scope.clone().key(key).effect(Effect::Irreversible).begin().await {
            Ok(Begun::Replay(_)) => measured.micros.push(took(one)),
            Ok(Begun::Execute(_) | Begun::JoinedFailure(_) | Begun::Told(_)) | Err(_) => measured.failed += 1,
        }
        make_room(number).await;
    }
    measured.took = since.elapsed().as_secs_f64();
    measured.micros.sort_unstable();
    measured
}

fn took(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}
