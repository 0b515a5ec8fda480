//! Whether the profile is of this program at all: functions are found in it by their names, which change with the compiler, with the version of
//! a package, and with what a function takes. That the inside of one has changed does not show in its name.

use std::path::Path;

use super::{FUNCTIONS, PROFILE};
use crate::failure::Result;
use crate::metadata::Metadata;

/// What to say before a release is measured whose profile was for another program.
pub(crate) fn notice(root: &Path) -> Result<Option<String>> {
    let program = Path::new(&Metadata::load_members(root)?.target).join("release/hapax");
    let named = std::fs::read_to_string(root.join(FUNCTIONS));
    let (Ok(program), Ok(named)) = (std::fs::read(program), named) else { return Ok(None) };
    Ok(misfit(&program, &named))
}

fn misfit(program: &[u8], named: &str) -> Option<String> {
    let (found, all) = found(program, named);
    (2 * found < all).then(|| {
        format!(
            "{PROFILE} was recorded of another program, or dependencies were built without it: {found} of the {all} functions \
             that were busiest then are in this one. `cargo clean --release` builds all of them again; if that does not help, \
             `cargo xtask profile` records another"
        )
    })
}

/// How many of the names are in the program, and how many there are. The compiler may have put a function into all of its callers, so some
/// are missing always.
fn found(program: &[u8], named: &str) -> (usize, usize) {
    let names: Vec<&str> = named.lines().filter(|name| !name.is_empty()).collect();
    let symbols = symbols(program);
    (names.iter().filter(|name| symbols.contains(name.as_bytes())).count(), names.len())
}

/// Everything between two zeros that could be a name: a table of symbols is made of that. What comes behind `.llvm.` tells apart what several units have.
fn symbols(program: &[u8]) -> std::collections::HashSet<&[u8]> {
    let names = program.split(|byte| *byte == 0).filter(|piece| piece.starts_with(b"_"));
    names.map(|name| name.windows(6).position(|part| part == b".llvm.").map_or(name, |end| &name[..end])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &[u8] = b"\x7fELF\0\0_ZN4run17hE\0_ZN4stop17hE.llvm.77\0_ZN4wait17hE\0code";

    #[test]
    fn a_function_is_found_by_its_whole_name() {
        assert_eq!(found(PROGRAM, "_ZN4run17hE\n_ZN4stop17hE\n"), (2, 2));
        assert_eq!(found(PROGRAM, "_ZN4run\n_ZN4stop17hE\n_ZN4stay17hE\n"), (1, 3));
    }

    #[test]
    fn nothing_is_said_where_most_are_found() {
        assert_eq!(misfit(PROGRAM, "_ZN4run17hE\n_ZN4stay17hE\n"), None);
        assert!(misfit(PROGRAM, "_ZN4run17hE\n_ZN4stay17hE\n_ZN4away17hE\n").unwrap().contains("1 of the 3"));
    }
}
