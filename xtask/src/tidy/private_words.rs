//! Nothing that only one machine understands: no paths into somebody's home, no private package hosts.

use super::finding::Finding;
use crate::files::Sources;

const RULE: &str = "the repository means the same on every machine";

/// Written in pieces, so that this file does not find itself.
const MACHINE_PATHS: &[&str] = &[concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

const REGISTRY_WORDS: &[&str] = &[
    concat!("CARGO_", "REGISTRIES_"),
    concat!("CARGO_", "SOURCE_"),
    concat!("replace", "-with"),
    concat!("index", "-url"),
    concat!("arti", "factory"),
];

/// What may follow these two is the public registry only.
const INDEXES: &[(&str, &str)] = &[
    (concat!("registry", "+"), "https://github.com/rust-lang/crates.io-index"),
    (concat!("sparse", "+"), "https://index.crates.io/"),
];

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &sources.texts {
        for (line, text) in file.lines() {
            if let Some((what, next)) = machine_path(text).or_else(|| registry(text)) {
                findings.push(Finding { file: file.path.clone(), line, what, rule: RULE, next: next.to_owned() });
            }
        }
    }
    findings
}

fn machine_path(text: &str) -> Option<(String, &'static str)> {
    let path =
        MACHINE_PATHS.iter().find(|path| text.match_indices(**path).any(|(at, _)| starts_a_path(&text[..at])))?;
    Some((format!("a path below {path}"), "use a path relative to the repository, or one that the user gives"))
}

/// `https://host/home/` and `docs/work/` are no machine paths: the slash continues a longer word there.
fn starts_a_path(before: &str) -> bool {
    !before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || "_-.~/}>*".contains(c))
}

fn registry(text: &str) -> Option<(String, &'static str)> {
    let next = "leave package hosts to each machine's own cargo configuration";
    if let Some(word) = REGISTRY_WORDS.iter().find(|word| text.contains(**word)) {
        return Some((format!("`{word}` chooses a package host"), next));
    }
    for (scheme, public) in INDEXES {
        let foreign =
            |at: usize| text[at + scheme.len()..].starts_with("http") && !text[at + scheme.len()..].starts_with(public);
        if text.match_indices(scheme).any(|(at, _)| foreign(at)) {
            return Some((format!("a `{scheme}` source other than crates.io"), next));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check(&Sources::made_of(&[("a.txt", text)])).len()
    }

    #[test]
    fn a_machine_path_is_found_in_every_kind_of_quote() {
        for before in ["", " ", "\"", "(", "`", "="] {
            for path in MACHINE_PATHS {
                assert_eq!(found(&format!("{before}{path}x")), 1, "{before}{path}");
            }
        }
    }

    #[test]
    fn longer_words_are_no_machine_paths() {
        for path in MACHINE_PATHS {
            assert_eq!(found(&format!("https://example.com{path}x and docs{path}")), 0);
        }
    }

    #[test]
    fn only_the_public_registry_is_named() {
        let [(registry, public), (sparse, index)] = INDEXES else { panic!("two schemes") };
        assert_eq!(found(&format!("source = \"{registry}{public}\"\n{sparse}{index}")), 0);
        assert_eq!(found(&format!("{registry}https://packages.example/index\n{sparse}https://mirror.example/")), 2);
        assert_eq!(found(REGISTRY_WORDS[2]), 1);
    }
}
