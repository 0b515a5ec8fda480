//! Directories that lie deep.

use crate::support::{
    Daemon, Dir,
    command::{run, said},
};

/// A socket's name has room for a hundred bytes, and a directory may lie deeper than that.
#[test]
fn a_data_directory_may_have_a_long_name() {
    let dir = Dir::new();
    let deep = dir.path().join("d".repeat(90)).join("e".repeat(90)).join("data");
    std::fs::create_dir_all(&deep).unwrap();
    let data = deep.display().to_string();
    let alone = run(dir.path(), &["op", "begin", "jobs", "k1", "--tenant", "acme", "--data", &data]);
    assert!(alone.status.success(), "{}", said(&alone));
    let _daemon = Daemon::start(&dir, &["--data", &data]);
    let through = run(dir.path(), &["op", "list", "--data", &data]);
    assert!(through.status.success(), "{}", said(&through));
    assert!(said(&through).contains("through the process that runs there"), "{}", said(&through));
}
