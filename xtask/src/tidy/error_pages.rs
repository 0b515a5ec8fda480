//! Every error code that the code can show has a page, and every page an error and a row in the list of them.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::files::Sources;

const RULE: &str = "an error code and its page come together";
const FOLDER: &str = "docs/errors/";
const LIST: &str = "docs/errors/README.md";

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut used: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for file in sources.texts.iter().filter(|file| is_crate_source(&file.path)) {
        for (line, text) in file.lines() {
            for code in codes(text) {
                used.entry(code).or_insert_with(|| (file.path.clone(), line));
            }
        }
    }
    let pages: BTreeSet<String> = sources.paths.iter().filter_map(|path| page_code(path)).collect();

    let without_page = used.iter().filter(|(code, _)| !pages.contains(*code)).map(|(code, (file, line))| Finding {
        file: file.clone(),
        line: *line,
        what: format!("{code} has no page"),
        rule: RULE,
        next: format!("write {FOLDER}{code}.md: what happened, why, what to do"),
    });
    let without_code = pages.iter().filter(|code| !used.contains_key(*code)).map(|code| Finding {
        file: format!("{FOLDER}{code}.md"),
        line: 1,
        what: format!("no crate mentions {code}"),
        rule: RULE,
        next: "remove the page, or use the code".to_owned(),
    });
    without_page.chain(without_code).chain(unlisted(sources, &pages)).collect()
}

/// A row below the prose is no row of the table, and is shown as a line of bars.
fn unlisted(sources: &Sources, pages: &BTreeSet<String>) -> Vec<Finding> {
    let Some(list) = sources.texts.iter().find(|file| file.path == LIST) else { return Vec::new() };
    let found =
        |line: usize, what: String, next: String| Finding { file: LIST.to_owned(), line, what, rule: RULE, next };
    let table = list.lines().skip_while(|(_, text)| !text.starts_with("|---")).skip(1);
    let rows: Vec<(usize, &str)> = table.take_while(|(_, text)| text.starts_with('|')).collect();
    let is_listed = |code: &String| rows.iter().any(|(_, row)| row.starts_with(&format!("| [{code}]({code}.md) | ")));
    let missing = pages.iter().filter(|code| !is_listed(code));
    let missing =
        missing.map(|code| found(1, format!("{code} is not in the table"), "add its row, by number".to_owned()));
    let unordered = rows.windows(2).filter(|pair| pair[0].1 >= pair[1].1);
    let unordered = unordered.map(|pair| found(pair[1].0, "a row out of order".to_owned(), "move it".to_owned()));
    missing.chain(unordered).collect()
}

fn is_crate_source(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/")
}

fn page_code(path: &str) -> Option<String> {
    let name = path.strip_prefix(FOLDER)?.strip_suffix(".md")?;
    codes(name).into_iter().next().filter(|code| code == name)
}

/// `HX` and exactly four digits, as a word of its own.
fn codes(text: &str) -> Vec<String> {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut found = Vec::new();
    for (at, _) in text.match_indices("HX") {
        let rest = &text[at + 2..];
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        if digits == 4 && !word(text[..at].chars().next_back()) && !word(rest.chars().nth(4)) {
            found.push(format!("HX{}", &rest[..4]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_whole_words() {
        assert_eq!(codes("HX0001, (HX0002) HX003 HX00045 xHX0006 HX0007a é HX0008"), ["HX0001", "HX0002", "HX0008"]);
    }

    #[test]
    fn pairs_are_fine_and_codes_elsewhere_need_no_page() {
        let sources = Sources::made_of(&[
            ("crates/a/src/error.rs", "\"HX0001\""),
            ("crates/a/tests/t.rs", "HX9999"),
            ("docs/errors/HX0001.md", "# HX0001"),
            ("docs/errors/README.md", "HX0002\n|---|---|\n| [HX0001](HX0001.md) | x |\n"),
        ]);
        assert!(check(&sources).is_empty());
    }

    #[test]
    fn a_code_without_a_page_and_a_page_without_a_code_are_found() {
        let sources =
            Sources::made_of(&[("crates/a/src/error.rs", "\n\"HX0001\""), ("docs/errors/HX0002.md", "# HX0002")]);
        let found: Vec<String> = check(&sources).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/a/src/error.rs:2: HX0001 has no page"), "{found:?}");
        assert!(found[1].starts_with("docs/errors/HX0002.md:1: no crate mentions HX0002"), "{found:?}");
    }

    /// A page that the list leaves out, or names where it is no table any more, is found by nobody.
    #[test]
    fn a_page_outside_the_table_is_found() {
        let [row, later] = ["| [HX0001](HX0001.md) | x |", "| [HX0002](HX0002.md) | x |"];
        let found = |list: &str| {
            let sources = Sources::made_of(&[
                ("crates/a/src/error.rs", "\"HX0001\" \"HX0002\""),
                ("docs/errors/HX0001.md", "# HX0001"),
                ("docs/errors/HX0002.md", "# HX0002"),
                ("docs/errors/README.md", list),
            ]);
            check(&sources).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found(&format!("|---|---|\n{row}\n{later}\n")).is_empty());
        let below = found(&format!("|---|---|\n{row}\n\nProse.\n{later}\n"));
        assert!(below.len() == 1 && below[0].contains("HX0002 is not in the table"), "{below:?}");
        let turned = found(&format!("|---|---|\n{later}\n{row}\n"));
        assert!(turned.len() == 1 && turned[0].contains("README.md:3: a row out of order"), "{turned:?}");
    }
}
