//! Processor time, which says more than rates where the machine is not ours alone.

use std::fs;

use hapax_testkit::Redis;

/// Seconds that the server and this process have spent.
#[derive(Clone, Copy)]
pub(super) struct Spent {
    server: f64,
    process: f64,
}

impl Spent {
    pub(super) fn now(server: &Redis) -> Self {
        let said = server.say("INFO cpu");
        let of = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        let server = of("used_cpu_user:").unwrap_or(0.0) + of("used_cpu_sys:").unwrap_or(0.0);
        Self { server, process: process() }
    }

    /// Microseconds a pair since then, by the server and by this process.
    pub(super) fn a_pair(self, server: &Redis, pairs: f64) -> (f64, f64) {
        let now = Self::now(server);
        ((now.server - self.server) / pairs * 1e6, (now.process - self.process) / pairs * 1e6)
    }
}

/// Of all threads, in ticks of ten milliseconds.
fn process() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |parts| parts.1);
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}
