use std::{io::Write, sync::Arc};

use hapax_core::Outcome;
use hapax_engine::{Certainty, Doubt, Found};

use super::Fate;

/// The world outside: what really happened, one line each, in a file that survives whoever writes to it.
#[derive(Clone, Debug)]
pub(super) struct Log {
    path: String,
    fate: Option<Arc<Fate>>,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// The downstream key that it was asked for with.
    pub(super) key: String,
    pub(super) what: String,
}

impl Log {
    pub(super) fn new(path: &str, fate: Option<Arc<Fate>>) -> Self {
        Self { path: path.to_owned(), fate }
    }

    /// It happens: with a point before it, and one after it.
    pub(super) async fn happen(&self, key: &str, what: &str) {
        self.point().await;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.path);
        file.unwrap().write_all(format!("{key} {what}\n").as_bytes()).unwrap();
        self.point().await;
    }

    /// As [`Log::happen`], where whoever does it knows keys: the same key is the same thing.
    pub(super) async fn happen_once(&self, key: &str, what: &str) {
        if self.by_key(key).is_none() {
            self.happen(key, what).await;
        }
    }

    async fn point(&self) {
        if let Some(fate) = &self.fate {
            fate.point().await;
        }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let entry = |line: &str| {
            let (key, what) = line.split_once(' ')?;
            Some(Entry { key: key.to_owned(), what: what.to_owned() })
        };
        text.lines().filter_map(entry).collect()
    }

    pub(super) fn whats(&self) -> Vec<String> {
        self.entries().into_iter().map(|entry| entry.what).collect()
    }

    pub(super) fn by_key(&self, key: &str) -> Option<String> {
        self.entries().into_iter().find(|entry| entry.key == key).map(|entry| entry.what)
    }

    /// What a probe that asks the world finds. Whoever was at it was killed, so what has not happened will not.
    pub(super) fn found(&self, doubt: &Doubt) -> Found {
        match self.by_key(&doubt.downstream_key) {
            Some(what) => Found::Applied(Outcome::success(serde_json::to_vec(&what).unwrap())),
            None => Found::NotApplied(Certainty::OwnerGone),
        }
    }
}
