//! The whole command, on a made-up repository with real builds.

use super::*;
use crate::scratch::Scratch;

const LIBRARY: &str = "\
pub fn accepts(token: u64, held: u64) -> bool {
    token == held
}

pub fn unused() -> u64 {
    7
}

#[test]
fn a_foreign_token_is_refused() {
    assert!(!accepts(1, 2), \"a foreign token was accepted\");
}
";

fn repository(canaries: &[(&str, &str)]) -> Scratch {
    let scratch = Scratch::new("canary");
    scratch
        .write("Cargo.toml", "[package]\nname = \"made-up\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n");
    scratch.write("src/lib.rs", LIBRARY);
    for (name, edit) in canaries {
        let head = "story = \"made up\"\ncommand = [\"cargo\", \"test\", \"--offline\", \"--lib\"]\n";
        scratch.write(&format!("canary/{name}.toml"), &format!("{head}{edit}"));
    }
    scratch
}

fn edit(find: &str, replace: &str) -> String {
    format!("[[edit]]\nfile = \"src/lib.rs\"\nfind = {find:?}\nreplace = {replace:?}\n")
}

fn release_all(repo: &Scratch) -> Result<()> {
    let canaries = load(repo.path())?;
    release(repo.path(), &repo.path().join("target/canary"), &canaries)
}

/// Trials in one repository, so that the tiny library is built into one folder.
fn verdicts(repo: &Scratch) -> Vec<(String, Verdict)> {
    let scratch = repo.path().join("target/canary");
    let tree = Tree::sync(repo.path(), &scratch.join("tree")).unwrap();
    let bench = Bench::new(&tree, &scratch).unwrap();
    let canaries = load(repo.path()).unwrap();
    check_clean(&bench, &canaries).unwrap();
    let verdicts = canaries.iter().map(|canary| (canary.name.clone(), bench.try_out(canary).unwrap())).collect();
    // The last bug must not stay in the copy, nor in what cargo takes for its fresh build.
    check_clean(&bench, &canaries).unwrap();
    assert_eq!(tree.read("src/lib.rs").as_deref(), Some(LIBRARY));
    verdicts
}

#[test]
fn bugs_are_found_missed_or_disqualified() {
    let expecting = |what: &str| format!("expect = {what:?}\n{}", edit("token == held", "true"));
    let repo = repository(&[
        ("a-found", &expecting("a foreign token was accepted")),
        ("b-missed", &edit("    7", "    8")),
        ("c-broken", &edit("token == held", "token == \"held\"")),
        ("d-other-reason", &expecting("something else")),
    ]);
    let verdicts = verdicts(&repo);
    let expected = [
        ("a-found".to_owned(), Verdict::Found { by: "a_foreign_token_is_refused".to_owned() }),
        ("b-missed".to_owned(), Verdict::Missed),
        ("c-broken".to_owned(), Verdict::DoesNotBuild),
        ("d-other-reason".to_owned(), Verdict::OtherReason { expected: "something else".to_owned() }),
    ];
    assert_eq!(verdicts, expected);
}

#[test]
fn a_canary_that_sings_unheard_fails_the_command() {
    let repo = repository(&[("found", &edit("token == held", "true"))]);
    release_all(&repo).unwrap();
    repo.write("src/lib.rs", &LIBRARY.replace("#[test]", "#[allow(dead_code)]"));
    let failure = release_all(&repo).unwrap_err();
    assert_eq!(failure.rerun(), Some("cargo xtask canary found"));
}

#[test]
fn a_run_that_fails_without_a_bug_judges_nothing() {
    let repo = repository(&[("found", &edit("token == held", "true"))]);
    repo.write("src/lib.rs", &LIBRARY.replace("assert!(!", "assert!("));
    let failure = release_all(&repo).unwrap_err().to_string();
    assert!(failure.contains("must pass without a planted bug"), "{failure}");
}

#[test]
fn a_stale_canary_stops_before_anything_is_built() {
    let repo = repository(&[("stale", &edit("token != held", "true"))]);
    let failure = release_all(&repo).unwrap_err().to_string();
    assert!(failure.contains("`stale` is stale"), "{failure}");
    assert!(!repo.path().join("target").exists());
}

#[test]
fn a_misspelt_name_is_refused() {
    let repo = repository(&[]);
    assert!(chosen(load(repo.path()).unwrap(), &["tokn"]).is_err());
}
