//! Starting other programs: announced, so that each can be repeated by hand.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result, While};

/// The cargo that runs us, so that a `cargo +toolchain xtask …` stays on its toolchain.
pub(crate) fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

pub(crate) fn command(root: &Path, line: &[&str]) -> Result<Command> {
    let (program, args) = line.split_first().ok_or_else(|| Failure::new("an empty command cannot be run"))?;
    let mut command = if *program == "cargo" { Command::new(cargo_program()) } else { Command::new(program) };
    command.args(args).current_dir(root);
    Ok(command)
}

/// Runs with our own output; anything but success is a failure that names the command. The announcement goes to
/// stderr, because the last line of some programs' stdout is data.
pub(crate) fn run(root: &Path, line: &[&str]) -> Result<()> {
    let shown = spoken(line);
    eprintln!("$ {shown}");
    let status = command(root, line)?.status().while_doing(|| format!("cannot start `{shown}`"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{shown}` ended with {status}")).rerun_with(shown))
    }
}

/// Runs silently and returns stdout.
pub(crate) fn capture(root: &Path, line: &[&str]) -> Result<String> {
    let shown = spoken(line);
    let output =
        command(root, line)?.stdin(Stdio::null()).output().while_doing(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("`{shown}` ended with {}: {}", output.status, said.trim())).rerun_with(shown));
    }
    String::from_utf8(output.stdout).while_doing(|| format!("`{shown}` did not print UTF-8"))
}

/// Whether this can be run at all; its output is of no interest.
pub(crate) fn works(root: &Path, line: &[&str]) -> bool {
    command(root, line).is_ok_and(|mut command| {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// The command as one would type it.
pub(crate) fn spoken(line: &[&str]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    let quoted = |word: &&str| {
        if !word.is_empty() && word.chars().all(plain) {
            (*word).to_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    line.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rerun_line_can_be_pasted_into_a_shell() {
        assert_eq!(spoken(&["cargo", "test", "-p", "xtask"]), "cargo test -p xtask");
        assert_eq!(spoken(&["echo", "it's", ""]), r"echo 'it'\''s' ''");
    }

    #[test]
    fn a_failing_command_says_what_to_run_again() {
        let failure = run(Path::new("."), &["false"]).unwrap_err();
        assert_eq!(failure.rerun(), Some("false"));
    }

    #[test]
    fn a_missing_program_is_an_error_and_not_a_crash() {
        assert!(!works(Path::new("."), &["no-such-program-here"]));
        assert!(capture(Path::new("."), &["no-such-program-here"]).unwrap_err().to_string().contains("cannot start"));
    }
}
