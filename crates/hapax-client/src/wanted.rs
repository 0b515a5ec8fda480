use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::Error;

/// What is asked of the daemon, member by member. Each is kept as the text it was written as: an amount of twenty digits
/// arrives with all of them.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Wanted {
    members: BTreeMap<&'static str, Box<RawValue>>,
    #[serde(skip)]
    problem: Option<String>,
}

impl Wanted {
    pub(crate) fn with(mut self, name: &'static str, value: &(impl Serialize + ?Sized)) -> Self {
        match to_raw_value(value) {
            Ok(text) => drop(self.members.insert(name, text)),
            Err(error) => self.problem = Some(error.to_string()),
        }
        self
    }

    /// In milliseconds.
    pub(crate) fn with_time(self, name: &'static str, time: std::time::Duration) -> Self {
        self.with(name, &u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// With a fresh nonce.
    pub(crate) fn asked(self) -> Result<Self, Error> {
        self.with("nonce", &crate::agents::fresh_nonce()?).whole()
    }

    /// Fails where a value could not be written.
    pub(crate) fn whole(self) -> Result<Self, Error> {
        match self.problem {
            None => Ok(self),
            Some(problem) => Err(Error::Unexpected(problem)),
        }
    }
}
