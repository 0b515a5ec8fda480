//! One thing to fix: where, what, which rule, and the next step.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) what: String,
    pub(super) rule: &'static str,
    pub(super) next: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; rule: {}; next: {}", self.file, self.line, self.what, self.rule, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_starts_with_a_place_that_editors_can_jump_to() {
        let finding =
            Finding { file: "a.md".into(), line: 3, what: "dead link".into(), rule: "links lead", next: "fix".into() };
        assert_eq!(finding.to_string(), "a.md:3: dead link; rule: links lead; next: fix");
    }
}
