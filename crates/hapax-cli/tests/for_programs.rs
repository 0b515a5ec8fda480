//! `--json` is honoured wherever it is taken.

use std::path::Path;

use hapax_testkit::Redis;

use crate::support::{
    Daemon, Dir,
    command::{json, ledger, run, said},
};

/// One document, and this exit code.
fn refused(dir: &Path, words: &[&str], code: i32) -> serde_json::Value {
    let output = run(dir, words);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{words:?}: {}", said(&output)))
}

/// For programs: also what is only looked at.
#[test]
fn a_check_and_a_new_key_speak_json_where_it_is_asked_for() {
    let dir = Dir::new();
    ledger(dir.path(), "hapax-data");
    json(dir.path(), &["export", "all.hapax", "--json"]);
    let checked = json(dir.path(), &["import", "all.hapax", "--check", "--json"]);
    assert_eq!((&checked["whole"], &checked["operations"]), (&true.into(), &1.into()), "{checked}");
    let made = run(dir.path(), &["key", "new", "ops", "--tenant", "acme", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap_or_else(|_| panic!("{}", said(&made)));
    assert_eq!((&told["entry"]["name"], &told["entry"]["tenant"]), (&"ops".into(), &"acme".into()), "{told}");
    assert!(told["key"].is_string() && told["entry"]["hash"].as_str().unwrap().starts_with("sha256:"), "{told}");
}

/// A script asked for JSON, was refused, and read nothing: which operation it was, and when to come again, stood in words on
/// the other stream or nowhere.
#[test]
fn a_refusal_is_a_document_too() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("hapax-data")).unwrap();
    let begin = |key: &'static str, more: &[&'static str]| {
        [&["op", "begin", "payments", key, "--tenant", "acme", "--effect", "irreversible", "--json"], more].concat()
    };
    let first = json(dir.path(), &begin("k1", &["--request", "{\"cents\":1}"]));
    let operation = first["operation"].as_str().unwrap();

    let told = refused(dir.path(), &begin("k1", &["--request", "{\"cents\":1}", "--wait-ms", "0"]), 4);
    assert_eq!((&told["code"], &told["operation"]), (&"HX0004".into(), &operation.into()), "{told}");
    assert!(told["retry_after_ms"].is_u64() && told["status"].is_u64() && told["title"].is_string(), "{told}");
    assert!(told["type"].as_str().unwrap().ends_with("HX0004.md") && told["detail"].is_string(), "{told}");
    let told = refused(dir.path(), &begin("k1", &["--request", "{\"cents\":2}"]), 5);
    assert_eq!((&told["code"], &told["next_action"]), (&"HX0005".into(), &"new_key".into()), "{told}");

    json(
        dir.path(),
        &["op", "fail", operation, first["token"].as_str().unwrap(), "--tenant", "acme", "--unknown", "--json"],
    );
    let told = refused(dir.path(), &begin("k1", &["--request", "{\"cents\":1}"]), 6);
    assert_eq!((&told["code"], &told["operation"]), (&"HX0006".into(), &operation.into()), "{told}");
    assert_eq!(told["new_key_is_safe"], false, "{told}");
    let told = refused(dir.path(), &["explain", "nothing", "--tenant", "acme", "--surface", "payments", "--json"], 7);
    assert_eq!((&told["code"], &told["status"]), (&"HX0010".into(), &404.into()), "{told}");

    // Whoever has to decide it needs to know what.
    let words = begin("k1", &["--request", "{\"cents\":1}"]);
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--json").collect();
    let output = run(dir.path(), &words);
    assert!(output.stdout.is_empty() && said(&output).contains(operation), "{}", said(&output));
    assert!(said(&output).trim_end().ends_with("[HX0006]"), "{}", said(&output));
}

/// What the command itself cannot do is said in the same form, without a status: there was no answer.
#[test]
fn a_failure_of_the_command_is_a_document_too() {
    let dir = Dir::new();
    let told = refused(dir.path(), &["op", "list", "--data", "nowhere", "--json"], 1);
    assert_eq!((&told["code"], &told["exit_code"]), (&"HX0135".into(), &1.into()), "{told}");
    assert!(told["title"].as_str().unwrap().contains("could not be done"), "{told}");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("nowhere") && !detail.contains("[HX"), "{told}");
    let told = refused(dir.path(), &["op", "list", "--url", "http://127.0.0.1:1", "--json"], 1);
    assert_eq!((&told["code"], &told["exit_code"]), (&serde_json::Value::Null, &1.into()), "{told}");
    let told = refused(dir.path(), &["verify", "--store", "redis://127.0.0.1:1/", "--json"], 1);
    assert_eq!(told["code"], "HX0131", "{told}");
    let told = refused(dir.path(), &["op", "begin", "jobs", "k", "--request", "{", "--json"], 2);
    assert_eq!((&told["code"], &told["exit_code"]), (&"HX0050".into(), &2.into()), "{told}");
    let told = refused(dir.path(), &["op", "lst", "--json"], 2);
    assert!(told["exit_code"] == 2 && told["detail"].as_str().unwrap().contains("lst"), "{told}");

    dir.write("bad.toml", "[surface.payments]\nleese = \"5s\"\n");
    let told = refused(dir.path(), &["policy", "check", "bad.toml", "--json"], 2);
    assert_eq!((&told["usable"], &told["code"]), (&false.into(), &"HX0030".into()), "{told}");
    assert!(told["detail"].as_str().unwrap().contains("leese"), "{told}");
}

/// A report that finds something wrong is the document; a second one behind it would be one too many for whoever reads one.
#[test]
fn a_report_stays_alone() {
    let dir = Dir::new();
    dir.write("a.toml", "[surface.payments]\nlease = \"5s\"\n");
    dir.write("b.toml", "[surface.payments]\nlease = \"6s\"\n");
    let told = refused(dir.path(), &["policy", "diff", "a.toml", "b.toml", "--json"], 9);
    assert_eq!(told["differences"].as_array().unwrap().len(), 1, "{told}");
}

/// The store is gone: that is no refusal, and whoever waits for it is told how long.
#[test]
fn a_store_that_is_gone_is_a_document_and_code_1() {
    let (mut redis, dir) = (Redis::durable_with(&[]), Dir::new());
    let daemon = Daemon::start(&dir, &["--store", &redis.url()]);
    let url = daemon.url("hapax serve on").unwrap();
    redis.kill();
    let told = refused(dir.path(), &["op", "begin", "jobs", "k", "--url", &url, "--json"], 1);
    assert_eq!((&told["code"], &told["status"]), (&"HX0008".into(), &503.into()), "{told}");
    assert!(told["retry_after_ms"].is_u64(), "{told}");
}
