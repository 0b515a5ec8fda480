//! Breadth first, so that a counterexample is as short as one can be.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fmt,
    time::{Duration, Instant},
};

use hapax_core::Policy;

use super::{
    config::Config,
    encode::{fingerprint, symmetries},
    world::{Action, World},
};
use crate::bridge;

/// A broken promise, and the shortest way to it.
#[derive(Clone, Debug)]
pub struct Violation {
    pub config: &'static str,
    pub promise: &'static str,
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "violation in {}: {}", self.config, self.promise)?;
        for (number, line) in self.trace.iter().enumerate() {
            writeln!(f, "  {:>3}. {line}", number + 1)?;
        }
        Ok(())
    }
}

/// What a search has seen.
#[derive(Clone, Debug)]
pub struct Report {
    pub config: &'static str,
    pub states: u64,
    pub transitions: u64,
    pub depth: u32,
    pub took: Duration,
    /// False where it stopped at the limit.
    pub complete: bool,
    pub violation: Option<Violation>,
    /// How often each kind of step was taken.
    pub steps: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<28} {:>10} states {:>11} transitions  depth {:>3}  {:>6.1} s{}",
            self.config,
            self.states,
            self.transitions,
            self.depth,
            self.took.as_secs_f64(),
            if self.complete { "" } else { "  (stopped at the limit)" },
        )
    }
}

/// How a state was first reached.
#[derive(Clone, Copy)]
struct Link {
    from: u32,
    action: u16,
}

struct Found {
    world: World,
    number: u32,
    depth: u32,
}

/// Visits every state of a configuration, or `most` of them.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the search says how long it took")]
pub fn search(config: &Config, most: Option<u64>) -> Report {
    let started = Instant::now();
    let policy = bridge::policy(config.knobs);
    let orders = symmetries(config);
    let mut buffer = Vec::with_capacity(256);
    let mut seen: HashSet<u128, foldhash::fast::FixedState> = HashSet::default();
    let mut links: Vec<Link> = Vec::new();
    let mut queue = VecDeque::new();
    let mut report = Report {
        config: config.name,
        states: 0,
        transitions: 0,
        depth: 0,
        took: Duration::ZERO,
        complete: true,
        violation: None,
        steps: BTreeMap::new(),
    };

    let first = World::new(config);
    seen.insert(fingerprint(&first, &orders, &mut buffer));
    links.push(Link { from: 0, action: 0 });
    queue.push_back(Found { world: first, number: 0, depth: 0 });

    'search: while let Some(found) = queue.pop_front() {
        report.depth = report.depth.max(found.depth);
        for (index, action) in found.world.actions(config, &policy).into_iter().enumerate() {
            report.transitions += 1;
            *report.steps.entry(action.kind()).or_default() += 1;
            let mut next = found.world.clone();
            let taken = next.take(config, &policy, action);
            let new = taken.is_err() || seen.insert(fingerprint(&next, &orders, &mut buffer));
            if !new {
                continue;
            }
            if let Err(promise) = taken.and_then(|()| next.check(config, &policy)) {
                let trace = trace(config, &policy, &links, found.number, action);
                report.violation = Some(Violation { config: config.name, promise, trace });
                break 'search;
            }
            if most.is_some_and(|most| seen.len() as u64 >= most) {
                report.complete = false;
                break 'search;
            }
            let number = u32::try_from(links.len()).unwrap_or(u32::MAX);
            links.push(Link { from: found.number, action: u16::try_from(index).unwrap_or(u16::MAX) });
            queue.push_back(Found { world: next, number, depth: found.depth + 1 });
        }
    }
    report.states = seen.len() as u64;
    report.took = started.elapsed();
    report
}

/// The history that led here, told again from the start.
fn trace(config: &Config, policy: &Policy, links: &[Link], to: u32, last: Action) -> Vec<String> {
    let mut path = Vec::new();
    let mut at = to;
    while at != 0 {
        let link = links[at as usize];
        path.push(link.action);
        at = link.from;
    }
    let mut world = World::new(config);
    let mut lines = Vec::new();
    for index in path.into_iter().rev() {
        let Some(action) = world.actions(config, policy).get(usize::from(index)).copied() else { break };
        let taken = world.take(config, policy, action);
        lines.push(line(config, &world, action));
        if taken.is_err() {
            return lines;
        }
    }
    let _ = world.take(config, policy, last);
    lines.push(line(config, &world, last));
    lines
}

/// One step, and what is stored and read after it.
fn line(config: &Config, world: &World, action: Action) -> String {
    let stored = world.record.as_deref().map_or("absent".to_owned(), |record| {
        format!("{:?} attempt {} of nonce {}", record.state.name(), record.attempt.number, record.attempt.nonce.0[0])
    });
    let read = world
        .read()
        .map_or("Absent".to_owned(), |record| format!("{:?}, ended {:?}", record.state.name(), record.attempt.end));
    let clients: Vec<String> = world
        .clients
        .iter()
        .map(|client| {
            let sent = if client.sent.is_some() { " (swap sent)" } else { "" };
            let unsure = if client.unsure.is_some() { " (begin unknown)" } else { "" };
            format!("{:?}{sent}{unsure}", client.phase)
        })
        .collect();
    format!(
        "{action:?}  at {}: stored v{} {stored}, reads {read}; {} late; {} [{}]",
        world.now - 1_000,
        world.version,
        world.late.len(),
        config.class,
        clients.join(" | "),
    )
}
