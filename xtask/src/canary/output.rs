//! Reading test output.

/// The first failed test that nextest or libtest names.
pub(super) fn failed_test(output: &str) -> Option<String> {
    output.lines().find_map(|line| nextest(line.trim()).or_else(|| libtest(line.trim())))
}

/// `FAIL [   0.004s] (3/9) package test`, also with `TIMEOUT` or a signal in place of `FAIL`.
fn nextest(line: &str) -> Option<String> {
    let (word, rest) = line.split_once(" [")?;
    if word != "FAIL" && word != "TIMEOUT" && !word.starts_with("SIG") {
        return None;
    }
    let (_, rest) = rest.split_once("] ")?;
    let rest = rest.trim();
    let counted = rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map(|(_, name)| name.trim());
    Some(counted.unwrap_or(rest).to_owned())
}

/// `test name ... FAILED`
fn libtest(line: &str) -> Option<String> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(str::to_owned)
}

/// The end of a log, for people.
pub(super) fn tail(output: &str, lines: usize) -> String {
    let all: Vec<&str> = output.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| format!("  | {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_test_is_named_whoever_ran_it() {
        let nextest = "   PASS [ 0.1s] (1/2) a good\n        FAIL [   0.004s] (2/2) hapax-sim lease::c4\n";
        assert_eq!(failed_test(nextest).as_deref(), Some("hapax-sim lease::c4"));
        assert_eq!(failed_test("  TIMEOUT [ 300.0s] hapax-sim stuck").as_deref(), Some("hapax-sim stuck"));
        assert_eq!(failed_test("  SIGABRT [ 0.1s] ( 2/10) hapax-sim dead").as_deref(), Some("hapax-sim dead"));
        assert_eq!(failed_test("test a::b ... ok\ntest a::c ... FAILED").as_deref(), Some("a::c"));
        assert_eq!(failed_test("error: could not compile"), None);
    }

    #[test]
    fn the_tail_is_the_end() {
        assert_eq!(tail("a\nb\nc", 2), "  | b\n  | c\n");
        assert_eq!(tail("", 2), "");
    }
}
