//! `profile/rustc`, asked as cargo asks it: the compiler that it starts here says what it was told.

use std::path::Path;
use std::process::{Command, Output};

use super::PROFILE;
use crate::scratch::Scratch;

const RELEASE: [&str; 6] = ["--crate-name", "it_is", "-C", "opt-level=3", "-C", "metadata=0123456789abcdef"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A workspace in a folder whose name has a space in it, as some have.
fn workspace(profile: bool) -> Scratch {
    let place = Scratch::new("a profile");
    std::fs::create_dir_all(place.path().join("profile")).unwrap();
    // A copy could not be run while another thread, about to start something, still has it open for writing.
    std::os::unix::fs::symlink(root().join("profile/rustc"), place.path().join("profile/rustc")).unwrap();
    if profile {
        place.write(PROFILE, "counts");
    }
    place
}

fn asked(place: &Scratch, how: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(place.path().join("profile/rustc"));
    command.env_remove("HAPAX_PROFILE").env_remove("HAPAX_PROFILE_TO");
    command.env("CARGO_PKG_NAME", "it-is").env("CARGO_CRATE_NAME", "it_is").env("CARGO_PKG_VERSION", "1.2.3");
    if let Some(how) = how {
        command.env("HAPAX_PROFILE", how).env("HAPAX_PROFILE_TO", "/some where");
    }
    command.args(["printf", "%s\\n"]).args(arguments).output().unwrap()
}

fn told(place: &Scratch, how: Option<&str>, arguments: &[&str]) -> Vec<String> {
    let output = asked(place, how, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_release_is_compiled_with_the_profile() {
    let place = workspace(true);
    let told = told(&place, None, &RELEASE);
    let profile = place.path().canonicalize().unwrap().join(PROFILE);
    let profile = format!("-Cprofile-use={}", profile.display());
    assert_eq!(told[..4], RELEASE[..4]);
    assert_eq!(told[6..], [profile.as_str(), "-Cllvm-args=-no-pgo-warn-mismatch"]);
}

/// Features of other packages are part of the name that cargo gives, and with them the profile would fit one set of packages only.
#[test]
fn names_do_not_hang_on_what_else_is_built() {
    for how in [None, Some("off"), Some("record")] {
        assert_eq!(told(&workspace(true), how, &RELEASE)[5], "metadata=it-is-it_is-1.2.3");
    }
}

/// A dependency may have that name, too.
#[test]
fn only_the_name_is_another() {
    let asked = ["-C", "opt-level=3", "--extern", "metadata=/some where/lib.rlib", ""];
    assert_eq!(told(&workspace(false), None, &asked), asked);
}

/// Else all of it would be compiled as ever, and nobody would notice.
#[test]
fn cargo_asks_it() {
    let settings = std::fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
    assert!(settings.contains("\nrustc-wrapper = \"profile/rustc\"\n"), "{settings}");
    assert!(root().join(PROFILE).exists());
}

#[test]
fn whatever_is_no_release_is_compiled_as_cargo_says() {
    for told_by_cargo in [&["-vV"][..], &["-C", "opt-level=1", "-C", "metadata=0123456789abcdef"]] {
        assert_eq!(told(&workspace(true), None, told_by_cargo), told_by_cargo);
    }
}

#[test]
fn without_a_profile_a_release_is_compiled_all_the_same() {
    assert_eq!(told(&workspace(false), None, &RELEASE).len(), RELEASE.len());
    assert_eq!(told(&workspace(true), Some("off"), &RELEASE).len(), RELEASE.len());
}

#[test]
fn what_records_is_told_where_to() {
    let told = told(&workspace(true), Some("record"), &RELEASE);
    assert_eq!(told[6..], ["-Cprofile-generate=/some where"]);
}

#[test]
fn an_unknown_wish_is_refused_and_named() {
    let refused = asked(&workspace(true), Some("of"), &RELEASE);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("`of`") && said.contains("`off`"), "{said}");
}
