//! The audit log: what was written is there, and what was changed is named.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops where its premise is wrong")]

use std::{fs, io::Write as _, path::PathBuf};

use hapax_server::audit::{Action, Audit, verify};
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
