//! Counters in Prometheus' text form. Every label has a fixed set of values; tenants appear for administrators only.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use hapax_engine::Stats;
use tokio::time::Duration;

/// What a begin came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    Execute,
    Replay,
    Joined,
    JoinedFailure,
    InFlight,
    Mismatch,
    InDoubt,
    Refused,
    Superseded,
    WindowClosed,
    Error,
}

impl Told {
    const ALL: [Self; 11] = [
        Self::Execute,
        Self::Replay,
        Self::Joined,
        Self::JoinedFailure,
        Self::InFlight,
        Self::Mismatch,
        Self::InDoubt,
        Self::Refused,
        Self::Superseded,
        Self::WindowClosed,
        Self::Error,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Replay => "replay",
            Self::Joined => "joined",
            Self::JoinedFailure => "joined_failure",
            Self::InFlight => "in_flight",
            Self::Mismatch => "mismatch",
            Self::InDoubt => "in_doubt",
            Self::Refused => "refused",
            Self::Superseded => "superseded",
            Self::WindowClosed => "window_closed",
            Self::Error => "error",
        }
    }

    /// The name that the seed gives it, where it has one.
    pub(crate) const fn check_status(self) -> &'static str {
        match self {
            Self::Execute => "processing_started",
            Self::Replay | Self::Joined => "duplicate_completed",
            Self::InFlight => "duplicate_processing",
            Self::Mismatch => "fingerprint_mismatch",
            Self::JoinedFailure
            | Self::InDoubt
            | Self::Refused
            | Self::Superseded
            | Self::WindowClosed
            | Self::Error => self.name(),
        }
    }
}

const BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS_MS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// What this server counts besides what the engine does.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    begins: [Histogram; Told::ALL.len()],
    /// By the first digit of the status.
    answers: [AtomicU64; 6],
    pub(crate) unauthenticated: AtomicU64,
    pub(crate) steps_fenced: AtomicU64,
}

impl Metrics {
    pub(crate) fn told(&self, told: Told, took: Duration) {
        let histogram = &self.begins[told as usize];
        let millis = took.as_millis();
        if let Some(at) = BUCKETS_MS.iter().position(|most| millis < u128::from(*most)) {
            histogram.buckets[at].fetch_add(1, Relaxed);
        }
        histogram.count.fetch_add(1, Relaxed);
        histogram.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(crate) fn answered(&self, status: u16) {
        self.answers[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_of(&self, told: Told) -> u64 {
        self.begins[told as usize].count.load(Relaxed)
    }
}

/// A number that somebody else knows: the store's, for instance.
#[derive(Clone, Debug)]
pub struct Gauge {
    pub name: &'static str,
    pub help: &'static str,
    pub value: f64,
    pub counter: bool,
}

/// Writes one page of metrics.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _infallible = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(crate) fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _infallible = write!(self.0, "{}{label}=\"{text}\"", if at == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _infallible = writeln!(self.0, "{end} {value}");
    }

    pub(crate) fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.value(name, &[], value);
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }

    pub(crate) fn server(&mut self, metrics: &Metrics) {
        self.family("idempotency_check_total", "counter", "Begins by what they were told.");
        let mut statuses: Vec<(&str, u64)> = Vec::new();
        for told in Told::ALL {
            let count = metrics.count_of(told);
            match statuses.iter_mut().find(|(status, _)| *status == told.check_status()) {
                Some((_, sum)) => *sum += count,
                None => statuses.push((told.check_status(), count)),
            }
        }
        for (status, count) in &statuses {
            self.value("idempotency_check_total", &[("status", status)], count);
        }
        let hits = metrics.count_of(Told::Replay) + metrics.count_of(Told::Joined);
        self.one("idempotency_cache_hit_total", "counter", "Begins answered with a recorded outcome.", hits);
        self.family("idempotency_key_type_total", "counter", "Begins by where their key came from.");
        // Whoever begins over the API has named the key; keys of other kinds are not made here.
        let all: u64 = Told::ALL.iter().map(|told| metrics.count_of(*told)).sum();
        self.value("idempotency_key_type_total", &[("type", "client_provided")], all);
        self.histograms(metrics);
        self.family("hapax_http_answers_total", "counter", "Answers by the first digit of their status.");
        for (digit, count) in metrics.answers.iter().enumerate().skip(2) {
            let class = format!("{digit}xx");
            self.value("hapax_http_answers_total", &[("status", &class)], count.load(Relaxed));
        }
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let refused = read(&metrics.unauthenticated);
        self.one("hapax_unauthenticated_total", "counter", "Requests without a valid credential.", refused);
        let fenced = read(&metrics.steps_fenced);
        self.one("hapax_steps_fenced_total", "counter", "Steps whose token no longer counted.", fenced);
    }

    fn histograms(&mut self, metrics: &Metrics) {
        let name = "hapax_begin_seconds";
        self.family(name, "histogram", "How long begins took, waiting included, by verdict.");
        for told in Told::ALL {
            let histogram = &metrics.begins[told as usize];
            let (verdict, mut sum) = (told.name(), 0);
            for (at, most) in BUCKETS_MS.iter().enumerate() {
                sum += histogram.buckets[at].load(Relaxed);
                #[allow(clippy::cast_precision_loss, reason = "the largest bound is 30,000")]
                let le = (*most as f64 / 1000.0).to_string();
                self.value(&format!("{name}_bucket"), &[("verdict", verdict), ("le", &le)], sum);
            }
            let count = histogram.count.load(Relaxed);
            self.value(&format!("{name}_bucket"), &[("verdict", verdict), ("le", "+Inf")], count);
            let micros = histogram.micros.load(Relaxed);
            let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            self.value(&format!("{name}_sum"), &[("verdict", verdict)], seconds);
            self.value(&format!("{name}_count"), &[("verdict", verdict)], count);
        }
    }

    pub(crate) fn engine(&mut self, stats: &Stats, waiting: usize, tickets: usize) {
        let mut counter = |name: &str, help: &str, value: u64| self.one(name, "counter", help, value);
        counter("hapax_executed_total", "Attempts begun.", stats.executed);
        counter("hapax_replayed_total", "Recorded answers given again.", stats.replayed);
        counter("hapax_gate_hits_total", "Of these, without asking the store.", stats.gate_hits);
        counter("hapax_joined_total", "Callers that waited for another's attempt.", stats.joined);
        counter("hapax_in_doubt_total", "Begins told that the end is unknown.", stats.in_doubt);
        counter("hapax_fenced_total", "Outcomes refused because their token no longer counts.", stats.fenced);
        counter("hapax_late_total", "Outcomes taken after the lapse.", stats.late);
        counter("hapax_lapsed_total", "Lapses and expiries found on the way.", stats.lapsed);
        counter("hapax_expired_total", "Retentions that ended.", stats.expired);
        counter("hapax_evicted_total", "Answers given up to make room.", stats.evicted);
        counter("hapax_probed_total", "Probes claimed.", stats.probed);
        counter("hapax_resolved_total", "Doubts decided.", stats.resolved);
        counter("hapax_disowned_total", "Begins of unknown fate taken back.", stats.disowned);
        counter("hapax_store_retries_total", "Store calls tried again.", stats.store_retries);
        counter("hapax_shadow_stops_total", "What shadow mode would have stopped.", stats.shadow_stops);
        // Of one region there are none; the names are there so that a dashboard finds them.
        counter("openwop_idempotency_cross_region_conflicts_total", "Conflicts between regions.", 0);
        self.one("openwop_idempotency_partition_seconds", "gauge", "Divergence between regions.", 0);
        self.one("hapax_waiting", "gauge", "Callers waiting for another's attempt now.", waiting);
        self.one("hapax_tickets", "gauge", "Attempts held for their callers now.", tickets);
    }
}
