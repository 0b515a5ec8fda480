//! A command that names one store, where a process runs on another.

use crate::support::{
    Daemon, Dir,
    command::{fails, run},
};
use hapax_testkit::Redis;

/// `--store` names one store, and in the directory runs a process on another: what was asked of the first must not be done to the
/// second.
#[test]
fn a_command_does_not_act_on_another_store_than_it_was_told() {
    let (redis, dir) = (Redis::start(), Dir::new());
    let daemon = Daemon::start(&dir, &[]);
    let told = fails(dir.path(), &["op", "list", "--store", &redis.url()], 1);
    assert!(
        told.contains("file:./hapax-data") && told.contains("redis://127.0.0.1") && told.contains("--data"),
        "{told}"
    );
    assert!(run(dir.path(), &["op", "list"]).status.success());
    assert!(run(dir.path(), &["op", "list", "--store", "file:hapax-data"]).status.success());
    drop(daemon);
    let other = Dir::new();
    let _daemon = Daemon::start(&other, &["--store", &redis.url()]);
    let told = fails(other.path(), &["op", "list", "--store", "redis://127.0.0.1:1/"], 1);
    assert!(told.contains("redis://127.0.0.1:1/"), "{told}");
    let told = fails(other.path(), &["op", "list", "--store", "file:hapax-data"], 1);
    assert!(told.contains("redis://"), "{told}");
    assert!(run(other.path(), &["op", "list", "--store", &redis.url()]).status.success());
    assert!(run(other.path(), &["op", "list"]).status.success());
}
