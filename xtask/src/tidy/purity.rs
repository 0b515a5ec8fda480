//! The core is pure: it depends on nothing that could do I/O, and names no clock, file, socket, thread or runtime.

use std::path::Path;

use super::finding::Finding;
use crate::failure::Result;
use crate::files::Sources;
use crate::metadata::{Kind, Metadata};
use crate::process;

const RULE: &str = "the core is pure (docs/adr/0001-pure-core.md)";
const CORE: &str = "hapax-core";
const CORE_SOURCES: &str = "crates/hapax-core/src/";
const WASM: &str = "wasm32-unknown-unknown";

/// Everything the core may link to, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("bytes", "shared bodies without copies"),
    ("data-encoding", "hexadecimal and base64 text"),
    ("hmac", "keyed digests of secrets in fingerprints"),
    ("ryu-js", "numbers as RFC 8785 writes them"),
    ("serde", "policies and records as data"),
    ("serde_json", "reading the requests that are fingerprinted"),
    ("sha2", "digests"),
    ("subtle", "comparison in constant time"),
    ("thiserror", "error types"),
    ("block-buffer", "of sha2"),
    ("cfg-if", "of sha2"),
    ("cmov", "of subtle and ctutils: moves in constant time"),
    ("const-oid", "of digest"),
    ("cpufeatures", "of sha2: which instructions the processor has"),
    ("crypto-common", "of digest"),
    ("ctutils", "of hmac: comparison in constant time"),
    ("digest", "of sha2 and hmac"),
    ("hybrid-array", "of digest"),
    ("itoa", "of serde_json"),
    ("libc", "of cpufeatures, on some ARM systems only: reads the processor's features"),
    ("memchr", "of serde_json"),
    ("proc-macro2", "of the derives, at build time"),
    ("quote", "of the derives, at build time"),
    ("serde_core", "of serde"),
    ("serde_derive", "of serde, at build time"),
    ("syn", "of the derives, at build time"),
    ("thiserror-impl", "of thiserror, at build time"),
    ("typenum", "of hybrid-array"),
    ("unicode-ident", "of the derives, at build time"),
    ("zmij", "of serde_json: numbers to text"),
];

/// Linked to only where a feature asks for it. What they link to themselves is not looked at: they could do I/O, and are not asked to.
const ON_REQUEST: &[OnRequest] = &[OnRequest {
    package: "ring",
    reason: "digests, on processors without instructions for them in half the time",
    only_in: "crates/hapax-core/src/sha.rs",
}];

struct OnRequest {
    package: &'static str,
    reason: &'static str,
    /// The one file that may name it.
    only_in: &'static str,
}

/// What pure code has no use for.
const BANNED_WORDS: &[&str] =
    &["std::time::Instant", "Instant::now", "SystemTime", "std::fs", "std::net", "std::thread", "std::env", "tokio"];

pub(super) fn check(sources: &Sources, metadata: &Metadata) -> Vec<Finding> {
    let mut findings = dependencies(sources, metadata);
    findings.extend(words(sources));
    findings
}

fn dependencies(sources: &Sources, metadata: &Metadata) -> Vec<Finding> {
    let Some(core) = metadata.member(CORE) else {
        return Vec::new();
    };
    let on_request = |name: &str| ON_REQUEST.iter().any(|known| known.package == name);
    let linked = metadata.linked_with(core, |package| !on_request(&package.name)).into_iter();
    let foreign =
        linked.filter(|linked| !on_request(&linked.name) && ALLOWED.iter().all(|(name, _)| *name != linked.name));
    let always = core
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == Kind::Normal && !dependency.optional && on_request(&dependency.name));
    let always = always.map(|dependency| Finding {
        file: core.manifest.clone(),
        line: sources.get(&core.manifest).map_or(1, |manifest| manifest.line_of(&dependency.name)),
        what: format!("{CORE} always links to {}", dependency.name),
        rule: RULE,
        next: "make it optional, behind a feature that is not on by itself".to_owned(),
    });
    foreign
        .map(|linked| Finding {
            file: core.manifest.clone(),
            line: sources.get(&core.manifest).map_or(1, |manifest| manifest.line_of(&linked.name)),
            what: format!("{CORE} links to {}", linked.name),
            rule: RULE,
            next: "drop it, or write its reason into ALLOWED in xtask/src/tidy/purity.rs if it cannot do I/O"
                .to_owned(),
        })
        .chain(always)
        .collect()
}

fn words(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.texts.iter().filter(|file| file.path.starts_with(CORE_SOURCES)) {
        // Comments may say what the core does not do.
        for (line, code) in file.lines().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            let mut find = |what: &str, next: &str| {
                let (file, what, next) = (file.path.clone(), format!("the core names {what}"), next.to_owned());
                findings.push(Finding { file, line, what, rule: RULE, next });
            };
            if let Some(word) = BANNED_WORDS.iter().find(|word| code.contains(*word)) {
                find(word, "take the value as an argument and let a driver do the rest");
            }
            let elsewhere = ON_REQUEST.iter().filter(|known| file.path != known.only_in);
            for known in elsewhere.filter(|known| names(code, known.package)) {
                find(known.package, &format!("only {} may, for {}; use what that has", known.only_in, known.reason));
            }
        }
    }
    findings
}

/// Whether this package is named, as a word of its own.
fn names(code: &str, package: &str) -> bool {
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == package)
}

/// Where the target is installed, the build itself shows that the core needs no operating system.
pub(super) fn build_for_wasm(root: &Path) -> Result<()> {
    let folder = process::capture(root, &["rustc", "--print", "target-libdir", "--target", WASM]).unwrap_or_default();
    if folder.trim().is_empty() || !Path::new(folder.trim()).is_dir() {
        println!("tidy: {WASM} is not installed, so the core was not built for it (`rustup target add {WASM}`)");
        return Ok(());
    }
    process::run(root, &["cargo", "build", "-p", CORE, "--target", WASM])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Kind::Normal;
    use crate::metadata::made_up::{package, workspace};

    fn third_party(name: &str, dependencies: &[(&str, Kind)]) -> crate::metadata::Package {
        let mut package = package(name, dependencies);
        package.source = Some("registry".to_owned());
        package
    }

    #[test]
    fn a_dependency_that_could_do_io_is_found_however_deep_it_sits() {
        let metadata = workspace(vec![
            package(CORE, &[("bytes", Normal)]),
            third_party("bytes", &[("mio", Normal)]),
            third_party("mio", &[]),
        ]);
        let found = check(&Sources::default(), &metadata);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].what, "hapax-core links to mio");
    }

    #[test]
    fn dev_dependencies_do_not_count() {
        let metadata = workspace(vec![
            package(CORE, &[("bytes", Normal), ("tokio", crate::metadata::Kind::Dev)]),
            third_party("bytes", &[]),
            third_party("tokio", &[]),
        ]);
        assert!(check(&Sources::default(), &metadata).is_empty());
    }

    #[test]
    fn a_clock_in_the_core_is_found_but_not_in_a_comment_or_elsewhere() {
        let sources = Sources::made_of(&[
            ("crates/hapax-core/src/lease.rs", "//! No tokio here.\nuse std::time::SystemTime;\n    // std::fs\n"),
            ("crates/hapax-engine/src/lib.rs", "use tokio::sync::Notify;\n"),
        ]);
        let found = check(&sources, &workspace(vec![]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].line, found[0].what.as_str()), (2, "the core names SystemTime"));
    }

    /// It is linked to where a feature asks for it, with all that it brings, and used in one place for one thing.
    #[test]
    fn what_is_linked_on_request_is_named_in_one_file() {
        let linked_to = |core: &[(&str, Kind)], optional: bool| {
            let ring = third_party("ring", &[("getrandom", Normal)]);
            let mut core = package(CORE, core);
            core.dependencies.iter_mut().for_each(|dependency| dependency.optional = optional);
            workspace(vec![core, ring, third_party("getrandom", &[])])
        };
        assert!(check(&Sources::default(), &linked_to(&[("ring", Normal)], true)).is_empty());
        for (dependencies, optional) in
            [(&[("ring", Normal), ("getrandom", Normal)][..], true), (&[("ring", Normal)], false)]
        {
            let found = check(&Sources::default(), &linked_to(dependencies, optional));
            assert_eq!(found.len(), 1, "{found:?}");
        }
        let text = "use ring as of_another;\nlet name = String::new();\n";
        let sources =
            Sources::made_of(&[("crates/hapax-core/src/sha.rs", text), ("crates/hapax-core/src/lease.rs", text)]);
        let found = check(&sources, &workspace(vec![]));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].file.as_str(), found[0].line), ("crates/hapax-core/src/lease.rs", 1));
    }

    #[test]
    fn every_allowed_package_has_a_reason() {
        let on_request = ON_REQUEST.iter().map(|known| (known.package, known.reason));
        let mut all = ALLOWED.iter().copied().chain(on_request);
        assert!(all.all(|(name, reason)| !name.is_empty() && !reason.is_empty()));
    }
}
