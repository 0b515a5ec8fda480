//! Each crate says what it is for, and no file grows beyond what one can read.

use super::finding::Finding;
use crate::files::Sources;
use crate::metadata::Metadata;

const MAX_LINES: usize = 700;

pub(super) fn check(sources: &Sources, metadata: &Metadata) -> Vec<Finding> {
    let silent = metadata.members().filter(|package| package.description.as_deref().unwrap_or_default().is_empty());
    let silent = silent.map(|package| Finding {
        file: package.manifest.clone(),
        line: 1,
        what: format!("{} has no description", package.name),
        rule: "every crate says what it is for",
        next: "write one sentence as `description`".to_owned(),
    });
    let sized =
        sources.texts.iter().filter(|file| is_crate_source(&file.path)).map(|file| (file, file.text.lines().count()));
    let long = sized.filter(|(_, lines)| *lines >= MAX_LINES).map(|(file, lines)| Finding {
        file: file.path.clone(),
        line: MAX_LINES,
        what: format!("{lines} lines"),
        rule: "a source file has fewer than 700 lines",
        next: "split it along its roles".to_owned(),
    });
    silent.chain(long).collect()
}

fn is_crate_source(path: &str) -> bool {
    let mut parts = path.split('/');
    path.ends_with(".rs") && parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::made_up::{package, workspace};

    #[test]
    fn a_crate_without_a_description_is_found() {
        let mut silent = package("hapax", &[]);
        silent.description = None;
        let found = check(&Sources::default(), &workspace(vec![silent, package("hapax-core", &[])]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "hapax has no description");
    }

    #[test]
    fn a_long_source_file_is_found_and_a_long_test_is_not() {
        let (just_short, long) = ("x\n".repeat(MAX_LINES - 1), "x\n".repeat(MAX_LINES));
        let sources = Sources::made_of(&[
            ("crates/a/src/short.rs", &just_short),
            ("crates/a/src/deep/long.rs", &long),
            ("crates/a/tests/table.rs", &long),
        ]);
        let found = check(&sources, &workspace(vec![]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "crates/a/src/deep/long.rs");
    }
}
