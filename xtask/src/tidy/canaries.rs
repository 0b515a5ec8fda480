//! A planted bug that no longer fits the code proves nothing; it is noticed here, long before `cargo xtask canary` runs.

use super::finding::Finding;
use crate::canary::Canary;
use crate::files::Sources;

const RULE: &str = "every canary fits the present code (canary/README.md)";

pub(super) fn check(sources: &Sources) -> Vec<Finding> {
    let specs = sources.texts.iter().filter(|file| file.path.starts_with("canary/") && file.path.ends_with(".toml"));
    let mut findings = Vec::new();
    for file in specs {
        let name = file.path.trim_start_matches("canary/").trim_end_matches(".toml");
        let read = |path: &str| sources.get(path).map(|file| file.text.clone());
        if let Err(why) = Canary::parse(name, &file.text).and_then(|canary| canary.planted(read)) {
            findings.push(Finding {
                file: file.path.clone(),
                line: 1,
                what: why.to_string(),
                rule: RULE,
                next: "plant the same bug in the code as it is now".to_owned(),
            });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str =
        "story = \"s\"\ncommand = [\"cargo\", \"test\"]\n[[edit]]\nfile = \"a.rs\"\nfind = \"x\"\nreplace = \"y\"\n";

    #[test]
    fn a_canary_that_fits_is_fine() {
        assert!(check(&Sources::made_of(&[("canary/a.toml", SPEC), ("a.rs", "x")])).is_empty());
    }

    #[test]
    fn a_stale_or_unreadable_canary_is_found() {
        assert_eq!(check(&Sources::made_of(&[("canary/a.toml", SPEC), ("a.rs", "xx")])).len(), 1);
        assert_eq!(check(&Sources::made_of(&[("canary/a.toml", SPEC)])).len(), 1);
        assert_eq!(check(&Sources::made_of(&[("canary/a.toml", "story = 3")])).len(), 1);
    }
}
