//! How many records there are, for metrics: asked of the store, at most every few seconds, however many scrape.

use std::collections::BTreeSet;

use hapax_core::{Stamp, Tag, identity::Surface};
use hapax_engine::Engine;
use hapax_store::{Index, StoreError};
use tokio::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// Surfaces that have no policy of their own until somebody writes one.
const OURS: [&str; 11] =
    ["http", "api", "gateway", "activity", "tool", "beat", "run", "bus", "compensation", "job", "daemon"];
/// So many surfaces are asked about: those that the policy file names first, then ours, then those that callers have named.
const MOST_SURFACES: usize = 256;
/// Live records are counted one by one, up to so many.
const MOST_LIVE: usize = 10_000;
const PAGE: usize = 1_000;
const FRESH: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Under way, up to [`MOST_LIVE`].
    pub(crate) pending: usize,
    /// Of unknown end, up to the same.
    pub(crate) in_doubt: usize,
    /// Everything that is kept on the surfaces known here, tombstones aside.
    pub(crate) unexpired: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<Option<(Instant, Counts)>>);

impl Counted {
    pub(crate) async fn now(&self, engine: &Engine) -> Result<Counts, StoreError> {
        let mut last = self.0.lock().await;
        if let Some((at, counts)) = *last
            && at.elapsed() < FRESH
        {
            return Ok(counts);
        }
        let counts = Counts {
            pending: live(engine, Index::LeaseEnd { until: Stamp(u64::MAX) }).await?,
            in_doubt: live(engine, Index::InDoubt).await?,
            unexpired: unexpired(engine).await?,
        };
        *last = Some((Instant::now(), counts));
        Ok(counts)
    }
}

async fn live(engine: &Engine, index: Index) -> Result<usize, StoreError> {
    let (mut count, mut after) = (0, None);
    while count < MOST_LIVE {
        let page = engine.store().scan(index, after.as_ref(), PAGE).await?;
        count += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(count.min(MOST_LIVE))
}

async fn unexpired(engine: &Engine) -> Result<u64, StoreError> {
    let policies = engine.policies();
    let known = policies.iter().map(|(surface, _)| surface.clone());
    let ours = OURS.iter().filter_map(|name| Surface::new(name).ok());
    let (mut asked, mut sum) = (BTreeSet::new(), 0);
    for surface in known.chain(ours).chain(engine.surfaces_used()) {
        if asked.len() < MOST_SURFACES && asked.insert(surface.as_str().to_owned()) {
            sum += engine.store().usage(Tag::surface(&surface)).await?.records;
        }
    }
    Ok(sum)
}
