//! What the README shows is what is compiled and run.
#![allow(clippy::unwrap_used, reason = "a test stops where its premise is wrong")]

/// Somebody mends the program and not the README, or the other way round: a reader copies what no longer compiles.
#[test]
fn the_readme_shows_the_program_that_is_run() {
    let program = include_str!("../../../examples/examples/first.rs");
    let readme = include_str!("../../../README.md");
    let shown = readme.rsplit("```rust\n").next().unwrap().split("```").next().unwrap();
    let run = &program[program.find("use hapax").unwrap()..];
    assert_eq!(shown, run);
}
