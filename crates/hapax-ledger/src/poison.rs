//! After an I/O error on the write path nobody knows what the disk holds: refuse everything, and say why.

use std::sync::OnceLock;

#[derive(Debug, Default)]
pub(crate) struct Poison {
    why: OnceLock<String>,
}

impl Poison {
    /// The first reason stays.
    pub(crate) fn set(&self, why: String) {
        let _ = self.why.set(why);
    }

    pub(crate) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }
}
