//! Links between our pages lead somewhere.

use super::finding::Finding;
use super::markdown;
use crate::files::{Sources, TextFile};

const RULE: &str = "links lead somewhere";

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let pages = sources.texts.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| check_page(sources, page)).collect()
}

fn check_page(sources: &Sources, page: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in markdown::links(&page.text) {
        if is_external(&target) {
            continue;
        }
        if let Some(what) = dead(sources, page, &target) {
            let next = "correct the link, or write what it points to".to_owned();
            findings.push(Finding { file: page.path.clone(), line, what, rule: RULE, next });
        }
    }
    findings
}

/// Other people's pages come and go; a test must not depend on them.
fn is_external(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn dead(sources: &Sources, page: &TextFile, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.path.clone() } else { resolve(&page.path, &file.replace("%20", " "))? };
    if !sources.exists(&path) {
        return Some(format!("`{target}` leads to {path}, which does not exist"));
    }
    // An anchor into a source file is a line number for the web view; nothing to check.
    let anchor = anchor.filter(|_| path.ends_with(".md"))?;
    let known = sources.get(&path).map(|file| markdown::anchors(&file.text)).unwrap_or_default();
    (!known.contains(anchor)).then(|| format!("`{target}` leads to a heading that {path} does not have"))
}

/// `None` where the link leaves the repository: then it cannot be judged here.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { page.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::made_of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn living_links_are_fine() {
        let readme = "# Top\n[a](docs/a.md) [b](docs/a.md#why-so) [c](#top) [d](https://example.com/x) [e](docs/) \
                      [f](/docs/a.md) [g](src/lib.rs#L3)";
        let page = "## Why so?\n[up](../README.md#top) [me](a.md)";
        let found = found(&[("README.md", readme), ("docs/a.md", page), ("src/lib.rs", "")]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_missing_file_is_found_with_its_line() {
        let found = found(&[("docs/a.md", "\n[b](b.md)")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("docs/a.md:2: `b.md` leads to docs/b.md"), "{found:?}");
    }

    #[test]
    fn a_missing_heading_is_found() {
        let found = found(&[("a.md", "# One\n[x](#two) [y](b.md#three)"), ("b.md", "# Four")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
