//! Files are read by the commands that judge them as the daemon reads them.

use crate::support::{
    Daemon, Dir,
    command::{fails, run, said},
};

/// A file that the check lets pass and the daemon refuses is found at the next restart, at night.
#[test]
fn a_policy_check_refuses_what_the_daemon_refuses() {
    let dir = Dir::new();
    for (text, word) in [
        ("[server]\nlisen = \"127.0.0.1:1\"\n", "listen"),
        ("[server]\nreaders = 9000000000000000000\n", "at most"),
        ("[idempotency]\ndefault_ttl_houres = 1\n", "default_ttl_hours"),
        (
            "[idempotency]\nenabled = false\n[surface.api]\npreset = \"api\"\nmode = \"enforce\"\n",
            "two different values",
        ),
        ("[[route]]\nmatch = \"POST pay\"\n", "route number 1"),
    ] {
        dir.write("hapax.toml", text);
        let told = fails(dir.path(), &["policy", "check", "hapax.toml"], 2);
        assert!(told.contains(word), "{text}: {told}");
    }
}

#[test]
fn the_daemons_own_file_differs_in_nothing_from_the_daemon() {
    let dir = Dir::new();
    dir.write("hapax.toml", "[idempotency]\ndefault_ttl_hours = 24\nprocessing_ttl_seconds = 60\n");
    let _daemon = Daemon::start(&dir, &[]);
    let same = run(dir.path(), &["policy", "diff", "hapax.toml"]);
    assert!(same.status.success(), "{}", said(&same));
    dir.write("other.toml", "[idempotency]\ndefault_ttl_hours = 23\nprocessing_ttl_seconds = 60\n");
    let told = fails(dir.path(), &["policy", "diff", "other.toml"], 9);
    assert!(told.contains("23h"), "{told}");
}
