//! One tenant floods, with distinct keys or with keys that are answered 503; another goes about its business. What the
//! other's slowest of a hundred takes without and with the flood, in turns, and whether memory stays bounded: by the engine on
//! one ledger, and through the gateway as a user runs it.
//!
//! A flood takes the machine's cores whoever is flooded, so beside the gateway a third turn has the same flood go straight to the
//! upstream. What is slower than beside that one is the gateway's doing.

mod engine;
#[cfg(feature = "web")]
mod gateway;

use serde_json::{Value, json};

use crate::sample::median;

const ROUNDS: usize = 5;
/// How many the flooding tenant has under way at once: as many as its admission allows, and as many again.
const FLOODING: usize = 16;
const ADMITTED: u32 = 8;
/// What one tenant may keep, of how much.
const KEPT: u64 = 20_000;
const ROOM: u64 = 1_000_000;

/// What the flood is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Each is new and is done.
    Distinct,
    /// Each is new, is answered 503, and stays open to be tried again.
    Busy,
}

impl Keys {
    const ALL: [(Self, &str); 2] = [(Self::Distinct, "distinct keys"), (Self::Busy, "keys answered 503")];
}

type Run = fn(Keys, f64) -> Result<Turns, String>;

const PLACES: &[(&str, Run)] = &[
    ("engine", engine::run),
    #[cfg(feature = "web")]
    ("gateway", gateway::run),
];

pub(crate) fn run(seconds: f64) -> Value {
    let each = seconds / (PLACES.len() * Keys::ALL.len()) as f64;
    let (mut ours, mut ratios) = (serde_json::Map::new(), serde_json::Map::new());
    for (place, run) in PLACES {
        for (keys, name) in Keys::ALL {
            eprintln!("{place}, {name}:");
            match run(keys, each) {
                Ok(turns) => {
                    ratios.insert(format!("p99 beside to alone@{place}, {name}"), json!(turns.to(&turns.alone)));
                    if !turns.past_us.is_empty() {
                        let ratio = turns.to(&turns.past_us);
                        ratios.insert(format!("p99 beside to past us@{place}, {name}"), json!(ratio));
                    }
                    ours.insert(format!("{place}, {name}"), turns.report());
                }
                Err(problem) => return json!({ "bench": "flood", "problem": problem }),
            }
        }
    }
    json!({ "bench": "flood", "unit": "ms", "ours": ours, "peers": {}, "ratios": ratios })
}

/// What one tenant's business took: its slowest of a hundred in milliseconds, turn by turn.
#[derive(Default)]
struct Turns {
    alone: Vec<f64>,
    /// Beside the same flood of somebody else, where there is such a one.
    past_us: Vec<f64>,
    beside: Vec<f64>,
    /// Requests of the flood, over all turns.
    asked: u64,
    /// Memory held after each turn, in MiB.
    resident: Vec<f64>,
}

impl Turns {
    fn note(&mut self, alone: f64, past_us: Option<f64>, beside: f64, asked: u64, resident: f64) {
        let past =
            past_us.map(|past_us| format!("{past_us:7.3} beside a flood that goes past us, ")).unwrap_or_default();
        eprintln!(
            "  p99 {alone:7.3} ms alone, {past}{beside:7.3} beside {asked:6} of the flood, {resident:5.1} MiB held"
        );
        self.asked += asked;
        self.alone.push(alone);
        self.past_us.extend(past_us);
        self.beside.push(beside);
        self.resident.push(resident);
    }

    /// The median of turns, so that one in which the machine was busy does not decide.
    fn to(&self, other: &[f64]) -> f64 {
        median(&mut self.beside.iter().zip(other).map(|(beside, other)| beside / other).collect::<Vec<_>>())
    }

    fn report(mut self) -> Value {
        let past_us = (!self.past_us.is_empty()).then(|| median(&mut self.past_us));
        json!({
            "p99 alone": median(&mut self.alone),
            "p99 beside a flood past us": past_us,
            "p99 beside the flood": median(&mut self.beside),
            "requests of the flood": self.asked,
            "MiB after the first turn": self.resident.first(),
            "MiB after the last turn": self.resident.last(),
        })
    }
}
