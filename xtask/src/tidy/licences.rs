//! Licences and sources of all packages, by the list in deny.toml: the part of cargo-deny that needs no installation.

use toml::Table;

use super::finding::Finding;
use super::spdx;
use crate::failure::{Failure, Result, While};
use crate::files::Sources;
use crate::metadata::{Metadata, Package};

const LICENCE_RULE: &str = "packages have a licence from deny.toml";
const SOURCE_RULE: &str = "packages come from crates.io";
const LIST: &str = "deny.toml";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(sources: &Sources, metadata: &Metadata) -> Result<Vec<Finding>> {
    let list =
        sources.get(LIST).ok_or_else(|| Failure::new(format!("{LIST} is missing: it lists the accepted licences")))?;
    let accepted = Accepted::parse(&list.text)?;
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let place = |what: String, rule: &'static str, next: &str| Finding {
            file: "Cargo.lock".to_owned(),
            line: sources.get("Cargo.lock").map_or(1, |lock| lock.line_of(&format!("name = \"{}\"", package.name))),
            what: format!("{} {} {what}", package.name, package.version),
            rule,
            next: next.to_owned(),
        };
        if let Some(what) = accepted.refuses(package) {
            findings.push(place(
                what,
                LICENCE_RULE,
                "choose another package, or accept the licence in deny.toml with a reason",
            ));
        }
        if let Some(what) = foreign(metadata, package) {
            findings.push(place(what, SOURCE_RULE, "use a version that crates.io has"));
        }
    }
    Ok(findings)
}

struct Accepted {
    everywhere: Vec<String>,
    /// Package name → what is accepted for it beyond the list.
    exceptions: Vec<(String, Vec<String>)>,
}

impl Accepted {
    fn parse(text: &str) -> Result<Self> {
        let table: Table = text.parse().while_doing(|| format!("cannot read {LIST}"))?;
        let licences = table.get("licenses").and_then(toml::Value::as_table);
        let everywhere = licences.map(|licences| names(licences.get("allow"))).unwrap_or_default();
        if everywhere.is_empty() {
            return Err(Failure::new(format!("{LIST} has no [licenses] allow list")));
        }
        let exceptions = licences.and_then(|licences| licences.get("exceptions")).and_then(toml::Value::as_array);
        let exceptions = exceptions.into_iter().flatten().filter_map(|entry| {
            let name = entry.get("crate").or_else(|| entry.get("name"))?.as_str()?;
            // cargo-deny also takes `name@version` and `name:version`.
            let name = name.split(['@', ':']).next().unwrap_or(name);
            Some((name.to_owned(), names(entry.get("allow"))))
        });
        Ok(Self { everywhere, exceptions: exceptions.collect() })
    }

    fn refuses(&self, package: &Package) -> Option<String> {
        let Some(expression) = &package.license else {
            return Some("names no licence".to_owned());
        };
        let mut allowed = self.everywhere.clone();
        let own = self.exceptions.iter().filter(|(name, _)| *name == package.name);
        allowed.extend(own.flat_map(|(_, licences)| licences.clone()));
        match spdx::is_allowed(expression, &allowed) {
            Some(true) => None,
            Some(false) => Some(format!("is under `{expression}`, which is not accepted")),
            None => Some(format!("has a licence expression that cannot be read: `{expression}`")),
        }
    }
}

fn names(value: Option<&toml::Value>) -> Vec<String> {
    let list = value.and_then(toml::Value::as_array);
    list.into_iter().flatten().filter_map(toml::Value::as_str).map(str::to_owned).collect()
}

fn foreign(metadata: &Metadata, package: &Package) -> Option<String> {
    match &package.source {
        Some(source) if source == CRATES_IO => None,
        Some(source) => Some(format!("comes from {source}")),
        None if metadata.is_member(package) => None,
        None => Some("is a folder outside the workspace".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::made_up::{package, workspace};

    const DENY: &str =
        "[licenses]\nallow = [\"MIT\"]\nexceptions = [{ allow = [\"OpenSSL\"], crate = \"ring@0.17\" }]\n";

    fn third_party(name: &str, license: Option<&str>, source: &str) -> Package {
        let mut package = package(name, &[]);
        package.license = license.map(str::to_owned);
        package.source = Some(source.to_owned());
        package
    }

    fn found(deny: &str, packages: Vec<Package>) -> Result<Vec<String>> {
        let lock = "[[package]]\nname = \"other\"\n\n[[package]]\nname = \"gpl\"\n";
        let sources = Sources::made_of(&[("deny.toml", deny), ("Cargo.lock", lock)]);
        Ok(check(&sources, &workspace(packages))?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn accepted_licences_from_crates_io_are_fine() {
        let packages = vec![
            package("ours", &[]),
            third_party("a", Some("MIT OR GPL-3.0"), CRATES_IO),
            third_party("ring", Some("MIT AND OpenSSL"), CRATES_IO),
        ];
        assert!(found(DENY, packages).unwrap().is_empty());
    }

    #[test]
    fn a_refused_a_missing_and_an_unreadable_licence_are_found() {
        let packages = vec![
            third_party("gpl", Some("GPL-3.0"), CRATES_IO),
            third_party("none", None, CRATES_IO),
            third_party("odd", Some("MIT OR"), CRATES_IO),
        ];
        let found = found(DENY, packages).unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("Cargo.lock:5: gpl 0.1.0 is under `GPL-3.0`"), "{found:?}");
    }

    #[test]
    fn an_exception_holds_for_its_own_package_only() {
        assert_eq!(found(DENY, vec![third_party("other", Some("OpenSSL"), CRATES_IO)]).unwrap().len(), 1);
    }

    #[test]
    fn another_source_is_found() {
        let found = found(DENY, vec![third_party("a", Some("MIT"), "git+https://example.com/a")]).unwrap();
        assert!(found[0].contains("comes from git+"), "{found:?}");
    }

    #[test]
    fn an_empty_list_is_an_error_and_not_a_free_pass() {
        assert!(found("[bans]\n", vec![]).is_err());
    }
}
