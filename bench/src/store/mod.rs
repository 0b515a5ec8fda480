//! Durable begin+complete pairs with an outcome of 1 KiB through the shared stores: the whole engine on Redis beside a
//! hand-written SET NX + SET client, and on PostgreSQL beside pgbench with the same two statements.

mod handwritten;
mod pgbench;
mod spent;

pub(crate) use handwritten::Handwritten;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_engine::Engine;
use hapax_postgres::PostgresStore;
use hapax_redis::RedisStore;
use hapax_store::Store;
use hapax_testkit::{Postgres, Redis};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    pairs::{Maker, measure},
    sample::median,
    store::spent::Spent,
    stored::{body, stored_sizes},
};

const CLIENTS: [usize; 2] = [64, 256];
/// Many and short: one round is as fast as the disk just was.
const ROUNDS: usize = 11;
/// Each carries any number of calls at once, ours as theirs.
const REDIS_CONNECTIONS: usize = 2;

type Rates = BTreeMap<(usize, &'static str), Vec<f64>>;

pub(crate) fn run(seconds: f64) -> Value {
    measured(seconds, true)
}

/// Half as long, for whoever works on this one.
pub(crate) fn run_redis(seconds: f64) -> Value {
    measured(seconds, false)
}

fn measured(seconds: f64, both: bool) -> Value {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        return Value::Null;
    };
    let turn = Duration::from_secs_f64((seconds / ROUNDS as f64).max(0.4));
    let sizes = runtime.block_on(stored_sizes());
    let mut rates = Rates::new();
    let mut problem = redis(&runtime, turn, &sizes, &mut rates);
    if both {
        problem = problem.and_then(|()| postgres(&runtime, turn, &sizes, &mut rates));
    }
    let _gone = std::fs::remove_dir_all(crate::scratch::scratch("pgbench"));
    if let Err(why) = problem {
        eprintln!("store: {why}");
        return Value::Null;
    }
    report(if both { "store" } else { "store-redis" }, &mut rates)
}

fn redis(runtime: &Runtime, turn: Duration, sizes: &[Bytes; 2], rates: &mut Rates) -> Result<(), String> {
    // A log that is rewritten takes a core for a while from whose turn it just is, not from who made it grow.
    let server = Redis::durable_with(&["--auto-aof-rewrite-percentage", "0"]);
    for clients in CLIENTS {
        let options = hapax_redis::Options::new(server.url()).connections(REDIS_CONNECTIONS);
        let store = runtime.block_on(RedisStore::open_with(options)).map_err(|error| error.to_string())?;
        let ours = ours(Arc::new(store))?;
        let theirs = runtime.block_on(handwritten::open(&server.url(), REDIS_CONNECTIONS, sizes))?;
        // Keys of one round must not meet those of another.
        let (mut next, mut their_next) = (clients as u64 * 1_000_000_000, 0);
        for round in 0..ROUNDS {
            for (name, maker, next) in [("redis", &ours, &mut next), ("redis-handwritten", &theirs, &mut their_next)] {
                let (before, first) = (Spent::now(&server), *next);
                let (rate, _) = measure(runtime, maker, clients, turn, next);
                let (on_server, here) = before.a_pair(&server, (*next - first) as f64);
                said(rates, clients, round, name, rate);
                eprintln!("                       processor time a pair: server {on_server:.1} µs, here {here:.1} µs");
                runtime.block_on(handwritten::forget_all(&server.url()))?;
            }
        }
    }
    Ok(())
}

fn postgres(runtime: &Runtime, turn: Duration, sizes: &[Bytes; 2], rates: &mut Rates) -> Result<(), String> {
    let server = Postgres::with(&["max_connections=600"]);
    let options = |schema: &str, clients| {
        hapax_postgres::Options::new(server.url()).schema(schema).connections(clients).answer_timeout(PATIENCE)
    };
    for clients in CLIENTS {
        let (schema, their_schema) = (format!("ours{clients}"), format!("theirs{clients}"));
        let open = |schema: &str| {
            runtime.block_on(PostgresStore::open_with(options(schema, clients))).map_err(|error| error.to_string())
        };
        let ours = ours(Arc::new(open(&schema)?))?;
        // Only for its tables.
        drop(open(&their_schema)?);
        let theirs = pgbench::Script::write(&their_schema, sizes)?;
        let mut next = clients as u64 * 1_000_000_000;
        for round in 0..ROUNDS {
            let (rate, _) = measure(runtime, &ours, clients, turn, &mut next);
            said(rates, clients, round, "postgres", rate);
            said(rates, clients, round, "pgbench", theirs.run(&server.url(), clients, turn)?);
        }
    }
    Ok(())
}

/// A loaded machine must not be taken for a broken server.
const PATIENCE: Duration = Duration::from_secs(30);

fn ours(store: Arc<dyn Store>) -> Result<Maker, String> {
    let settings = hapax_engine::Settings { store_timeout: PATIENCE, ..hapax_engine::Settings::default() };
    let engine = Engine::builder(store).settings(settings).build().map_err(|error| error.to_string())?;
    let scope = engine.surface("bench").tenant("acme");
    Ok(Maker::Ours { engine, scope, body: body() })
}

fn said(rates: &mut Rates, clients: usize, round: usize, name: &'static str, rate: f64) {
    eprintln!("{clients:4} clients, round {round}: {name:17} {rate:9.0} pairs/s");
    rates.entry((clients, name)).or_default().push(rate);
}

fn report(bench: &str, rates: &mut Rates) -> Value {
    let mut by_name: BTreeMap<&str, serde_json::Map<String, Value>> = BTreeMap::new();
    let medians: BTreeMap<_, f64> = rates.iter_mut().map(|(case, samples)| (*case, median(samples))).collect();
    for ((clients, name), rate) in &medians {
        by_name.entry(name).or_default().insert(clients.to_string(), json!(rate.round()));
    }
    let mut ratios = serde_json::Map::new();
    let mut ours = serde_json::Map::new();
    for (mine, peer) in [("redis", "redis-handwritten"), ("postgres", "pgbench")] {
        for clients in CLIENTS {
            if let (Some(ours), Some(theirs)) = (medians.get(&(clients, mine)), medians.get(&(clients, peer))) {
                ratios.insert(format!("{peer}@{clients}"), json!(ours / theirs));
            }
        }
        for (clients, rate) in by_name.remove(mine).unwrap_or_default() {
            ours.insert(format!("{mine}@{clients}"), rate);
        }
    }
    json!({ "bench": bench, "unit": "pairs/s", "ours": ours, "peers": by_name, "ratios": ratios })
}
