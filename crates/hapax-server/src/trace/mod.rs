//! Traces, where they are asked for: a request, the decision in it, and each call of the store below that.
//!
//! They go to a collector as OTLP over HTTP in its JSON form, which is a stable part of the protocol and needs neither a
//! code generator nor a client library. Without a tracer a request pays for one comparison. No key, body or tenant is in a
//! span; an operation is named by its id.

mod export;
mod here;
mod parent;
mod span;
mod store;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hapax_engine::{SystemWallClock, WallClock as _};
use tokio::{sync::mpsc, time::Instant};

pub use export::{Exporter, TraceError};
pub(crate) use here::{Here, note, spanned};
pub(crate) use span::Kind;
use span::Span;
pub use store::Traced;

/// Spans that may wait to be sent. What does not fit is counted.
const ROOM: usize = 4_096;

/// Takes spans, and hands them to an [`Exporter`].
#[derive(Debug)]
pub struct Tracer {
    spans: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
    /// One of so many requests is traced, unless its caller has decided.
    one_in: u64,
    requests: AtomicU64,
    seed: u64,
    made: AtomicU64,
    /// The wall's time when this was made, and since when.
    wall_ns: u64,
    since: Instant,
}

impl Tracer {
    /// A tracer, and what sends its spans to the collector at `endpoint`, such as `http://127.0.0.1:4318`.
    pub fn to(endpoint: &str, one_in: u64) -> Result<(Self, Exporter), TraceError> {
        let (spans, waiting) = mpsc::channel(ROOM);
        let lost = Arc::new(AtomicU64::new(0));
        let exporter = Exporter::new(endpoint, waiting, Arc::clone(&lost))?;
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).map_err(|error| TraceError::Entropy(error.to_string()))?;
        let tracer = Self {
            spans,
            lost,
            one_in: one_in.max(1),
            requests: AtomicU64::new(0),
            seed: u64::from_le_bytes(seed),
            made: AtomicU64::new(0),
            wall_ns: SystemWallClock.now().0.saturating_mul(1_000_000),
            since: Instant::now(),
        };
        Ok((tracer, exporter))
    }

    /// Spans that found no room, or no collector.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn take(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    fn now_ns(&self) -> u64 {
        self.wall_ns.saturating_add(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn is_chosen(&self) -> bool {
        self.requests.fetch_add(1, Relaxed).is_multiple_of(self.one_in)
    }

    /// Unlike any other of this process, and as good as surely of any; never zero, which means none.
    fn fresh(&self) -> u64 {
        let mut mixed = self.seed.wrapping_add(self.made.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).max(1)
    }
}
