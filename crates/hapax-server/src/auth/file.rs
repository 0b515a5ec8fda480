//! The file that keys stand in, while the daemon changes it. It stays the operator's file: what it says otherwise,
//! comments included, is left as it is.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use super::keys::{ApiKey, File, KeyError, Keys};

/// How one entry begins.
const ENTRY: &str = "[[key]]";

/// Where keys are written down. One change at a time.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    changing: Mutex<()>,
}

impl KeyFile {
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), changing: Mutex::new(()) }
    }

    /// Whether an entry would be added; false if it is there already, letter for letter.
    pub(crate) fn would_add(&self, entry: &ApiKey) -> Result<bool, KeyError> {
        let _one_at_a_time = self.changing.lock();
        Ok(with(self.read()?, entry)?.0.is_some())
    }

    /// Adds an entry, and hands on all keys after it. One that is there already, letter for letter, is not added again.
    pub(crate) fn add(&self, entry: &ApiKey, put_in_force: impl FnOnce(Keys)) -> Result<(), KeyError> {
        let _one_at_a_time = self.changing.lock();
        let (text, keys) = with(self.read()?, entry)?;
        if let Some(text) = text {
            self.replace(&text)?;
        }
        // Under the lock, so that keys come into force in the order in which they were written down.
        put_in_force(keys);
        Ok(())
    }

    /// The entry of this name, if there is one and it may go.
    pub(crate) fn would_revoke(&self, name: &str) -> Result<Option<ApiKey>, KeyError> {
        let _one_at_a_time = self.changing.lock();
        Ok(without(&self.read()?, name)?.map(|(.., entry)| entry))
    }

    /// Takes the entry of this name out, and hands on all keys after it; false if there was none of this name.
    pub(crate) fn revoke(&self, name: &str, put_in_force: impl FnOnce(Keys)) -> Result<bool, KeyError> {
        let _one_at_a_time = self.changing.lock();
        let Some((text, keys, _)) = without(&self.read()?, name)? else { return Ok(false) };
        self.replace(&text)?;
        put_in_force(keys);
        Ok(true)
    }

    fn read(&self) -> Result<String, KeyError> {
        fs::read_to_string(&self.path).map_err(|error| self.failed(&error))
    }

    /// Whole or not at all: written beside, then moved into its place. Who may read it stays as it was.
    fn replace(&self, text: &str) -> Result<(), KeyError> {
        let written = || -> io::Result<()> {
            let mode = fs::metadata(&self.path)?.permissions().mode() & 0o777;
            let beside = self.path.with_extension("new");
            let _left_over = fs::remove_file(&beside);
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &self.path)?;
            let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs::File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
        };
        written().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> KeyError {
        KeyError::File { path: self.path.clone(), why: error.to_string() }
    }
}

/// The file's text with one more entry, unless it is there already; and all keys after that.
fn with(mut text: String, entry: &ApiKey) -> Result<(Option<String>, Keys), KeyError> {
    let known = parsed(&text)?;
    if let Some(there) = known.key.iter().find(|other| other.name == entry.name) {
        if written(there)? == written(entry)? {
            return Ok((None, Keys::of(known.key)?));
        }
        let rule = "another key has this name; revoke it first, or choose another name".to_owned();
        return Err(KeyError::Entry { name: entry.name.clone(), rule });
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&written(entry)?);
    let keys = Keys::from_toml(&text)?;
    Ok((Some(text), keys))
}

/// The file's text without the entry of this name, all keys after that, and the entry. `None`: there is none of this name.
fn without(text: &str, name: &str) -> Result<Option<(String, Keys, ApiKey)>, KeyError> {
    let refused = |rule: &str| KeyError::Entry { name: name.to_owned(), rule: rule.to_owned() };
    let mut known = parsed(text)?.key;
    let is_it = |block: &&str| parsed(block).is_ok_and(|file| file.key.iter().any(|entry| entry.name == name));
    let rest: String = blocks(text).into_iter().filter(|block| !is_it(block)).collect();
    let left = parsed(&rest)?.key;
    if left.len() == known.len() {
        return Ok(None);
    }
    let entry = known.iter().position(|entry| entry.name == name).map(|at| known.swap_remove(at));
    let Some(entry) = entry.filter(|_| left.len() == known.len()) else {
        return Err(refused("it cannot be told apart from what stands around it; take it out by hand, and send HUP"));
    };
    let keys = Keys::of(left)?;
    if keys.is_empty() {
        return Err(refused("it is the last one, and without any nobody could come in; add another first"));
    }
    Ok(Some((rest, keys, entry)))
}

fn parsed(text: &str) -> Result<File, KeyError> {
    toml::from_str(text).map_err(|error| KeyError::Toml(error.message().to_owned()))
}

fn written(entry: &ApiKey) -> Result<String, KeyError> {
    let text = toml::to_string(entry).map_err(|error| KeyError::Toml(error.to_string()))?;
    Ok(format!("\n{ENTRY}\n{text}"))
}

/// What stands before the first entry, and each entry with what follows it. Comments right above an entry are its own.
fn blocks(text: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let (mut at, mut comments) = (0, None);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with(ENTRY) && at > 0 {
            starts.push(comments.unwrap_or(at));
        }
        comments = if line.trim_start().starts_with('#') { comments.or(Some(at)) } else { None };
        at += line.len();
    }
    starts.push(text.len());
    starts.windows(2).filter_map(|pair| text.get(pair[0]..pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::keys::hash_key;

    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn file(name: &str, text: &str) -> (Temporary, KeyFile) {
        let path = std::env::temp_dir().join(format!("hapax-keys-{name}-{}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        (Temporary(path.clone()), KeyFile::at(path))
    }

    fn entry(name: &str) -> ApiKey {
        ApiKey {
            name: name.to_owned(),
            hash: hash_key(&format!("key of {name}")),
            tenant: "acme".to_owned(),
            principal: None,
            roles: vec!["client".to_owned()],
            capabilities: Vec::new(),
            surfaces: None,
            rate: Some(5),
        }
    }

    #[test]
    fn the_operators_comments_and_permissions_outlive_a_change() {
        let (path, keys) = file("comments", "# ours\n");
        for name in ["one", "two", "three"] {
            keys.add(&entry(name), drop).unwrap();
        }
        let check = |keys: Keys| assert!(keys.find(b"key of two").is_none() && keys.find(b"key of one").is_some());
        assert!(keys.revoke("two", check).unwrap());
        let text = fs::read_to_string(&path.0).unwrap();
        assert!(text.starts_with("# ours\n") && text.contains("\"one\"") && !text.contains("two"), "{text}");
        assert_eq!(fs::metadata(&path.0).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!keys.revoke("two", drop).unwrap());
    }

    /// Each entry goes with the comments right above it, and with no others.
    #[test]
    fn a_comment_goes_with_the_entry_below_it() {
        let text: String = ["one", "two", "three"]
            .map(|name| format!("# of {name}\n# and more of {name}{}", written(&entry(name)).unwrap()))
            .concat();
        let (path, keys) = file("of-each", &format!("# of all\n\n{text}"));
        assert!(keys.revoke("two", drop).unwrap());
        let left = fs::read_to_string(&path.0).unwrap();
        assert!(
            left.contains("# of all") && left.contains("# and more of one") && left.contains("# of three"),
            "{left}"
        );
        assert!(!left.contains("two"), "{left}");
    }

    #[test]
    fn the_same_entry_twice_is_one_and_another_of_its_name_is_refused() {
        let (path, keys) = file("twice", "");
        keys.add(&entry("one"), drop).unwrap();
        let text = fs::read_to_string(&path.0).unwrap();
        keys.add(&entry("one"), drop).unwrap();
        assert_eq!(fs::read_to_string(&path.0).unwrap(), text);
        let other = ApiKey { tenant: "globex".to_owned(), ..entry("one") };
        assert!(keys.add(&other, drop).unwrap_err().to_string().contains("another key has this name"));
        assert!(keys.revoke("one", drop).unwrap_err().to_string().contains("the last one"));
    }
}
