//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Every connection is an open file, and many systems begin a process with a thousand although it may have more. What it
/// may have, it takes; without it the limits of our own would never be reached.
pub(crate) fn take_all() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let _as_it_was = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// How many there may be at once; `None`: any number.
pub(crate) fn most() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
