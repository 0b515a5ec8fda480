//! Operations leave one store and arrive in another: all of them, unchanged, once.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use crate::support::{Dir, stores::ROWS};
use hapax::{Begun, Effect, Hapax, Millis, Outcome, Policy, Preset, Span, identity::Tenant};
use serde_json::Value;

fn run(dir: &Dir, words: &[&str]) -> Output {
    run_in(dir.path(), words)
}

fn run_in(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("HAPAX_")) {
        command.env_remove(name);
    }
    command.current_dir(dir).args(words).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(dir: &Dir, words: &[&str]) -> Value {
    let output = run(dir, words);
    assert!(output.status.success(), "{words:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const DONE: u64 = 300;
/// Longer than what is kept inline, so that it lies beside its record.
const LARGE: usize = 200_000;

/// Finished, kept for ever, out of line, in doubt, under way.
async fn fill(dir: &Dir, data: &str) {
    let ledger = Arc::new(hapax::Ledger::open(dir.path().join(data)).unwrap());
    let forever = Policy { success: Span::Forever, ..Preset::Standard.policy() };
    let engine = Hapax::on(ledger).policy("kept", forever).build().unwrap();
    let tenant = Tenant::new("acme").unwrap();
    let complete = |surface: &'static str, key: u64, body: String| {
        let (engine, tenant) = (engine.clone(), tenant.clone());
        async move {
            let call = engine.surface(surface).tenant(&tenant).key(key).effect(Effect::Irreversible);
            let Ok(Begun::Execute(ticket)) = call.begin().await else { panic!("it is new") };
            assert!(ticket.complete(&engine, Outcome::success(body)).await.unwrap().is_done());
        }
    };
    for number in 0..DONE {
        complete(if number % 3 == 0 { "kept" } else { "payments" }, number, format!("answer {number}")).await;
    }
    complete("payments", 900, "x".repeat(LARGE)).await;
    let doubtful = engine.surface("payments").tenant(&tenant).key(901).effect(Effect::Irreversible);
    let Ok(Begun::Execute(_)) = doubtful.lease(Millis(1)).begin().await else { panic!("it is new") };
    let running = engine.surface("payments").tenant(&tenant).key(902).effect(Effect::Irreversible);
    let Ok(Begun::Execute(_)) = running.lease(Millis::from_hours(1)).begin().await else { panic!("it is new") };
}

async fn look(dir: &Dir, data: &str) {
    let ledger = hapax::Ledger::open(dir.path().join(data)).unwrap();
    look_into(Arc::new(ledger)).await;
}

async fn look_into(store: Arc<dyn hapax::Store>) {
    let engine = Hapax::on(store).build().unwrap();
    let tenant = Tenant::new("acme").unwrap();
    let begin = |surface: &'static str, key: u64| {
        engine.surface(surface).tenant(&tenant).key(key).effect(Effect::Irreversible).wait(hapax::Wait::No).begin()
    };
    for number in 0..DONE {
        let Ok(Begun::Replay(replayed)) = begin(if number % 3 == 0 { "kept" } else { "payments" }, number).await else {
            panic!("{number} was done")
        };
        let hapax::Recorded::Whole(outcome) = &replayed.replay.answer else { panic!("all of it is kept") };
        assert_eq!(outcome.body, hapax::Body::Inline(format!("answer {number}").into()));
    }
    let Ok(Begun::Replay(large)) = begin("payments", 900).await else { panic!("it was done") };
    let hapax::Recorded::Whole(outcome) = &large.replay.answer else { panic!("all of it is kept") };
    assert_eq!(outcome.body, hapax::Body::Inline("x".repeat(LARGE).into()));
    assert!(matches!(begin("payments", 901).await, Ok(Begun::Told(hapax::Verdict::InDoubt { .. }))));
    assert!(matches!(begin("payments", 902).await, Ok(Begun::Told(hapax::Verdict::InFlight { .. }))));
}

/// All arrives: answers, large ones, doubts and what is under way. Said twice, nothing is added; what is there is left.
#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_one_store_arrives_in_the_other_once() {
    let dir = Dir::new();
    fill(&dir, "old").await;
    let exported = json(&dir, &["export", "all.hapax", "--store", "file:old", "--json"]);
    assert_eq!((&exported["operations"], &exported["bodies"]), (&(DONE + 3).into(), &1.into()), "{exported}");
    let again = run(&dir, &["export", "all.hapax", "--store", "file:old"]);
    assert!(said(&again).contains("not overwritten"), "{}", said(&again));
    // Another secret: every fingerprint would be another one.
    let strange = run(&dir, &["import", "all.hapax", "--store", "file:strange"]);
    assert!(!strange.status.success() && said(&strange).contains("HX0142"), "{}", said(&strange));
    std::fs::create_dir(dir.path().join("new")).unwrap();
    std::fs::copy(dir.path().join("old/secret"), dir.path().join("new/secret")).unwrap();
    let imported = json(&dir, &["import", "all.hapax", "--store", "file:new", "--json"]);
    assert_eq!(imported["new"], DONE + 3, "{imported}");
    look(&dir, "new").await;
    let imported = json(&dir, &["import", "all.hapax", "--store", "file:new", "--json"]);
    assert_eq!(
        (&imported["new"], imported["same"].as_u64().unwrap() + imported["kept"].as_u64().unwrap()),
        (&0.into(), DONE + 3)
    );
    look(&dir, "new").await;
    let rows = said(&run(&dir, &["audit", "tail", "--data", "new"]));
    assert!(rows.contains("import") && rows.contains("all.hapax"), "{rows}");
    // And the way back holds what the way there held.
    let back = json(&dir, &["export", "back.hapax", "--store", "file:new", "--json"]);
    assert_eq!(back["operations"], DONE + 3);
}

/// From the ledger of one machine to the server that several share, from there back, and nothing is lost on the way.
#[tokio::test(flavor = "multi_thread")]
async fn operations_move_between_a_file_and_every_shared_store() {
    let dir = Dir::new();
    fill(&dir, "old").await;
    json(&dir, &["export", "all.hapax", "--store", "file:old", "--json"]);
    for row in &ROWS {
        let server = (row.sound)();
        let (url, beside, back) = (server.url(), format!("beside-{}", row.name), format!("back-{}", row.name));
        for data in [&beside, &back] {
            std::fs::create_dir(dir.path().join(data)).unwrap();
            std::fs::copy(dir.path().join("old/secret"), dir.path().join(data).join("secret")).unwrap();
        }
        let shared = ["--store", &url, "--data", &beside, "--json"];
        let imported = json(&dir, &[&["import", "all.hapax"], &shared[..]].concat());
        assert_eq!(imported["new"], DONE + 3, "{}: {imported}", row.name);
        look_into(hapax::open_store(&url).await.unwrap()).await;
        let file = format!("{}.hapax", row.name);
        let exported = json(&dir, &[&["export", &file], &shared[..]].concat());
        let counted = (&exported["operations"], &exported["bodies"], &exported["left_out"]);
        assert_eq!(counted, (&(DONE + 3).into(), &1.into(), &0.into()), "{}: {exported}", row.name);
        let imported = json(&dir, &["import", &file, "--store", &format!("file:{back}"), "--json"]);
        assert_eq!(imported["new"], DONE + 3, "{}: {imported}", row.name);
        look(&dir, &back).await;
    }
}

/// Somebody goes on writing: what was exported would be of no one moment, so nothing is, and the command says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_in_use_is_not_exported() {
    let dir = Dir::new();
    let server = hapax_testkit::Redis::start();
    let engine = Hapax::on(hapax::open_store(&server.url()).await.unwrap()).build().unwrap();
    let tenant = Tenant::new("acme").unwrap();
    let complete = |key: u64| {
        let call = engine.surface("payments").tenant(&tenant).key(key).effect(Effect::Unsafe);
        async {
            let Ok(Begun::Execute(ticket)) = call.begin().await else { panic!("it is new") };
            assert!(ticket.complete(&engine, Outcome::success("done")).await.unwrap().is_done());
        }
    };
    for key in 0..2_000 {
        complete(key).await;
    }
    let (place, url) = (dir.path().to_owned(), server.url());
    let exporting = tokio::task::spawn_blocking(move || run_in(&place, &["export", "all.hapax", "--store", &url]));
    let mut key = 2_000;
    while !exporting.is_finished() {
        complete(key).await;
        key += 1;
    }
    let exported = exporting.await.unwrap();
    assert_eq!(exported.status.code(), Some(1), "{}", said(&exported));
    assert!(
        said(&exported).contains("somebody writes to it") && said(&exported).contains("HX0142"),
        "{}",
        said(&exported)
    );
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["hapax-data"], "half an export is none");
}

/// A decision that was taken in the new store must outlive an import of the old state.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_never_overwrites_what_happened_since() {
    let dir = Dir::new();
    fill(&dir, "data").await;
    json(&dir, &["export", "then.hapax", "--store", "file:data", "--json"]);
    let doubts = json(&dir, &["doubt", "list", "--data", "data", "--json"]);
    let id = doubts["items"][0]["operation"].as_str().unwrap();
    let decided =
        run(&dir, &["doubt", "resolve", id, "committed", "--reason", "seen", "--body", "paid", "--data", "data"]);
    assert!(decided.status.success(), "{}", said(&decided));
    let imported = json(&dir, &["import", "then.hapax", "--store", "file:data", "--json"]);
    assert_eq!((&imported["new"], &imported["kept"]), (&0.into(), &1.into()), "{imported}");
    let known = json(&dir, &["explain", id, "--data", "data", "--json"]);
    assert_eq!(known["state"], "committed");
}

/// One byte of the file is changed, a line is lost, its end is cut off: it is refused whole, and the line is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_refused_whole_and_its_line_named() {
    let dir = Dir::new();
    fill(&dir, "data").await;
    json(&dir, &["export", "good.hapax", "--store", "file:data", "--json"]);
    let good = std::fs::read(dir.path().join("good.hapax")).unwrap();
    let lines: Vec<&[u8]> = good.split_inclusive(|byte| *byte == b'\n').collect();
    let flipped = |line: usize| {
        let mut all: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        let middle = all[line - 1].len() / 2;
        all[line - 1][middle] ^= 1;
        all.concat()
    };
    let cut = lines[..lines.len() - 1].concat();
    let mut lost = lines.clone();
    lost.remove(6);
    for (bytes, line) in [
        (flipped(1), 1),
        (flipped(40), 40),
        (flipped(lines.len()), lines.len()),
        (lost.concat(), 7),
        (cut, lines.len()),
    ] {
        std::fs::write(dir.path().join("bad.hapax"), bytes).unwrap();
        let refused = run(&dir, &["import", "bad.hapax", "--store", "file:other"]);
        assert_eq!(refused.status.code(), Some(8), "{}", said(&refused));
        assert!(said(&refused).contains(&format!("line {line}:")), "line {line}: {}", said(&refused));
        assert!(!dir.path().join("other").exists(), "nothing was begun");
    }
    let checked = run(&dir, &["import", "good.hapax", "--check"]);
    assert!(checked.status.success() && said(&checked).contains("303 operations"), "{}", said(&checked));
}

/// The self-measurement ends with one JSON object, and leaves nothing behind.
#[test]
fn the_bench_says_what_this_machine_does_and_leaves_nothing() {
    let dir = Dir::new();
    let output = run(&dir, &["bench", "--seconds", "1"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    for case in ["pairs@1", "pairs@16", "pairs@64", "replays@1"] {
        assert!(told["cases"][case]["per_second"].as_f64().unwrap() > 0.0, "{told}");
        assert_eq!(told["cases"][case]["failed"], 0, "{told}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
