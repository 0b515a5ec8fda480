//! Which files make up the repository: what git would commit, or, outside a git checkout, what lies there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::failure::{Result, While};
use crate::process;

/// Larger files are data, not text that somebody wrote.
const MAX_TEXT_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    /// Lines with their number, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The first line that contains `needle`, or line 1: a finding always points somewhere.
    pub(crate) fn line_of(&self, needle: &str) -> usize {
        self.lines().find(|(_, line)| line.contains(needle)).map_or(1, |(number, _)| number)
    }
}

/// The repository as the checks see it.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) texts: Vec<TextFile>,
    pub(crate) paths: BTreeSet<String>,
}

impl Sources {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut sources = Self::default();
        for path in list(root)? {
            let full = root.join(&path);
            let bytes = std::fs::metadata(&full).while_doing(|| format!("cannot look at {path}"))?.len();
            if bytes <= MAX_TEXT_BYTES {
                let content = std::fs::read(&full).while_doing(|| format!("cannot read {path}"))?;
                if let Some(text) = String::from_utf8(content).ok().filter(|text| !text.contains('\0')) {
                    sources.texts.push(TextFile { path: path.clone(), text });
                }
            }
            sources.paths.insert(path);
        }
        Ok(sources)
    }

    #[cfg(test)]
    pub(crate) fn made_of(files: &[(&str, &str)]) -> Self {
        let texts = files.iter().map(|(path, text)| TextFile { path: (*path).to_owned(), text: (*text).to_owned() });
        Self { texts: texts.collect(), paths: files.iter().map(|(path, _)| (*path).to_owned()).collect() }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&TextFile> {
        self.texts.iter().find(|file| file.path == path)
    }

    /// A file or a folder of the repository.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.paths.contains(path) || self.paths.iter().any(|known| known.starts_with(&folder))
    }
}

/// All files, sorted, relative to `root`.
pub(crate) fn list(root: &Path) -> Result<Vec<String>> {
    let mut paths = match git_files(root) {
        Some(paths) => paths,
        None => {
            let mut found = Vec::new();
            walk(root, "", &ignored_folders(root), &mut found)?;
            found
        }
    };
    // Git also names files that were deleted but not yet staged, and links whose target is elsewhere.
    paths.retain(|path| root.join(path).is_file());
    paths.sort();
    Ok(paths)
}

/// `None` where git is missing or `root` is not the top of a checkout (a source archive, or a scratch copy inside an
/// ignored folder, where git would list nothing at all).
fn git_files(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let listed = process::capture(root, &["git", "ls-files", "-z", "-co", "--exclude-standard"]).ok()?;
    Some(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// The top-level folders that .gitignore names as `/folder`.
fn ignored_folders(root: &Path) -> BTreeSet<String> {
    let rules = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix('/'))
        .map(|name| name.trim_end_matches('/').to_owned())
        .collect()
}

fn walk(root: &Path, folder: &str, ignored: &BTreeSet<String>, found: &mut Vec<String>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(folder)).while_doing(|| format!("cannot list `{folder}`"))?;
    for entry in entries {
        let entry = entry.while_doing(|| format!("cannot list `{folder}`"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if name == ".git" || name == "target" || ignored.contains(&path) {
            continue;
        }
        if entry.file_type().while_doing(|| format!("cannot look at `{path}`"))?.is_dir() {
            walk(root, &path, ignored, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_source_archive_without_git_is_listed_without_build_output() {
        let scratch = Scratch::new("files");
        scratch.write(".gitignore", "/hapax-data\n");
        scratch.write("src/lib.rs", "");
        scratch.write("target/debug/junk", "");
        scratch.write("hapax-data/segment", "");
        assert_eq!(list(scratch.path()).unwrap(), [".gitignore", "src/lib.rs"]);
    }

    #[test]
    fn binary_files_are_known_by_name_only() {
        let scratch = Scratch::new("files");
        scratch.write("fixture.bin", "a\0b");
        let sources = Sources::read(scratch.path()).unwrap();
        assert!(sources.exists("fixture.bin"));
        assert!(sources.get("fixture.bin").is_none());
    }
}
