//! The servers and the browser that tests need, from Debian's packages.

use std::path::Path;

use crate::failure::{Failure, Result};
use crate::process;

struct Package {
    name: &'static str,
    /// Any of these files shows that it is there; a `*` stands for one folder.
    shown_by: &'static [&'static str],
}

const PACKAGES: &[Package] = &[
    REDIS,
    Package { name: "postgresql", shown_by: &["/usr/lib/postgresql/*/bin/initdb", "/usr/local/bin/initdb"] },
    Package {
        name: "nats-server",
        shown_by: &["/usr/sbin/nats-server", "/usr/bin/nats-server", "/usr/local/bin/nats-server"],
    },
    // Gives a server another clock.
    Package { name: "faketime", shown_by: &["/usr/lib/*/faketime/libfaketimeMT.so.1"] },
    // Looks at the page.
    Package { name: "chromium-driver", shown_by: &["/usr/bin/chromedriver"] },
    // A client that retries, and one that stops other processes.
    Package { name: "curl", shown_by: &["/usr/bin/curl", "/usr/local/bin/curl"] },
    Package { name: "procps", shown_by: &["/usr/bin/kill", "/bin/kill"] },
    // Takes servers down with the test that started them.
    Package { name: "util-linux", shown_by: &["/usr/bin/setpriv"] },
];

/// A store, and the peer of a benchmark.
const REDIS: Package =
    Package { name: "redis-server", shown_by: &["/usr/bin/redis-server", "/usr/local/bin/redis-server"] };

/// Peers and tools of the benchmarks, which the tests can do without.
const NGINX: Package = Package { name: "nginx-light", shown_by: &["/usr/sbin/nginx"] };
const VALGRIND: Package = Package { name: "valgrind", shown_by: &["/usr/bin/valgrind", "/usr/local/bin/valgrind"] };

/// Installs what is missing. A test that does not find its server fails and says how to get it; it is never skipped.
pub(crate) fn install(root: &Path) -> Result<()> {
    let missing: Vec<&str> = PACKAGES.iter().filter(|package| !package.is_installed()).map(|one| one.name).collect();
    apt(root, &missing)
}

/// What a benchmark measures against or with.
pub(crate) fn install_for_bench(root: &Path, bench: &str) -> Result<()> {
    let package = match bench {
        "gateway" | "replay" => NGINX,
        "daemon" => REDIS,
        "cost" => VALGRIND,
        // The same servers as the tests'.
        "store" | "store-redis" => return install(root),
        _ => return Ok(()),
    };
    if package.is_installed() { Ok(()) } else { apt(root, &[package.name]) }
}

/// Installs Debian packages by name; as another user than root through `sudo`, if that asks nothing.
pub(crate) fn apt(root: &Path, missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let mut line = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "--no-install-recommends"];
    line.extend(missing);
    eprintln!("missing: {}", missing.join(", "));
    let by_hand = |why: &str| {
        let what =
            format!("this needs {}, and {why}; install them by hand (the names are Debian's)", missing.join(", "));
        Err(Failure::new(what).rerun_with(process::spoken(&line)))
    };
    if !process::works(root, &["apt-get", "--version"]) {
        return by_hand("only apt-get is known here");
    }
    let sudo: &[&str] =
        match (process::works(root, &["test", "-w", "/var/lib/dpkg"]), process::works(root, &["sudo", "-n", "true"])) {
            (true, _) => &[],
            (false, true) => &["sudo", "-n"],
            (false, false) => return by_hand("this user may not"),
        };
    process::run(root, &[sudo, &["apt-get", "update"]].concat())?;
    process::run(root, &[sudo, &line].concat())
}

impl Package {
    fn is_installed(&self) -> bool {
        self.shown_by.iter().any(|pattern| exists(pattern))
    }
}

fn exists(pattern: &str) -> bool {
    match pattern.split_once("/*/") {
        None => Path::new(pattern).exists(),
        Some((folder, rest)) => std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(std::result::Result::ok)
            .any(|entry| entry.path().join(rest).exists()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_one_folder() {
        assert!(exists("/proc/*/stat"));
        assert!(!exists("/proc/*/no-such-file-here"));
        assert!(!exists("/no-such-folder/*/stat"));
        assert!(exists("/proc"));
    }
}
