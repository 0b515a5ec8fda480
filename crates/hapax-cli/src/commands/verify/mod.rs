//! `hapax verify`: the suite and the faults against the user's own server, in a corner of its own.

mod harness;
mod live;
mod words;

use std::sync::Arc;

use hapax::{Apart, Durability, Store, conformance};
use serde_json::json;

use super::show;
use crate::{failure::Failure, store};
use harness::Corner;

#[derive(Debug, clap::Args)]
pub(crate) struct Verify {
    /// The store: `redis://…`, `postgres://…`, `nats://…`, `file:DIRECTORY` or `memory:`
    #[arg(long, env = "HAPAX_STORE", value_name = "URL", hide_env_values = true)]
    store: String,
    /// How many random histories are played through lost answers, late writes and broken connections
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    histories: u32,
    /// The same seed gives the same histories
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// What the store must promise: `any`, or `durable` to fail without it
    #[arg(long, default_value = "any", value_name = "LEVEL", value_parser = ["any", "durable"])]
    durability: String,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(verify: Verify) -> Result<(), Failure> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Runtime(std::io::Error::other(error)))?;
    let name = format!("hapax-verify-{}", data_encoding::HEXLOWER.encode(&bytes));
    let shown = store::shown(&verify.store);
    let apart = Arc::new(Apart::new(verify.store.clone(), name));
    let (first, room) = apart.open().await.map_err(|error| store::not_opened(&verify.store, &error))?;
    let durability = first.durability();
    if verify.durability == "durable" && durability != Durability::Durable {
        drop(first);
        let _nothing_else_was_there = apart.erase().await;
        return Err(hapax::BuildError::NotDurable { store: shown, promise: durability.to_string() }.into());
    }
    if !verify.json {
        errln!("trying {shown}, under names that begin with {}", apart.name());
    }
    let tried = tokio::select! {
        tried = try_it(&verify, &apart, room, first) => Some(tried),
        _ = tokio::signal::ctrl_c() => None,
    };
    // Whatever became of it, nothing stays behind.
    let erased = apart.erase().await.map_err(|error| error.to_string());
    if let Err(why) = &erased {
        errln!("hapax: warning: what begins with {} could not be removed: {why}", apart.name());
    }
    let Some(tried) = tried else { return Err(Failure::Interrupted("what it had written is removed")) };
    if verify.json {
        show::json(&tried.json(&shown, &durability, erased.is_ok()));
    } else {
        outln!("{}", words::report(&tried, &shown, &durability).trim_end());
    }
    match tried.failures() {
        0 => Ok(()),
        failures => Err(Failure::NoStore(failures)),
    }
}

/// What was found.
struct Tried {
    level: hapax_store::Level,
    suite: conformance::Report,
    faults: conformance::Report,
    live: live::Live,
}

async fn try_it(verify: &Verify, apart: &Arc<Apart>, room: u32, first: Arc<dyn Store>) -> Tried {
    let level = first.level();
    let corner = Arc::new(Corner::new(Arc::clone(apart)));
    let say = |words: &str| {
        if !verify.json {
            errln!("{words}");
        }
    };
    say("the contract, a minute or so …");
    let suite = conformance::run(corner.clone()).await;
    say("lost answers, late writes, broken connections …");
    let faults = conformance::run_faulty(corner, verify.seed, verify.histories.into()).await;
    let live = live::run(apart, room, first).await;
    Tried { level, suite, faults, live }
}

impl Tried {
    fn failures(&self) -> usize {
        self.suite.failures().count() + self.faults.failures().count() + usize::from(self.live.problem.is_some())
    }

    fn json(&self, shown: &str, durability: &Durability, erased: bool) -> serde_json::Value {
        let (level, reason) = match durability {
            Durability::Durable => ("durable", None),
            Durability::DurableIf(reason) => ("durable_if", Some(reason)),
            Durability::BestEffort(reason) => ("best_effort", Some(reason)),
        };
        let checks: Vec<_> = self.suite.checks.iter().chain(&self.faults.checks).map(check).collect();
        json!({
            "store": shown, "passed": self.failures() == 0, "durability": level, "reason": reason,
            "level": words::level(self.level), "checks": checks, "erased": erased,
            "live": {
                "problem": self.live.problem, "read_us": self.live.read_us, "write_us": self.live.write_us,
                "wake_us": self.live.wake_us, "woken": self.live.woken.map(live::Woken::name),
            },
            "promises": words::promises(self, durability),
        })
    }
}

fn check(checked: &conformance::Checked) -> serde_json::Value {
    let (verdict, why) = match &checked.verdict {
        conformance::Verdict::Passed => ("passed", None),
        conformance::Verdict::Failed(why) => ("failed", Some(why)),
        conformance::Verdict::Skipped(why) => ("skipped", Some(why)),
    };
    json!({ "name": checked.name, "verdict": verdict, "why": why })
}
