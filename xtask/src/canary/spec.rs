//! One planted bug, as `canary/NAME.toml` describes it.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::failure::{Failure, Result, While};

#[derive(Debug)]
pub(crate) struct Canary {
    pub(crate) name: String,
    /// What the bug would do to a user.
    pub(crate) story: String,
    /// The run that claims to find it.
    pub(crate) command: Vec<String>,
    /// Must appear in the failing output, so that the run fails for the right reason.
    pub(crate) expect: Option<String>,
    edits: Vec<Edit>,
}

#[derive(Debug)]
struct Edit {
    file: String,
    find: String,
    replace: String,
}

impl Canary {
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let read = || format!("canary `{name}` cannot be read");
        let table: Table = text.parse().while_doing(read)?;
        Self::from_table(name, &table).map_err(|why| Failure::new(format!("{}: {why}", read())))
    }

    fn from_table(name: &str, table: &Table) -> Result<Self, String> {
        only(table, &["story", "command", "expect", "edit"])?;
        let command = match table.get("command") {
            Some(Value::Array(words)) if !words.is_empty() => words
                .iter()
                .map(|word| word.as_str().map(str::to_owned).ok_or("`command` is a list of strings"))
                .collect::<Result<_, _>>()?,
            _ => return Err("`command` is missing: a list of strings, one per word".to_owned()),
        };
        let edits = match table.get("edit") {
            Some(Value::Array(edits)) if !edits.is_empty() => edits.iter().map(edit).collect::<Result<_, _>>()?,
            _ => return Err("an [[edit]] with file, find and replace is missing".to_owned()),
        };
        let expect = if table.contains_key("expect") { Some(string(table, "expect")?) } else { None };
        Ok(Self { name: name.to_owned(), story: string(table, "story")?, command, expect, edits })
    }

    pub(crate) fn uses_nextest(&self) -> bool {
        self.command.iter().take(2).map(String::as_str).eq(["cargo", "nextest"])
    }

    /// The edited files with their text after all edits. `read` gives a file's present text.
    ///
    /// Each `find` must occur exactly once: with none the canary is stale, with several it is not known which place
    /// was meant.
    pub(crate) fn planted(&self, read: impl Fn(&str) -> Option<String>) -> Result<BTreeMap<String, String>> {
        let mut files = BTreeMap::new();
        for edit in &self.edits {
            let before = match files.get(&edit.file) {
                Some(text) => String::clone(text),
                None => read(&edit.file).ok_or_else(|| self.stale(&format!("{} does not exist", edit.file)))?,
            };
            let after = edit.apply(&before).map_err(|why| self.stale(&why))?;
            files.insert(edit.file.clone(), after);
        }
        Ok(files)
    }

    fn stale(&self, why: &str) -> Failure {
        Failure::new(format!("canary `{}` is stale: {why}; correct canary/{}.toml", self.name, self.name))
    }
}

impl Edit {
    fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.find).count() {
            1 => Ok(text.replacen(&self.find, &self.replace, 1)),
            0 => Err(format!("{} does not contain {:?}", self.file, self.find)),
            many => Err(format!("{} contains {:?} {many} times instead of once", self.file, self.find)),
        }
    }
}

fn edit(value: &Value) -> Result<Edit, String> {
    let table = value.as_table().ok_or("[[edit]] is a table")?;
    only(table, &["file", "find", "replace"])?;
    let edit = Edit { file: string(table, "file")?, find: string(table, "find")?, replace: string(table, "replace")? };
    if edit.find.is_empty() || edit.find == edit.replace {
        return Err("an edit must find something and change it".to_owned());
    }
    // Edits stay in the scratch copy.
    if edit.file.starts_with('/') || edit.file.split('/').any(|part| part == "..") {
        return Err(format!("`{}` is not a path inside the repository", edit.file));
    }
    Ok(edit)
}

fn string(table: &Table, key: &str) -> Result<String, String> {
    let value = table.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
    value.as_str().map(str::to_owned).ok_or_else(|| format!("`{key}` is a string"))
}

/// A misspelt key would silently weaken the canary.
fn only(table: &Table, known: &[&str]) -> Result<(), String> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("`{key}` is not one of {}", known.join(", "))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "story = \"the token is ignored\"\ncommand = [\"cargo\", \"nextest\", \"run\"]\n";

    fn with_edits(edits: &[(&str, &str, &str)]) -> Canary {
        let mut text = HEAD.to_owned();
        for (file, find, replace) in edits {
            text.push_str(&format!("[[edit]]\nfile = {file:?}\nfind = {find:?}\nreplace = {replace:?}\n"));
        }
        Canary::parse("token", &text).unwrap()
    }

    fn source(path: &str) -> Option<String> {
        (path == "a.rs").then(|| "if token == held { yes() } else { no() }".to_owned())
    }

    #[test]
    fn an_edit_replaces_its_one_place() {
        let planted = with_edits(&[("a.rs", "token == held", "true")]).planted(source).unwrap();
        assert_eq!(planted["a.rs"], "if true { yes() } else { no() }");
    }

    #[test]
    fn later_edits_see_earlier_ones() {
        let planted = with_edits(&[("a.rs", "no()", "yes() ")]).planted(source).unwrap();
        assert_eq!(planted["a.rs"].matches("yes()").count(), 2);
        let planted =
            with_edits(&[("a.rs", "no()", "maybe()"), ("a.rs", "maybe()", "sure()")]).planted(source).unwrap();
        assert!(planted["a.rs"].ends_with("else { sure() }"));
    }

    #[test]
    fn a_place_that_is_gone_or_not_unique_makes_the_canary_stale() {
        for (file, find) in [("a.rs", "nonce"), ("a.rs", "()"), ("b.rs", "x")] {
            let failure = with_edits(&[(file, find, "z")]).planted(source).unwrap_err().to_string();
            assert!(failure.contains("`token` is stale"), "{failure}");
        }
    }

    #[test]
    fn a_canary_that_would_prove_nothing_is_refused() {
        let edit = |edit: &str| format!("{HEAD}[[edit]]\n{edit}\n");
        for text in [
            HEAD.to_owned(),
            edit("file = \"a\"\nfind = \"x\"\nreplace = \"x\""),
            edit("file = \"a\"\nfind = \"\"\nreplace = \"x\""),
            edit("file = \"../a\"\nfind = \"x\"\nreplace = \"y\""),
            edit("file = \"/a\"\nfind = \"x\"\nreplace = \"y\""),
            edit("file = \"a\"\nfind = \"x\"\nreplace = \"y\"\nexpects = \"misspelt\""),
            "story = \"no command\"\n[[edit]]\nfile = \"a\"\nfind = \"x\"\nreplace = \"y\"".to_owned(),
            "not toml".to_owned(),
        ] {
            assert!(Canary::parse("bad", &text).is_err(), "{text}");
        }
    }
}
