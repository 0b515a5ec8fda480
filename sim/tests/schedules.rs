//! Schedules of waiters, gate and cancellation around one key.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hapax_sim::world::schedule::{self, Played};

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.trim().parse().ok())
}

fn again(seed: u64) -> String {
    format!("HAPAX_SEED={seed} cargo test -p hapax-sim --test all schedules::one_seed")
}

/// A waiter once slept on although the attempt had ended; a second one ran although it had only been waiting.
#[test]
fn no_wake_up_is_lost_and_nobody_who_waits_executes() {
    let count = from_environment("HAPAX_SEEDS").unwrap_or(20_000);
    let next = AtomicU64::new(1);
    let broken = Mutex::new(Vec::new());
    let all = Mutex::new(Played::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed > count {
                        return;
                    }
                    match schedule::run(seed) {
                        Ok(played) => add(&mut all.lock().expect("whole"), played),
                        Err(story) => broken.lock().expect("whole").push(format!("{story}\n  {}", again(seed))),
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().expect("whole");
    let all = all.into_inner().expect("whole");
    println!("{count} schedules: {all:?}");
    assert!(broken.is_empty(), "{} of {count} schedules:\n{}", broken.len(), broken[..broken.len().min(10)].join("\n"));
    let Played { joined, answered, failed, in_flight, executed, cancelled } = all;
    let least = [joined, answered, failed, in_flight, executed, cancelled].into_iter().min();
    assert!(count < 1_000 || least > Some(0), "the schedules have lost what they were made for: {all:?}");
}

fn add(all: &mut Played, one: Played) {
    all.joined += one.joined;
    all.answered += one.answered;
    all.failed += one.failed;
    all.in_flight += one.in_flight;
    all.executed += one.executed;
    all.cancelled += one.cancelled;
}

#[test]
fn one_seed() {
    let Some(seed) = from_environment("HAPAX_SEED") else { return };
    schedule::run(seed).expect("kept its promises");
}
