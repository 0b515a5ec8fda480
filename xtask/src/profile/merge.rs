//! From what was recorded to what a compiler reads.

use std::path::{Path, PathBuf};

use super::{FUNCTIONS, PROFILE};
use crate::failure::{Failure, Result, While};
use crate::{process, servers};

/// How many of the functions that were busiest are named, to tell later whether a profile still fits.
const NAMED: &str = "400";

/// `llvm-profdata`: the toolchain's own, or Debian's. Either reads what the compiler's runtime wrote, or says that it cannot.
pub(super) fn tool(root: &Path) -> Result<String> {
    if let Some(tool) = found(root) {
        return Ok(tool);
    }
    servers::apt(root, &["llvm-19"])?;
    found(root).ok_or_else(|| Failure::new("there is no llvm-profdata; `rustup component add llvm-tools` brings one"))
}

fn found(root: &Path) -> Option<String> {
    let sysroot = process::capture(root, &["rustc", "--print", "sysroot"]).ok()?;
    let own = below(&Path::new(sysroot.trim()).join("lib/rustlib"), "bin/llvm-profdata");
    let debian = below(Path::new("/usr/lib"), "bin/llvm-profdata").into_iter().filter(|tool| version(tool) >= Some(19));
    let newest = own.into_iter().next().or_else(|| debian.max_by_key(|tool| version(tool)));
    newest.map(|tool| tool.display().to_string())
}

/// `FOLDER/*/REST`, where it is there.
fn below(folder: &Path, rest: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(std::result::Result::ok);
    entries.map(|entry| entry.path().join(rest)).filter(|path| path.exists()).collect()
}

/// As Debian's folders have it: `/usr/lib/llvm-19/bin/…`.
fn version(tool: &Path) -> Option<u32> {
    let folder = tool.ancestors().nth(2)?.file_name()?.to_str()?;
    folder.strip_prefix("llvm-")?.parse().ok()
}

/// Functions that did nothing are left out: what was not seen at work is compiled as ever, and not as if it never were.
pub(super) fn merge(root: &Path, tool: &str, recorded: &Path) -> Result<()> {
    let merged = recorded.with_extension("profdata");
    let (from, to) = (recorded.display().to_string(), merged.display().to_string());
    process::run(root, &[tool, "merge", "--sparse", "-o", &to, &from])?;
    let shown = process::capture(root, &[tool, "show", "--topn", NAMED, &to])?;
    keep(root, &merged, &busiest(&shown))
}

/// In the place of the one before, which stays where this one is not whole.
fn keep(root: &Path, merged: &Path, names: &[String]) -> Result<()> {
    if let Some(missing) = missing(names) {
        let why = format!(
            "nothing of {missing} was recorded: whoever ran it was ended before it could write down what it did"
        );
        return Err(Failure::new(why));
    }
    std::fs::copy(merged, root.join(PROFILE)).while_doing(|| format!("cannot write {PROFILE}"))?;
    std::fs::write(root.join(FUNCTIONS), names.join("\n") + "\n")
        .while_doing(|| format!("cannot write {FUNCTIONS}"))?;
    println!("{PROFILE} is new, {} of its functions are named in {FUNCTIONS}", names.len());
    Ok(())
}

/// What both kinds of work go through, or one of them.
const BUSY: [&str; 4] = ["hapax_gateway", "hapax_server", "hapax_engine", "hapax_ledger"];

fn missing(names: &[String]) -> Option<&'static str> {
    BUSY.into_iter().find(|part| !names.iter().any(|name| name.contains(part)))
}

/// The names in `  unit;name, max count = 7`, in an order that does not change with the counts.
fn busiest(shown: &str) -> Vec<String> {
    let name = |line: &str| {
        let (place, _) = line.trim().split_once(", max count = ")?;
        Some(place.rsplit(';').next().unwrap_or(place).to_owned())
    };
    let mut names: Vec<String> = shown.lines().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_without_the_unit_they_were_compiled_in() {
        let shown = "Total functions: 3\nTop 2 functions with the largest internal block counts: \n  \
                     hyper.9d-cgu.0;_ZN8smallvec4fromE, max count = 98\n  _ZN4http5valueE, max count = 46\n";
        assert_eq!(busiest(shown), ["_ZN4http5valueE", "_ZN8smallvec4fromE"]);
    }

    #[test]
    fn a_server_that_was_killed_is_missed_and_the_profile_before_stays() {
        let place = crate::scratch::Scratch::new("profile-merge");
        place.write(PROFILE, "before");
        place.write("merged", "after");
        let names = BUSY.map(|part| format!("_ZN13{part}3runE"));
        let kept =
            |names| keep(place.path(), &place.path().join("merged"), names).map_err(|failure| failure.to_string());
        let there = || std::fs::read_to_string(place.path().join(PROFILE)).unwrap();
        assert!(kept(&names[..3]).unwrap_err().contains(BUSY[3]));
        assert_eq!(there(), "before");
        kept(&names).unwrap();
        assert_eq!(there(), "after");
    }

    #[test]
    fn debians_newest_is_known_by_its_folder() {
        assert_eq!(version(Path::new("/usr/lib/llvm-19/bin/llvm-profdata")), Some(19));
        assert_eq!(version(Path::new("/usr/lib/x86_64-linux-gnu/bin/llvm-profdata")), None);
    }
}
