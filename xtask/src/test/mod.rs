//! `cargo xtask test`: everything a change must pass, in one command.

mod built;
mod examples;
mod options;
mod steps;

use std::path::Path;
use std::time::Duration;

use crate::failure::{Failure, Result};
use crate::stopwatch::{Stopwatch, seconds};
use crate::table;
use options::Options;
use steps::{Action, Done, Step};

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let steps = steps::all();
    let options = Options::parse(args, &steps)?;
    let chosen: Vec<&Step> = steps.iter().filter(|step| options.takes(step.name)).collect();
    if options.list {
        let rows: Vec<_> = chosen.iter().map(|step| vec![step.name.to_owned(), step.about.to_owned()]).collect();
        print!("{}", table::render(&rows));
        return Ok(());
    }
    carry_out(root, &chosen)
}

/// What became of one step.
struct Line {
    name: &'static str,
    result: String,
    took: Duration,
}

/// Stops at the first failure: what comes later builds on what came before.
fn carry_out(root: &Path, steps: &[&Step]) -> Result<()> {
    let mut lines = Vec::new();
    let mut failure = None;
    for step in steps {
        eprintln!("\n== {}: {}", step.name, step.about);
        let watch = Stopwatch::start();
        let outcome = perform(root, &step.action);
        let result = match &outcome {
            Ok(Done::Passed) => "passed".to_owned(),
            Ok(Done::Skipped(why)) => format!("skipped: {why}"),
            Err(_) => "FAILED".to_owned(),
        };
        lines.push(Line { name: step.name, result, took: watch.elapsed() });
        if let Err(error) = outcome {
            failure = Some((step.name, error));
            break;
        }
    }
    println!("\n{}", summary(&lines));
    let closing = closing_line(&lines);
    match failure {
        None => {
            println!("{closing}");
            Ok(())
        }
        Some((name, error)) => {
            let rerun = format!("cargo xtask test --only {name}");
            let again = error.rerun().map_or_else(|| rerun.clone(), str::to_owned);
            let shown = error.to_string();
            let reason = shown.lines().next().unwrap_or_default();
            Err(Failure::new(format!("step `{name}` failed: {reason}")).rerun_with(again).close_with(closing))
        }
    }
}

fn perform(root: &Path, action: &Action) -> Result<Done> {
    match action {
        Action::Run(lines) => {
            lines.iter().try_for_each(|line| crate::process::run(root, line))?;
            Ok(Done::Passed)
        }
        Action::Call(call) => call(root),
    }
}

fn summary(lines: &[Line]) -> String {
    let mut rows = vec![vec!["step".to_owned(), "seconds".to_owned(), "result".to_owned()]];
    rows.extend(lines.iter().map(|line| vec![line.name.to_owned(), seconds(line.took), line.result.clone()]));
    table::render(&rows)
}

/// Skipped steps count as neither.
fn closing_line(lines: &[Line]) -> String {
    let count = |result: &str| lines.iter().filter(|line| line.result == result).count();
    format!("{} passed, {} failed", count("passed"), count("FAILED"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step { name: "good", about: "", action: Action::Run(&[&["true"]]) };
    const BAD: Step = Step { name: "bad", about: "", action: Action::Run(&[&["true"], &["false"]]) };
    const LEFT_OUT: Step =
        Step { name: "left-out", about: "", action: Action::Call(|_| Ok(Done::Skipped("not here".to_owned()))) };
    const REFUSES: Step =
        Step { name: "refuses", about: "", action: Action::Call(|_| Err(Failure::new("no program\nsecond line"))) };

    #[test]
    fn all_steps_pass_or_are_skipped() {
        carry_out(Path::new("."), &[&GOOD, &LEFT_OUT]).unwrap();
    }

    #[test]
    fn the_first_failure_stops_the_run_and_names_the_command_to_repeat() {
        let failure = carry_out(Path::new("."), &[&GOOD, &BAD, &GOOD]).unwrap_err();
        assert_eq!(failure.rerun(), Some("false"));
        assert_eq!(failure.closing_line(), Some("1 passed, 1 failed"));
        assert!(failure.to_string().contains("step `bad` failed"), "{failure}");
    }

    #[test]
    fn a_failure_without_a_command_is_repeated_as_a_step() {
        let failure = carry_out(Path::new("."), &[&REFUSES]).unwrap_err();
        assert_eq!(failure.rerun(), Some("cargo xtask test --only refuses"));
    }
}
