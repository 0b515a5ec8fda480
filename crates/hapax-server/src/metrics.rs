//! Counters in Prometheus' text form. Every label has a fixed set of values; tenants appear for administrators only.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::counted::Counts;
use hapax_engine::{KeyKind, Stats, Tally, Told};

/// The name that the seed gives a verdict, where it has one.
pub(crate) const fn check_status(told: Told) -> &'static str {
    match told {
        Told::Execute => "processing_started",
        Told::Replay | Told::Joined => "duplicate_completed",
        Told::InFlight => "duplicate_processing",
        Told::Mismatch => "fingerprint_mismatch",
        Told::JoinedFailure | Told::InDoubt | Told::Refused | Told::Superseded | Told::WindowClosed | Told::Error => {
            told.name()
        }
    }
}

/// What this server counts besides what the engine does.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// By the first digit of the status.
    answers: [AtomicU64; 6],
    pub(crate) unauthenticated: AtomicU64,
    pub(crate) steps_fenced: AtomicU64,
}

impl Metrics {
    pub(crate) fn answered(&self, status: u16) {
        self.answers[usize::from(status / 100).min(5)].fetch_add(1, Relaxed);
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

    /// What all begins in this process were told, whoever began: the API, the gateway beside it, our own endpoints.
    pub(crate) fn begins(&mut self, tally: &Tally) {
        self.family("idempotency_check_total", "counter", "Begins by what they were told.");
        let mut statuses: Vec<(&str, u64)> = Vec::new();
        for told in Told::ALL {
            match statuses.iter_mut().find(|(status, _)| *status == check_status(told)) {
                Some((_, sum)) => *sum += tally.count(told),
                None => statuses.push((check_status(told), tally.count(told))),
            }
        }
        for (status, count) in &statuses {
            self.value("idempotency_check_total", &[("status", status)], count);
        }
        let hits = tally.count(Told::Replay) + tally.count(Told::Joined);
        self.one("idempotency_cache_hit_total", "counter", "Begins answered with a recorded outcome.", hits);
        self.family("idempotency_key_type_total", "counter", "Begins by where their key came from.");
        for kind in KeyKind::ALL {
            self.value("idempotency_key_type_total", &[("type", kind.name())], tally.keys(kind));
        }
        self.histograms(tally);
    }

    pub(crate) fn server(&mut self, metrics: &Metrics) {
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

    fn histograms(&mut self, tally: &Tally) {
        let name = "hapax_begin_seconds";
        self.family(name, "histogram", "How long begins took, waiting included, by verdict.");
        for told in Told::ALL {
            let (verdict, mut sum) = (told.name(), 0);
            for (most, within) in Tally::BOUNDS_MS.iter().zip(tally.within(told)) {
                sum += within;
                #[allow(clippy::cast_precision_loss, reason = "the largest bound is 30,000")]
                let le = (*most as f64 / 1000.0).to_string();
                self.value(&format!("{name}_bucket"), &[("verdict", verdict), ("le", &le)], sum);
            }
            let count = tally.count(told);
            self.value(&format!("{name}_bucket"), &[("verdict", verdict), ("le", "+Inf")], count);
            let micros = tally.micros(told);
            let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            self.value(&format!("{name}_sum"), &[("verdict", verdict)], seconds);
            self.value(&format!("{name}_count"), &[("verdict", verdict)], count);
        }
    }

    pub(crate) fn records(&mut self, counts: &Counts) {
        self.family("hapax_live_records", "gauge", "Operations under way or in doubt, counted up to 10,000.");
        self.value("hapax_live_records", &[("state", "pending")], counts.pending);
        self.value("hapax_live_records", &[("state", "in_doubt")], counts.in_doubt);
        let help =
            "Records inside their retention, on surfaces that have a policy, are our own or were used since the start.";
        self.one("hapax_unexpired_records", "gauge", help, counts.unexpired);
    }

    /// Of what was given again, how much this process had at hand.
    pub(crate) fn gate(&mut self, stats: &Stats, entries: usize, bytes: usize) {
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = if stats.replayed == 0 { 0.0 } else { stats.gate_hits as f64 / stats.replayed as f64 };
        let help = "Of the recorded answers given again, the part that came without asking the store.";
        self.one("hapax_gate_hit_ratio", "gauge", help, ratio);
        self.one("hapax_gate_records", "gauge", "Answers that this process has at hand.", entries);
        self.one("hapax_gate_bytes", "gauge", "Bytes of these.", bytes);
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
        counter("hapax_lapsed_total", "Lapses and expiries that were written down, each once.", stats.lapsed);
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
