//! Which store a command acts on: the one that the daemon of the same place acts on, or none at all.

use crate::support::{
    Daemon, Dir, Reply, Start, Upstream,
    command::{command, json, ledger, run, said},
    post, until,
};
use hapax_testkit::Redis;

/// The file puts the data elsewhere, and the daemon goes there. A command that does not would find an empty ledger, and say of
/// an order that was paid that nobody knows it.
#[test]
fn commands_find_the_ledger_where_the_file_puts_it() {
    for named in ["data = \"elsewhere\"", "store = \"file:elsewhere\""] {
        let dir = Dir::new();
        dir.write("hapax.toml", &format!("[server]\n{named}\n"));
        let mut daemon = Daemon::start(&dir, &[]);
        let begun = json(dir.path(), &["op", "begin", "jobs", "k1", "--tenant", "acme", "--json"]);
        let operation = begun["operation"].as_str().unwrap();
        daemon.signal("-TERM");
        until("the daemon to end", || daemon.child.try_wait().unwrap().is_some());
        let known = json(dir.path(), &["explain", operation, "--json"]);
        assert_eq!(known["operation"], operation, "{named}: {known}");
        assert!(!dir.path().join("hapax-data").exists(), "{named}: another ledger was made");
        // Whoever names another place means it, whatever the file says.
        std::fs::create_dir(dir.path().join("other")).unwrap();
        assert!(run(dir.path(), &["op", "list", "--data", "other"]).status.success());
        let unknown = run(dir.path(), &["explain", operation, "--data", "other"]);
        assert_eq!(unknown.status.code(), Some(7), "{named}: {}", said(&unknown));
    }
}

/// The same for a gateway on its own, whose section says where.
#[test]
fn commands_find_the_ledger_of_a_gateway_on_its_own() {
    let upstream = Upstream::new(|_, _, _| Reply::json(201, "{}"));
    for named in ["data = \"elsewhere\"", "store = \"file:elsewhere\""] {
        let dir = Dir::new();
        let gateway = Start::at(&dir).file(&format!("[gateway]\n{named}\n")).upstream(upstream.address).go();
        assert_eq!(post(gateway.address, "/pay", "k1", "{}").status, 201);
        let operations = || json(dir.path(), &["op", "list", "--json"])["items"].as_array().unwrap().len();
        assert_eq!(operations(), 1, "{named}: through the gateway");
        gateway.kill();
        assert_eq!(operations(), 1, "{named}: when nobody is there");
        assert!(!dir.path().join("hapax-data").exists(), "{named}: another ledger was made");
    }
}

/// A flag wins, also over a variable that cannot be used.
#[test]
fn a_directory_that_is_named_needs_no_variable() {
    let dir = Dir::new();
    ledger(dir.path(), "named");
    let listed = command(dir.path(), &["op", "list", "--data", "named"]).env("HAPAX_DATA", "").output().unwrap();
    assert!(listed.status.success(), "{}", said(&listed));
}

/// The same for a store that several share, and the directory beside it.
#[test]
fn commands_find_the_shared_store_that_the_file_names() {
    let (redis, dir) = (Redis::start(), Dir::new());
    dir.write("hapax.toml", &format!("[server]\nstore = \"{}\"\ndata = \"beside\"\n", redis.url()));
    let listed = run(dir.path(), &["op", "list"]);
    assert!(listed.status.success() && said(&listed).contains("redis://"), "{}", said(&listed));
    assert!(dir.path().join("beside/secret").is_file() && !dir.path().join("hapax-data").exists());
}

/// A backup of the wrong ledger is found when it is needed.
#[test]
fn whatever_reads_a_directory_finds_it_where_the_file_puts_it() {
    let dir = Dir::new();
    ledger(dir.path(), "elsewhere");
    std::fs::create_dir(dir.path().join("hapax-data")).unwrap();
    dir.write("hapax.toml", "[server]\ndata = \"elsewhere\"\n");
    assert_eq!(json(dir.path(), &["export", "all.hapax", "--json"])["operations"], 1);
    assert_eq!(json(dir.path(), &["import", "all.hapax", "--json"])["new"], 0);
    let verified = json(dir.path(), &["audit", "verify", "--json"]);
    assert_eq!((&verified["file"], &verified["whole"]), (&"elsewhere".into(), &true.into()), "{verified}");
    assert_eq!(json(dir.path(), &["ledger", "check", "--json"])["ids"], 1);
}
