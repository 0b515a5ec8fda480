//! Memory in use, and allocations as a program of their own counts them.

use std::process::Command;

use serde_json::Value;

/// What `hapax-count`, which is built beside this program, says of one benchmark's work.
pub(crate) fn counted(what: &str) -> Value {
    let counts = std::env::current_exe().ok().and_then(|here| {
        let output = Command::new(here.with_file_name("hapax-count")).arg(what).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    });
    counts.unwrap_or_else(|| {
        eprintln!("hapax-count is missing: nothing was counted; `cargo xtask bench` builds it");
        Value::Null
    })
}

/// The bytes of memory that this process holds, from the kernel's view.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
