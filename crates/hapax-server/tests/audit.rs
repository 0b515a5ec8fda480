//! The audit log: what was written is there, and what was changed is named.

use std::{fs, io::Write as _, path::PathBuf};

use hapax_server::audit::{Action, Audit, AuditOptions, verify};
use serde_json::json;

/// A directory of this test's own, gone with it.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-audit-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn filled(dir: &Dir, rows: u64) {
    let (audit, _) = Audit::open(&dir.0).unwrap();
    for n in 0..rows {
        audit.append("ann", Action::Resolve, &format!("op-{n}"), json!({ "reason": "because" })).unwrap();
    }
    audit.checkpoint().unwrap();
}

#[test]
fn a_chain_of_several_lives_is_whole_and_signed() {
    let dir = Dir::new("lives");
    for _ in 0..3 {
        filled(&dir, 100);
    }
    let whole = verify(&Audit::path_in(&dir.0), None).unwrap().unwrap();
    // A row to begin with, 300 rows, and for each life one checkpoint on the way and one at its end.
    assert_eq!((whole.rows, whole.checkpoints), (307, 6));
    assert_eq!(whole.signed_up_to, whole.rows - 1);
    assert!(verify(&Audit::path_in(&dir.0), Some(&whole.key)).unwrap().is_ok());
    let other = verify(&Audit::path_in(&dir.0), Some(&"00".repeat(32))).unwrap().unwrap_err();
    assert_eq!(other.row, 1);
}

/// Whatever byte is changed, the row that holds it is the one that is named.
#[test]
fn a_changed_byte_is_named_by_its_row() {
    let dir = Dir::new("changed");
    filled(&dir, 20);
    let path = Audit::path_in(&dir.0);
    let good = fs::read(&path).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 0x01;
        fs::write(&path, &bad).unwrap();
        let row = good[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let named = match verify(&path, None).unwrap() {
            Err(named) => named,
            // The last line feed is all that makes the last row one.
            Ok(whole) => {
                assert!(whole.torn > 0, "byte {at} was changed and nobody noticed");
                continue;
            }
        };
        // A line feed that is gone joins two rows: the first of them is named.
        assert_eq!(named.row, row, "byte {at}");
        if good[at] != b'\n' {
            assert!(Audit::open(&dir.0).is_err(), "a start does not go on with a chain that was changed");
        }
    }
}

/// Rows removed, doubled or swapped: every hash is right by itself, and the chain is not.
#[test]
fn rows_taken_out_or_moved_are_noticed() {
    let dir = Dir::new("moved");
    filled(&dir, 5);
    let path = Audit::path_in(&dir.0);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let write = |lines: &[&str]| fs::write(&path, lines.join("\n") + "\n").unwrap();
    let mut without = lines.clone();
    without.remove(2);
    write(&without);
    assert_eq!(verify(&path, None).unwrap().unwrap_err().row, 3);
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    write(&swapped);
    assert_eq!(verify(&path, None).unwrap().unwrap_err().row, 3);
    let mut doubled = lines.clone();
    doubled.insert(2, lines[2]);
    write(&doubled);
    assert_eq!(verify(&path, None).unwrap().unwrap_err().row, 4);
}

/// Somebody who can write the file, but not sign, changes a row and rebuilds the chain from there on, with the hashes all
/// right: the checkpoint tells.
#[test]
fn a_chain_rebuilt_without_the_key_fails_at_the_checkpoint() {
    let dir = Dir::new("victim");
    filled(&dir, 5);
    let path = Audit::path_in(&dir.0);
    let text = fs::read_to_string(&path).unwrap();
    let mut prev = String::new();
    let mut rebuilt = String::new();
    for (at, line) in text.lines().enumerate() {
        let mut json = line[65..].to_owned();
        if at > 0 {
            // The row before was changed, so this one has to name its new hash.
            let (before, _) = json.split_once("\"prev\":\"").unwrap();
            json = format!("{before}\"prev\":\"{prev}\"}}");
        }
        if at == 3 {
            json = json.replace("because", "of nothing");
        }
        prev = hash_of(&json);
        rebuilt.push_str(&format!("{prev} {json}\n"));
    }
    assert_ne!(rebuilt, text);
    fs::write(&path, &rebuilt).unwrap();
    let named = verify(&path, None).unwrap().unwrap_err();
    assert_eq!((named.row, named.what.as_str()), (7, "its signature does not fit"));
    assert!(Audit::open(&dir.0).unwrap_err().to_string().contains("its signature does not fit"));
    // As it was, it is whole: the hashes here are made as the log makes them.
    fs::write(&path, rebuilt.replace("of nothing", "because")).unwrap();
    assert_eq!(verify(&path, None).unwrap().unwrap_err().what, "the row does not match its hash");
    fs::write(&path, &text).unwrap();
    assert!(verify(&path, None).unwrap().is_ok());
}

fn hash_of(json: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let hash = Sha256::new().chain_update(b"hapax.audit.v1\0").chain_update(json.as_bytes()).finalize();
    data_encoding::HEXLOWER.encode(&hash)
}

/// A whole chain of another key: the key beside it, or one noted elsewhere, does not fit.
#[test]
fn a_chain_of_another_key_is_not_gone_on_with() {
    let (dir, forger) = (Dir::new("named"), Dir::new("forger"));
    filled(&dir, 5);
    let (forged, _) = Audit::open(&forger.0).unwrap();
    forged.append("ann", Action::Resolve, "another", json!({})).unwrap();
    forged.checkpoint().unwrap();
    let theirs = fs::read_to_string(Audit::path_in(&forger.0)).unwrap();
    fs::write(Audit::path_in(&dir.0), theirs).unwrap();
    assert!(Audit::open(&dir.0).unwrap_err().to_string().contains("another key"));
}

/// The process was killed in the middle of a row: the rest is cut off, and that is said.
#[test]
fn a_torn_end_is_cut_off_and_said() {
    let dir = Dir::new("torn");
    filled(&dir, 3);
    let path = Audit::path_in(&dir.0);
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in [1, 30, 70, whole.len() - last - 1] {
        fs::write(&path, &whole[..last]).unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&whole[last..last + cut]).unwrap();
        drop(file);
        assert_eq!(verify(&path, None).unwrap().unwrap().torn, cut as u64);
        let (audit, opened) = Audit::open(&dir.0).unwrap();
        assert_eq!(opened.cut, cut as u64);
        let tail = audit.tail(1);
        assert_eq!((tail[0].action, &tail[0].detail["bytes"]), (Action::TornTail, &json!(cut)));
        assert!(verify(&path, None).unwrap().is_ok());
    }
}

const SMALL: AuditOptions = AuditOptions { file_bytes: 4096, keep: None };

/// A chain over several files and lives.
fn turned(dir: &Dir) {
    for _ in 0..3 {
        let (audit, _) = Audit::open_with(&dir.0, SMALL).unwrap();
        for n in 0..40 {
            audit.append("ann", Action::Resolve, &format!("op-{n}"), json!({ "reason": "because" })).unwrap();
        }
    }
}

fn closed(dir: &Dir) -> Vec<PathBuf> {
    let names = fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().path());
    let is_closed = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("audit-");
    let mut names: Vec<PathBuf> = names.filter(is_closed).collect();
    names.sort();
    names
}

/// The log is turned over, again and again: the chain goes on over the files, and each can be proved by itself.
#[test]
fn a_chain_goes_on_from_file_to_file() {
    let dir = Dir::new("turned");
    turned(&dir);
    let files = closed(&dir);
    assert!(files.len() > 5, "{files:?}");
    let whole = verify(&dir.0, None).unwrap().unwrap();
    assert_eq!((whole.first, whole.files), (1, files.len() + 1));
    assert!(whole.rows > 120);
    for file in &files {
        assert!(fs::metadata(file).unwrap().len() < 8192);
        let one = verify(file, Some(&whole.key)).unwrap().unwrap();
        assert_eq!(one.signed_up_to, one.rows - 1, "it was signed when it was closed");
    }
    let (audit, _) = Audit::open_with(&dir.0, SMALL).unwrap();
    let in_this_file = fs::read_to_string(Audit::path_in(&dir.0)).unwrap().lines().count();
    assert!(audit.tail(256).len() > in_this_file, "those who look see rows of the file before too");
}

/// Whatever byte of whatever file is changed, its file and row are named; and a file that is missing is missed.
#[test]
fn a_changed_byte_and_a_missing_file_are_named_across_files() {
    let dir = Dir::new("turned-changed");
    turned(&dir);
    let files = closed(&dir);
    for file in [&files[0], &files[2], files.last().unwrap()] {
        let good = fs::read(file).unwrap();
        for at in (0..good.len()).step_by(97) {
            let mut bad = good.clone();
            bad[at] ^= 0x01;
            fs::write(file, &bad).unwrap();
            let named = verify(&dir.0, None).unwrap().unwrap_err();
            let begins = good[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last as u64 + 1);
            assert_eq!((&named.file, named.offset), (file, begins), "byte {at}");
            assert!(named.to_string().contains("audit-0000"), "{named}");
        }
        fs::write(file, &good).unwrap();
        // Cut short at a row's end: every row is right by itself, and the next file does not follow.
        let short = good[..good.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        fs::write(file, &good[..short]).unwrap();
        assert!(verify(&dir.0, None).unwrap().unwrap_err().what.contains("it says that it is row"));
        fs::write(file, &good).unwrap();
        let aside = dir.0.join("aside");
        fs::rename(file, &aside).unwrap();
        let named = verify(&dir.0, None).unwrap().unwrap_err();
        assert!(named.what.contains("it says that it is row") || named.what.contains("are gone"), "{named}");
        fs::rename(&aside, file).unwrap();
    }
    assert!(verify(&dir.0, None).unwrap().is_ok());
    // A start looks at the end of the file before it: what grows must follow it.
    let last = files.last().unwrap();
    let good = fs::read(last).unwrap();
    let short = good[..good.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(last, &good[..short]).unwrap();
    assert!(Audit::open_with(&dir.0, SMALL).unwrap_err().to_string().contains("does not follow row"));
}

/// The process is killed in the middle of a turn, at each of its steps: nothing that was written is lost, and it goes on.
#[test]
fn a_crash_while_the_file_is_turned_loses_no_row() {
    let dir = Dir::new("turn-killed");
    turned(&dir);
    let before = verify(&dir.0, None).unwrap().unwrap();
    let (active, next) = (Audit::path_in(&dir.0), dir.0.join("audit.log.new"));
    let first = || {
        let text = fs::read_to_string(&active).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text.lines().next().unwrap()[65..]).unwrap();
        json["n"].as_u64().unwrap()
    };
    // The next file was begun and not yet whole; then the first was closed and the next not yet in its place.
    fs::write(&next, "half a row").unwrap();
    let whole_again = |before: u64| {
        let (audit, _) = Audit::open_with(&dir.0, SMALL).unwrap();
        assert!(audit.rows() >= before, "{} of {before}", audit.rows());
        audit.append("ann", Action::Resolve, "after", json!({})).unwrap();
        drop(audit);
        assert!(!next.exists());
        verify(&dir.0, None).unwrap().unwrap().rows
    };
    let rows = whole_again(before.rows);
    fs::rename(&active, &next).unwrap();
    assert_eq!(verify(&dir.0, None).unwrap().unwrap().rows, rows);
    let rows = whole_again(rows);
    fs::rename(&active, dir.0.join(format!("audit-{:012}.log", first()))).unwrap();
    assert_eq!(verify(&dir.0, None).unwrap().unwrap().rows, rows);
    whole_again(rows);
}

/// Rows that were kept long enough go, and a signed row says so. Files that somebody else takes away are missed.
#[test]
fn what_is_let_go_is_said_and_what_is_taken_is_missed() {
    let dir = Dir::new("let-go");
    turned(&dir);
    let all = closed(&dir).len();
    let keep = AuditOptions { keep: Some(std::time::Duration::from_millis(1)), ..SMALL };
    // The newest of them may be younger than a millisecond on a fast machine.
    while closed(&dir).len() > 1 {
        let (audit, _) = Audit::open_with(&dir.0, keep.clone()).unwrap();
        audit.let_go().unwrap();
    }
    assert!(closed(&dir).len() < all);
    let whole = verify(&dir.0, None).unwrap().unwrap();
    assert!(whole.first > 1 && whole.rows > 120, "{whole:?}");
    turned(&dir);
    assert!(verify(&dir.0, None).unwrap().is_ok());
    let oldest = closed(&dir).remove(0);
    let second = closed(&dir).remove(1);
    fs::remove_file(&oldest).unwrap();
    let named = verify(&dir.0, None).unwrap().unwrap_err();
    assert!(named.what.contains("are gone, and no row says"), "{named}");
    assert_eq!(named.file, second);
}

/// Two writers, each at the end that it knows: the later wrote over the rows of the earlier, and the chain that was left was
/// whole. The second is refused for as long as the first is there, also after the first has gone on in another file.
#[test]
fn a_chain_has_one_writer() {
    let dir = Dir::new("writers");
    let (first, _) = Audit::open_with(&dir.0, SMALL).unwrap();
    assert!(Audit::open(&dir.0).unwrap_err().to_string().contains("another process"));
    for n in 0..40 {
        first.append("ann", Action::Resolve, &format!("op-{n}"), json!({})).unwrap();
    }
    assert!(!closed(&dir).is_empty());
    assert!(Audit::open(&dir.0).unwrap_err().to_string().contains("another process"));
    let rows = first.rows();
    drop(first);
    assert_eq!(Audit::open(&dir.0).unwrap().1.rows, rows);
    assert!(verify(&dir.0, None).unwrap().is_ok());
}
