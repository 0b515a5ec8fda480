//! Dependencies between our crates point one way:
//! core ← store ← engine ← {http, queue, …} ← {gateway, server} ← cli.

use std::collections::BTreeSet;

use super::finding::Finding;
use crate::files::Sources;
use crate::metadata::{Dependency, Kind, Metadata, Package};

const RULE: &str = "dependencies between crates point one way (docs/adr/0001-pure-core.md)";
const TABLE: &str = "xtask/src/tidy/direction.rs";

struct Role {
    name: &'static str,
    /// A crate may depend on lower layers only, never on its own.
    layer: u8,
    /// Packages that must not be reached, not even through another of our crates; `package/feature` bans one feature.
    never: &'static [&'static str],
}

const HTTP: &[&str] =
    &["http", "http-body", "hyper", "hyper-util", "tower", "tower-http", "axum", "reqwest", "hapax-http"];
const DRIVERS: &[&str] =
    &["redis", "fred", "tokio-postgres", "postgres", "sqlx", "async-nats", "nats", "rusqlite", "fjall"];
const STORES: &[&str] = &["hapax-ledger", "hapax-redis", "hapax-postgres", "hapax-nats"];
const NETWORK: &[&str] = &["hyper", "reqwest", "axum", "socket2", "rustls", "tokio/net", "tokio/full"];

const ROLES: &[Role] = &[
    // What the core may see is stricter still: purity.rs.
    Role { name: "hapax-core", layer: 0, never: &["tokio", "http"] },
    Role { name: "hapax-store", layer: 1, never: DRIVERS },
    Role { name: "hapax-ledger", layer: 2, never: NETWORK },
    Role { name: "hapax-redis", layer: 2, never: &[] },
    Role { name: "hapax-postgres", layer: 2, never: &[] },
    Role { name: "hapax-nats", layer: 2, never: &[] },
    Role { name: "hapax-engine", layer: 2, never: HTTP },
    Role {
        name: "hapax-http",
        layer: 3,
        never: &["axum", "hapax-ledger", "hapax-redis", "hapax-postgres", "hapax-nats"],
    },
    Role { name: "hapax-http1", layer: 3, never: &["hyper", "axum", "hapax-core", "hapax-engine"] },
    Role { name: "hapax-queue", layer: 3, never: HTTP },
    Role { name: "hapax-jetstream", layer: 3, never: STORES },
    Role { name: "hapax-client", layer: 3, never: &["hapax-server", "hapax-engine"] },
    Role { name: "hapax-gateway", layer: 4, never: STORES },
    Role { name: "hapax-server", layer: 4, never: &[] },
    Role { name: "hapax", layer: 5, never: &[] },
    Role { name: "hapax-cli", layer: 6, never: &[] },
];

/// Unpublished: may see everything, and nothing that we publish may see them.
const WORKSHOP: &[&str] = &["hapax-sim", "hapax-fuzz", "hapax-bench", "hapax-examples", "hapax-testkit", "xtask"];

pub(super) fn check(sources: &Sources, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members() {
        if WORKSHOP.contains(&package.name.as_str()) {
            if package.published {
                let next = "write `publish = false` in its manifest".to_owned();
                findings.push(finding(sources, package, "name", format!("{} would be published", package.name), next));
            }
            continue;
        }
        match ROLES.iter().find(|role| role.name == package.name) {
            Some(role) => findings.extend(check_role(sources, metadata, package, role)),
            None => {
                let what = format!("{} has no role", package.name);
                findings.push(finding(sources, package, "name", what, format!("give it a layer in {TABLE}")));
            }
        }
    }
    findings
}

fn check_role(sources: &Sources, metadata: &Metadata, package: &Package, role: &Role) -> Vec<Finding> {
    let mut findings = Vec::new();
    for dependency in built_in(package) {
        if let Some(why) = against_direction(role, &dependency.name) {
            let next = format!("turn the dependency round, or move what is shared to a lower crate; layers: {TABLE}");
            findings.push(finding(sources, package, &dependency.name, why, next));
        }
    }
    for (through, seen) in reached(metadata, package) {
        if role.never.contains(&seen.as_str()) {
            let what = format!("{} sees {seen} (through {through})", package.name);
            let next = format!("{} must never see it: move the code that needs it to a higher crate", package.name);
            findings.push(finding(sources, package, seen.split('/').next().unwrap_or(&seen), what, next));
        }
    }
    findings
}

fn against_direction(role: &Role, dependency: &str) -> Option<String> {
    if WORKSHOP.contains(&dependency) {
        return Some(format!("{} depends on {dependency}, which is not published", role.name));
    }
    let other = ROLES.iter().find(|other| other.name == dependency)?;
    (other.layer >= role.layer)
        .then(|| format!("{} (layer {}) depends on {dependency} (layer {})", role.name, role.layer, other.layer))
}

/// Tests may see what they like.
fn built_in(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev)
}

/// What the crate and all our crates below it ask for, with the one that asks; features as `package/feature`.
///
/// This reads what the manifests ask for and not cargo's resolved graph, because that one unites the features of the
/// whole workspace: a test tool's `tokio/net` would count against every crate.
fn reached(metadata: &Metadata, package: &Package) -> BTreeSet<(String, String)> {
    let mut open = vec![package];
    let mut visited = BTreeSet::new();
    let mut reached = BTreeSet::new();
    while let Some(current) = open.pop() {
        if !visited.insert(current.name.as_str()) {
            continue;
        }
        for dependency in built_in(current) {
            reached.insert((current.name.clone(), dependency.name.clone()));
            let features = dependency.features.iter().map(|feature| format!("{}/{feature}", dependency.name));
            reached.extend(features.map(|feature| (current.name.clone(), feature)));
            open.extend(metadata.member(&dependency.name));
        }
    }
    reached
}

fn finding(sources: &Sources, package: &Package, near: &str, what: String, next: String) -> Finding {
    let line = sources.get(&package.manifest).map_or(1, |manifest| manifest.line_of(near));
    Finding { file: package.manifest.clone(), line, what, rule: RULE, next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::made_up::{package, workspace};

    fn check_all(packages: Vec<Package>) -> Vec<String> {
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nhapax-engine.workspace = true\n";
        let sources = Sources::made_of(&[("crates/hapax-store/Cargo.toml", manifest)]);
        check(&sources, &workspace(packages)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_intended_layers_are_fine() {
        let found = check_all(vec![
            package("hapax-core", &[("bytes", Kind::Normal)]),
            package("hapax-store", &[("hapax-core", Kind::Normal)]),
            package("hapax-engine", &[("hapax-core", Kind::Normal), ("hapax-store", Kind::Normal)]),
            package("hapax", &[("hapax-engine", Kind::Normal)]),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_store_that_sees_the_engine_is_found_with_its_line() {
        let found =
            check_all(vec![package("hapax-store", &[("hapax-engine", Kind::Normal)]), package("hapax-engine", &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/hapax-store/Cargo.toml:4: hapax-store (layer 1)"), "{found:?}");
    }

    #[test]
    fn crates_of_one_layer_do_not_see_each_other() {
        let found =
            check_all(vec![package("hapax-redis", &[("hapax-nats", Kind::Normal)]), package("hapax-nats", &[])]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn tests_may_see_everything() {
        let found = check_all(vec![
            package("hapax-store", &[("hapax-engine", Kind::Dev), ("hapax-sim", Kind::Dev)]),
            package("hapax-engine", &[]),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_banned_package_is_found_through_another_of_our_crates() {
        let found = check_all(vec![
            package("hapax-engine", &[("hyper", Kind::Normal)]),
            package("hapax-queue", &[("hapax-engine", Kind::Normal)]),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("hapax-queue sees hyper (through hapax-engine)"), "{found:?}");
    }

    #[test]
    fn a_banned_feature_is_found() {
        let mut ledger = package("hapax-ledger", &[("tokio", Kind::Normal)]);
        ledger.dependencies[0].features.push("net".to_owned());
        let found = check_all(vec![ledger]);
        assert!(found[0].contains("sees tokio/net"), "{found:?}");
    }

    #[test]
    fn a_published_crate_does_not_see_the_workshop_and_the_workshop_is_not_published() {
        let found = check_all(vec![package("hapax", &[("hapax-sim", Kind::Normal)]), package("hapax-sim", &[])]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_crate_without_a_role_is_found() {
        let found = check_all(vec![package("hapax-misc", &[])]);
        assert!(found[0].contains("has no role"), "{found:?}");
    }
}
