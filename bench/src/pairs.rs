//! Making pairs, and measuring how fast.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hapax_core::Outcome;
use hapax_engine::{Begun, Engine, InScope};
use tokio::runtime::Runtime;

use crate::sample::quantile;
#[cfg(feature = "peers")]
use crate::{fill::id, peers::Grouped};
#[cfg(feature = "peers")]
use hapax_ledger::RawLog;

/// One way of making pairs.
#[derive(Clone)]
pub(crate) enum Maker {
    Ours {
        engine: Engine,
        scope: InScope,
        body: Bytes,
    },
    #[cfg(feature = "peers")]
    Raw {
        log: Arc<RawLog>,
        begin: Bytes,
        complete: Bytes,
    },
    #[cfg(feature = "peers")]
    Grouped {
        peer: Arc<Grouped>,
        begin: Bytes,
        complete: Bytes,
    },
    #[cfg(feature = "stores")]
    Handwritten(crate::store::Handwritten),
}

impl Maker {
    async fn pair(&self, number: u64) -> bool {
        match self {
            Self::Ours { engine, scope, body } => match scope.clone().key(number).begin().await {
                Ok(Begun::Execute(ticket)) => {
                    let done = ticket.complete(engine, Outcome::success(body.clone())).await;
                    done.is_ok_and(|stepped| stepped.is_done())
                }
                Ok(Begun::Replay(_) | Begun::JoinedFailure(_) | Begun::Told(_)) | Err(_) => false,
            },
            #[cfg(feature = "peers")]
            Self::Raw { log, begin, complete } => {
                log.append(id(number), begin.clone()).await.is_ok()
                    && log.append(id(number), complete.clone()).await.is_ok()
            }
            #[cfg(feature = "peers")]
            Self::Grouped { peer, begin, complete } => {
                peer.write(id(number), begin.clone(), true).await
                    && peer.write(id(number), complete.clone(), false).await
            }
            #[cfg(feature = "stores")]
            Self::Handwritten(client) => client.pair(number).await,
        }
    }
}

/// Lets so many tasks make pairs for a while, numbered from `first`: pairs a second, and the slowest of a hundred in
/// milliseconds.
pub(crate) fn measure(runtime: &Runtime, maker: &Maker, tasks: usize, turn: Duration, first: &mut u64) -> (f64, f64) {
    let next = Arc::new(AtomicU64::new(*first));
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let mut latencies = runtime.block_on(async {
        let all: Vec<_> = (0..tasks)
            .map(|_| {
                let (maker, next, stop) = (maker.clone(), Arc::clone(&next), Arc::clone(&stop));
                tokio::spawn(async move { pairs_until(maker, &next, &stop).await })
            })
            .collect();
        tokio::time::sleep(turn).await;
        stop.store(true, Relaxed);
        let mut latencies = Vec::new();
        for task in all {
            latencies.extend(task.await.unwrap_or_default());
        }
        latencies
    });
    let took = start.elapsed().as_secs_f64();
    *first = next.load(Relaxed);
    (latencies.len() as f64 / took, quantile(&mut latencies, 0.99))
}

async fn pairs_until(maker: Maker, next: &AtomicU64, stop: &AtomicBool) -> Vec<f64> {
    let mut latencies = Vec::new();
    while !stop.load(Relaxed) {
        let number = next.fetch_add(1, Relaxed);
        let start = Instant::now();
        assert!(maker.pair(number).await, "every pair is made");
        latencies.push(start.elapsed().as_secs_f64() * 1e3);
    }
    latencies
}
