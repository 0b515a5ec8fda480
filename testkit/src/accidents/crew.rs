use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use hapax_core::{Effect, Millis, Verdict, Version};
use hapax_engine::{Begun, Wait};
use hapax_store::{Store, Swap};

use super::{call, engine, eventually};
use crate::{
    children::{Crew, say},
    sample::{id, number_in, numbered, put},
};

/// By all processes together.
const ADDED: u64 = 320;
const KEYS: u64 = 10;

/// The record that all add to.
const SUM: u64 = 1;
/// How many processes have come, and the word to begin: how often each is to add.
const HERE: u64 = 3;
const GO: u64 = 4;

/// What each process of a crew does: it waits for the others, adds to one number, and runs the same effects as all others.
pub async fn share_keys(store: Arc<dyn Store>) {
    let engine = engine(store.clone());
    add_one(store.as_ref(), HERE).await;
    eventually("the word to begin", async || held(store.as_ref(), GO).await.is_some()).await;
    let mut met = 0;
    for _ in 0..held(store.as_ref(), GO).await.unwrap() {
        let (version, conflicts) = add_one(store.as_ref(), SUM).await;
        say(&format!("added {version}"));
        met += conflicts;
    }
    say(&format!("met {met}"));
    for key in 0..KEYS {
        let effect = move |_| async move {
            say(&format!("ran {key}"));
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, String>(std::process::id())
        };
        let called = call(&engine, &format!("shared-{key}")).effect(Effect::Irreversible);
        let done = called.wait(Wait::AtMost(Millis::from_secs(30))).once(effect).await.unwrap();
        say(&format!("got {key} {}", done.value));
    }
}

/// The version that it made, and how often another was quicker.
async fn add_one(store: &dyn Store, number: u64) -> (Version, u64) {
    let mut held = store.get(&id(number)).await.unwrap();
    let mut conflicts = 0;
    loop {
        let next = number_in(held.record.as_ref()).unwrap_or(0) + 1;
        match store.swap(&id(number), held.version, Some(numbered(next))).await.unwrap() {
            Swap::Swapped { version, .. } => return (version, conflicts),
            Swap::Conflict(now) => held = now,
        }
        conflicts += 1;
    }
}

async fn held(store: &dyn Store, number: u64) -> Option<u64> {
    number_in(store.get(&id(number)).await.unwrap().record.as_ref())
}

/// So many processes at once on the same keys: nothing is lost, nothing runs twice, all are told the same. They begin when all
/// have come: one that is done before the next has started meets nobody, and would prove nothing.
pub async fn count_together(test: &str, processes: usize, store: Arc<dyn Store>, task: impl Fn() -> String) {
    let crew = Crew::start(test, (0..processes).map(|_| task()));
    let all = processes as u64;
    eventually("all have come", async || held(store.as_ref(), HERE).await == Some(all)).await;
    put(store.as_ref(), &id(GO), Version::NEVER, Some(numbered(ADDED / all))).await;
    let said: Vec<String> =
        tokio::task::spawn_blocking(move || crew.finish()).await.unwrap().into_iter().flatten().collect();
    let of = |what: &str| -> Vec<&str> { said.iter().filter_map(|line| line.strip_prefix(what)).collect() };
    let added = of("added ");
    assert_eq!(added.len() as u64, ADDED);
    assert_eq!(added.iter().collect::<BTreeSet<_>>().len(), added.len(), "no version is given out twice");
    assert_eq!(held(store.as_ref(), SUM).await, Some(ADDED), "every addition counts");
    let met: u64 = of("met ").iter().map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(met > 0, "{processes} processes added and never met: this was no race");
    let ran = of("ran ");
    assert_eq!(ran.len() as u64, KEYS, "each effect once: {ran:?}");
    let mut answers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in of("got ").iter().filter_map(|line| line.split_once(' ')) {
        answers.entry(key).or_default().insert(value);
    }
    assert_eq!(answers.len() as u64, KEYS);
    assert!(answers.values().all(|values| values.len() == 1), "all are told the same: {answers:?}");
}

/// How far the clocks of clients are wrong, in seconds.
const AHEAD: i64 = 3_600;
const BEHIND: i64 = -3_600;
/// The key whose lease ends while the test looks on.
const SHORT: &str = "short";
const SHORT_LEASE: Millis = Millis::from_secs(1);

/// What a process with a wrong clock does: it begins under this key, and says what it is told.
pub async fn skewed(store: Arc<dyn Store>, key: &str) {
    let engine = engine(store.clone());
    let lease = if key == SHORT { SHORT_LEASE } else { Millis::from_mins(5) };
    let asked = call(&engine, key).effect(Effect::Idempotent).lease(lease).wait(Wait::No);
    let told = match asked.begin().await.unwrap() {
        Begun::Execute(ticket) => format!("attempt {}", ticket.attempt()),
        Begun::Told(Verdict::InFlight { .. }) => "in flight".to_owned(),
        other @ (Begun::Told(_) | Begun::Replay(_) | Begun::JoinedFailure(_)) => format!("{other:?}"),
    };
    #[allow(clippy::disallowed_methods, reason = "the wrong clock itself")]
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let now = store.get(&id(2)).await.unwrap().now;
    say(&format!("{told}|{wall}|{}", now.0));
}

/// Clients whose clocks are wrong by an hour in both directions. Time is the store's: a lease holds for all others as long as
/// it says, whoever began, and all are shown the same time.
pub async fn skewed_clocks_change_nothing(test: &str, task: impl Fn(&str) -> String) {
    let ask = async |key: &str, skew: i64, wanted: &str| {
        let crew = Crew::start_skewed(test, task(key), skew);
        let said = tokio::task::spawn_blocking(move || crew.finish()).await.unwrap();
        let line = said[0][0].clone();
        let parts: Vec<&str> = line.split('|').collect();
        assert_eq!(parts[0], wanted, "`{key}` with a clock that is {skew} s wrong: {line}");
        let (wall, store): (i64, i64) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
        assert!((wall - store - skew * 1_000).abs() < 600_000, "the client's clock was to be {skew} s wrong: {line}");
        store
    };
    let mut times = vec![
        ask("ahead", AHEAD, "attempt 1").await,
        ask("ahead", BEHIND, "in flight").await,
        ask("ahead", AHEAD, "in flight").await,
        ask("ahead", 0, "in flight").await,
        // By their own clocks, this lease had ended long before it is asked for.
        ask("behind", BEHIND, "attempt 1").await,
        ask("behind", AHEAD, "in flight").await,
        // And this one would go on for two hours.
        ask(SHORT, AHEAD, "attempt 1").await,
    ];
    tokio::time::sleep(SHORT_LEASE.as_std() * 2).await;
    times.push(ask(SHORT, BEHIND, "attempt 2").await);
    assert!(times.is_sorted() && times[7] - times[0] < 600_000, "the store's time goes its own way: {times:?}");
}
