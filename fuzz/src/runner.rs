//! Runs one target: kept inputs first, then new ones until the time is up or something breaks.

use std::{
    cell::RefCell,
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use hapax_store::Seeded;

use crate::{corpus, mutate, targets::Target};

/// As long as one small input may take, on a busy machine too.
const SLOW: Duration = Duration::from_secs(5);
const MOST_KEPT: usize = 4_096;
const MOST_TRIES_TO_SHRINK: usize = 3_000;

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    Time(Duration),
    #[cfg_attr(not(test), allow(dead_code, reason = "tests count, so that they do not depend on the machine"))]
    Executions(u64),
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) executions: u64,
    pub(crate) took: Duration,
    /// How many different answers were seen.
    pub(crate) kinds: usize,
    pub(crate) failure: Option<Failure>,
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: String,
    pub(crate) input: Vec<u8>,
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics are caught and told with their input; the usual message would only drown that.
pub(crate) fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        PANIC.with(|panic| *panic.borrow_mut() = Some(info.to_string()));
    }));
}

#[allow(clippy::disallowed_methods, reason = "a fuzzer's time budget is real time")]
fn now() -> Instant {
    Instant::now()
}

pub(crate) fn run(target: &Target, seed: u64, limit: Limit) -> Run {
    let mut random = Seeded::new(seed ^ hash(target.name));
    let mut pool = corpus::of(target.name);
    pool.extend((target.seeds)());
    let mut run = Run { seed, executions: 0, took: Duration::ZERO, kinds: 0, failure: None };
    let mut seen = HashSet::new();
    let start = now();
    // What is kept always runs, however short the time.
    let mut kept = pool.clone().into_iter();
    loop {
        let kept = kept.next();
        let over = match limit {
            Limit::Time(time) => start.elapsed() >= time,
            Limit::Executions(most) => run.executions >= most,
        };
        if kept.is_none() && over {
            break;
        }
        let new = kept.is_none();
        let input = kept.unwrap_or_else(|| fresh(target, &pool, &mut random));
        run.executions += 1;
        match timed(target, &input) {
            Ok(kind) => {
                if seen.insert(kind) && new && pool.len() < MOST_KEPT {
                    pool.push(input);
                }
            }
            Err(what) => {
                run.failure = Some(shrunk(target, Failure { what, input }));
                break;
            }
        }
    }
    run.took = start.elapsed();
    run.kinds = seen.len();
    run
}

fn timed(target: &Target, input: &[u8]) -> Result<u64, String> {
    let began = now();
    let kind = tried(target, input)?;
    let took = began.elapsed();
    if took > SLOW { Err(format!("took {} ms", took.as_millis())) } else { Ok(kind) }
}

fn fresh(target: &Target, pool: &[Vec<u8>], random: &mut Seeded) -> Vec<u8> {
    let mut input = match random.pick(pool) {
        Some(known) if random.chance(850) => known.clone(),
        Some(_) | None => (target.make)(random),
    };
    if random.chance(950) {
        mutate::mutate(&mut input, pool, target.words, random);
    }
    input
}

/// The kind of answer, or why it must not be.
fn tried(target: &Target, input: &[u8]) -> Result<u64, String> {
    match catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        Ok(answer) => answer,
        Err(_) => {
            let said = PANIC.with(|panic| panic.borrow_mut().take());
            Err(said.unwrap_or_else(|| "it panicked".to_owned()))
        }
    }
}

/// The same failure with less input: pieces are left out as long as it still fails.
fn shrunk(target: &Target, mut failure: Failure) -> Failure {
    let mut tries = 0;
    let mut piece = failure.input.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < failure.input.len() && tries < MOST_TRIES_TO_SHRINK {
            tries += 1;
            let mut less = failure.input.clone();
            less.drain(at..(at + piece).min(failure.input.len()));
            match tried(target, &less) {
                Err(what) => failure = Failure { what, input: less },
                Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    failure
}

pub(crate) fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fuzzer that finds nothing may be blind. This one has to find a panic behind a word, and make it small.
    #[test]
    fn a_planted_panic_is_found_and_made_small() {
        let planted = Target {
            name: "planted",
            about: "",
            words: &[b"boom", b"calm"],
            seeds: || vec![b"nothing here".to_vec()],
            make: mutate::noise,
            run: |input| {
                assert!(!input.windows(4).any(|window| window == b"boom"), "it went off");
                Ok(input.len() as u64 % 7)
            },
        };
        let run = run(&planted, 1, Limit::Executions(10_000));
        let failure = run.failure.map(|failure| failure.input);
        assert_eq!(failure.as_deref(), Some(&b"boom"[..]));
    }
}
