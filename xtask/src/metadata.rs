//! What `cargo metadata` knows, reduced to what the checks ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::failure::{Failure, Result, While};
use crate::process;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Dev,
    Build,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) features: Vec<String>,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kinds: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Relative to the workspace for our own packages, as cargo gave it for the others.
    pub(crate) manifest: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    /// `None` for a package on the local disk.
    pub(crate) source: Option<String>,
    pub(crate) published: bool,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    /// Where cargo puts what it builds.
    pub(crate) target: String,
    members: BTreeSet<String>,
    /// Package id → ids of what it is built with and linked to, without dev- and build-dependencies.
    normal_edges: BTreeMap<String, Vec<String>>,
}

impl Metadata {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        Self::parse(&process::capture(root, &["cargo", "metadata", "--format-version", "1"])?)
    }

    /// Without the dependency graph: quick, and works offline.
    pub(crate) fn load_members(root: &Path) -> Result<Self> {
        Self::parse(&process::capture(root, &["cargo", "metadata", "--format-version", "1", "--no-deps"])?)
    }

    pub(crate) fn parse(json: &str) -> Result<Self> {
        let value: Value =
            serde_json::from_str(json).while_doing(|| "cannot read the output of cargo metadata".into())?;
        let root = text(&value, "workspace_root").unwrap_or_default();
        let packages = array(&value, "packages").iter().map(|p| package(p, &root)).collect::<Result<_>>()?;
        let members = array(&value, "workspace_members").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let nodes = value.get("resolve").map_or(&[][..], |resolve| array(resolve, "nodes"));
        let normal_edges = nodes.iter().filter_map(|node| Some((text(node, "id")?, normal_edges(node)))).collect();
        let target = text(&value, "target_directory").unwrap_or_default();
        Ok(Self { packages, target, members, normal_edges })
    }

    /// Our own packages.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_member(package))
    }

    pub(crate) fn is_member(&self, package: &Package) -> bool {
        self.members.contains(&package.id)
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Package> {
        self.members().find(|package| package.name == name)
    }

    /// Everything that ends up in the same binary as `package`, itself left out, and what is reached only by way of those that are not
    /// `looked_into`.
    pub(crate) fn linked_with<'a>(
        &'a self,
        package: &'a Package,
        looked_into: impl Fn(&Package) -> bool,
    ) -> Vec<&'a Package> {
        let closed = self.packages.iter().filter(|package| !looked_into(package)).map(|package| package.id.as_str());
        let closed: BTreeSet<&str> = closed.collect();
        let mut seen = BTreeSet::from([package.id.as_str()]);
        let mut open = vec![package.id.as_str()];
        while let Some(id) = open.pop() {
            if closed.contains(id) {
                continue;
            }
            let next = self.normal_edges.get(id).into_iter().flatten();
            open.extend(next.map(String::as_str).filter(|id| seen.insert(id)));
        }
        seen.remove(package.id.as_str());
        self.packages.iter().filter(|other| seen.contains(other.id.as_str())).collect()
    }
}

fn package(value: &Value, root: &str) -> Result<Package> {
    let must = |key| text(value, key).ok_or_else(|| Failure::new(format!("cargo metadata: a package without `{key}`")));
    let manifest = must("manifest_path")?;
    Ok(Package {
        id: must("id")?,
        name: must("name")?,
        version: text(value, "version").unwrap_or_default(),
        manifest: manifest.strip_prefix(root).map_or(manifest.as_str(), |path| path.trim_start_matches('/')).to_owned(),
        description: text(value, "description"),
        license: text(value, "license"),
        source: text(value, "source"),
        // Cargo writes `publish = false` as an empty list of registries.
        published: value.get("publish").is_none_or(|publish| publish.as_array().is_none_or(|list| !list.is_empty())),
        dependencies: array(value, "dependencies").iter().filter_map(dependency).collect(),
        targets: array(value, "targets").iter().filter_map(target).collect(),
    })
}

fn dependency(value: &Value) -> Option<Dependency> {
    let kind = match value.get("kind").and_then(Value::as_str) {
        Some("dev") => Kind::Dev,
        Some("build") => Kind::Build,
        _ => Kind::Normal,
    };
    let optional = value.get("optional").and_then(Value::as_bool).unwrap_or_default();
    Some(Dependency { name: text(value, "name")?, kind, features: texts(value, "features"), optional })
}

fn target(value: &Value) -> Option<Target> {
    Some(Target { name: text(value, "name")?, kinds: texts(value, "kind") })
}

fn normal_edges(node: &Value) -> Vec<String> {
    let is_normal =
        |edge: &&Value| array(edge, "dep_kinds").iter().any(|kind| kind.get("kind").is_some_and(Value::is_null));
    array(node, "deps").iter().filter(is_normal).filter_map(|edge| text(edge, "pkg")).collect()
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    array(value, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Made-up metadata for the tests of the checks.
#[cfg(test)]
pub(crate) mod made_up {
    use super::*;

    pub(crate) fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        Package {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            manifest: format!("crates/{name}/Cargo.toml"),
            description: Some("made up".to_owned()),
            license: Some("MIT".to_owned()),
            source: None,
            published: true,
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).to_owned(),
                    kind: *kind,
                    features: Vec::new(),
                    optional: false,
                })
                .collect(),
            targets: Vec::new(),
        }
    }

    /// Packages without a source are members; normal dependencies are edges.
    pub(crate) fn workspace(packages: Vec<Package>) -> Metadata {
        let members = packages.iter().filter(|p| p.source.is_none()).map(|p| p.id.clone()).collect();
        let edges = |p: &Package| {
            p.dependencies.iter().filter(|d| d.kind == Kind::Normal).map(|d| d.name.clone()).collect::<Vec<_>>()
        };
        let normal_edges = packages.iter().map(|p| (p.id.clone(), edges(p))).collect();
        Metadata { packages, target: "target".to_owned(), members, normal_edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_json_is_reduced_to_members_kinds_and_edges() {
        let json = r#"{
            "workspace_root": "/there", "workspace_members": ["a"],
            "packages": [
                {"id": "a", "name": "a", "manifest_path": "/there/crates/a/Cargo.toml", "publish": [],
                 "dependencies": [{"name": "b", "kind": null, "features": ["net"]}, {"name": "c", "kind": "dev"}]},
                {"id": "b", "name": "b", "manifest_path": "/else/b/Cargo.toml", "source": "registry+x", "publish": null},
                {"id": "c", "name": "c", "manifest_path": "/else/c/Cargo.toml", "source": "registry+x"}],
            "resolve": {"nodes": [{"id": "a", "deps": [
                {"pkg": "b", "dep_kinds": [{"kind": null}]}, {"pkg": "c", "dep_kinds": [{"kind": "dev"}]}]}]}
        }"#;
        let metadata = Metadata::parse(json).unwrap();
        let a = metadata.member("a").unwrap();
        assert_eq!(a.manifest, "crates/a/Cargo.toml");
        assert!(!a.published);
        assert_eq!(a.dependencies[0].features, ["net"]);
        assert_eq!(a.dependencies[1].kind, Kind::Dev);
        let linked: Vec<&str> = metadata.linked_with(a, |_| true).iter().map(|p| p.name.as_str()).collect();
        assert_eq!(linked, ["b"]);
        assert!(metadata.packages[1].published);
        assert!(metadata.member("b").is_none());
    }
}
