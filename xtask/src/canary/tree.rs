//! The scratch copy of the repository.
//!
//! Cargo judges by modification times. A file is therefore written only when its content differs, and written files
//! get the present time, also when an original is put back: with its old time cargo would take the build that still
//! has the bug for fresh.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::failure::{Result, While};
use crate::files;

#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Makes `to` equal to the repository at `from`, whatever an interrupted run left there.
    pub(super) fn sync(from: &Path, to: &Path) -> Result<Self> {
        let wanted: BTreeSet<String> = files::list(from)?.into_iter().collect();
        let tree = Self { root: to.to_path_buf() };
        for path in &wanted {
            let content = std::fs::read(from.join(path)).while_doing(|| format!("cannot read {path}"))?;
            tree.write(path, &content)?;
            let permissions =
                std::fs::metadata(from.join(path)).while_doing(|| format!("cannot look at {path}"))?.permissions();
            std::fs::set_permissions(to.join(path), permissions).while_doing(|| format!("cannot prepare {path}"))?;
        }
        // The copy is no git checkout, so this lists all that lies there.
        for path in files::list(to)?.into_iter().filter(|path| !wanted.contains(path) && path != "Cargo.lock") {
            std::fs::remove_file(to.join(&path)).while_doing(|| format!("cannot remove {path} from the copy"))?;
        }
        Ok(tree)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    /// Leaves a file alone that already has this content.
    pub(super) fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let full = self.root.join(path);
        if std::fs::read(&full).is_ok_and(|present| present == content) {
            return Ok(());
        }
        if let Some(folder) = full.parent() {
            std::fs::create_dir_all(folder).while_doing(|| format!("cannot create {}", folder.display()))?;
        }
        std::fs::write(&full, content).while_doing(|| format!("cannot write {}", full.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_copy_follows_the_repository_and_touches_only_what_changed() {
        let (repo, copy) = (Scratch::new("repo"), Scratch::new("copy"));
        repo.write("src/same.rs", "same");
        repo.write("src/changed.rs", "old");
        repo.write("src/removed.rs", "gone soon");
        Tree::sync(repo.path(), copy.path()).unwrap();
        let time = |file: &str| std::fs::metadata(copy.path().join(file)).unwrap().modified().unwrap();
        let before = time("src/same.rs");

        repo.write("src/same.rs", "same");
        repo.write("src/changed.rs", "new");
        std::fs::remove_file(repo.path().join("src/removed.rs")).unwrap();
        let tree = Tree::sync(repo.path(), copy.path()).unwrap();

        assert_eq!(time("src/same.rs"), before);
        assert_eq!(tree.read("src/changed.rs").as_deref(), Some("new"));
        assert_eq!(tree.read("src/removed.rs"), None);
    }

    #[test]
    fn what_an_interrupted_run_left_is_put_right() {
        let (repo, copy) = (Scratch::new("repo"), Scratch::new("copy"));
        repo.write("a.rs", "right");
        let tree = Tree::sync(repo.path(), copy.path()).unwrap();
        tree.write("a.rs", b"bug").unwrap();
        let tree = Tree::sync(repo.path(), copy.path()).unwrap();
        assert_eq!(tree.read("a.rs").as_deref(), Some("right"));
    }
}
