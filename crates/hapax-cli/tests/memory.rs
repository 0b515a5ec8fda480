//! Who gives out the program's memory.

#![cfg(target_os = "linux")]

use std::process::Command;

/// `malloc` and what goes with it are the program's own, for itself and for every library that it loads: one of them alone taken from the
/// system would be handed what it never gave out. Nothing else says so: without them the program runs as well, only slower.
#[test]
fn the_program_brings_its_own_malloc_and_all_that_goes_with_it() {
    let listed = Command::new("nm").args(["--dynamic", "--defined-only", env!("CARGO_BIN_EXE_hapax")]).output();
    let listed = String::from_utf8(listed.expect("nm comes with the linker").stdout).unwrap();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let whole = [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "reallocarray",
        "posix_memalign",
        "aligned_alloc",
        "memalign",
        "malloc_usable_size",
    ];
    for name in whole {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}
