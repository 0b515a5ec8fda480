//! What somebody writes who needs idempotency by Friday: SET NX, the work, SET.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use redis::{Client, aio::MultiplexedConnection};

use crate::pairs::Maker;

#[derive(Clone)]
pub(crate) struct Handwritten {
    wires: Vec<MultiplexedConnection>,
    turn: Arc<AtomicUsize>,
    begin: Bytes,
    complete: Bytes,
}

/// As long as our records would live.
const LEASE_MS: u64 = 60_000;
const DAY_MS: u64 = 86_400_000;

pub(super) async fn open(url: &str, connections: usize, sizes: &[Bytes; 2]) -> Result<Maker, String> {
    let client = Client::open(url).map_err(|error| error.to_string())?;
    let mut wires = Vec::new();
    for _ in 0..connections {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let wire = client.get_multiplexed_async_connection_with_config(&config).await;
        wires.push(wire.map_err(|error| error.to_string())?);
    }
    let [begin, complete] = sizes.clone();
    Ok(Maker::Handwritten(Handwritten { wires, turn: Arc::default(), begin, complete }))
}

/// So that neither fills the server's memory for the other.
pub(super) async fn forget_all(url: &str) -> Result<(), String> {
    let client = Client::open(url).map_err(|error| error.to_string())?;
    let mut wire = client.get_multiplexed_async_connection().await.map_err(|error| error.to_string())?;
    let flushed: redis::RedisResult<()> = redis::cmd("FLUSHALL").arg("ASYNC").query_async(&mut wire).await;
    flushed.map_err(|error| error.to_string())
}

impl Handwritten {
    pub(crate) async fn pair(&self, number: u64) -> bool {
        let at = self.turn.fetch_add(1, Relaxed) % self.wires.len();
        let mut wire = self.wires[at].clone();
        let key = format!("idempotency:acme:{number:016x}");
        let mut first = redis::cmd("SET");
        first.arg(&key).arg(self.begin.as_ref()).arg("NX").arg("PX").arg(LEASE_MS);
        let ours: redis::RedisResult<Option<String>> = first.query_async(&mut wire).await;
        if !matches!(ours, Ok(Some(_))) {
            return false;
        }
        let mut last = redis::cmd("SET");
        last.arg(&key).arg(self.complete.as_ref()).arg("PX").arg(DAY_MS);
        last.query_async::<String>(&mut wire).await.is_ok()
    }
}
