//! A check changes nothing, and says what is not there.

use crate::support::{
    Dir,
    command::{fails, ledger, run, said},
};

/// "Mend the disk" was said of a slip in a name; and the home directory that was checked for a ledger had a file `lock` after it.
#[test]
fn a_check_of_what_is_no_ledger_leaves_nothing_there() {
    let dir = Dir::new();
    for command in [&["ledger", "check", "nowhere"][..], &["ledger", "repair", "nowhere", "copy"]] {
        let told = fails(dir.path(), command, 1);
        assert!(told.contains("there is no such directory") && told.contains("[HX0135]"), "{told}");
    }
    std::fs::create_dir(dir.path().join("photos")).unwrap();
    dir.write("photos/one.jpg", "x");
    for command in [&["ledger", "check", "photos"][..], &["ledger", "repair", "photos", "copy"]] {
        let told = fails(dir.path(), command, 1);
        assert!(told.contains("not a ledger") && told.contains("[HX0023]"), "{told}");
    }
    assert_eq!(std::fs::read_dir(dir.path().join("photos")).unwrap().count(), 1, "nothing was made there");
    assert!(!dir.path().join("copy").exists());
}

/// A snapshot of the disk is mounted to be looked at, and cannot be written to. Where this machine lets nobody mount, there is
/// nothing to try.
#[test]
fn a_ledger_on_a_read_only_mount_is_checked() {
    let dir = Dir::new();
    ledger(dir.path(), "d");
    std::fs::remove_file(dir.path().join("d/lock")).unwrap();
    let script = "mount --bind d d && mount -o remount,ro,bind d || exit 77; exec \"$0\" ledger check d";
    let mut command = std::process::Command::new("unshare");
    command.current_dir(dir.path()).args([
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        env!("CARGO_BIN_EXE_hapax"),
    ]);
    let Ok(output) = command.output() else { return };
    let may_not = said(&output).contains("unshare") || output.status.code() == Some(77);
    assert!(may_not || output.status.success(), "{}", said(&output));
    assert!(run(dir.path(), &["ledger", "check", "d"]).status.success());
}
