//! A server over the crate, and a client that knows nothing of it.

mod body;
mod client;
mod server;

use std::time::Duration;

use bytes::Bytes;
use hapax_http1::{Limits, Manners, Rest, grammar::Violation};
use http::Response;

pub(crate) use body::{Out, Pieces, echo, empty, full, whole};
pub(crate) use client::Client;
pub(crate) use server::{Log, Server};

/// Whatever has not happened by then does not happen.
pub(crate) const LONG: Duration = Duration::from_secs(20);

pub(crate) const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// No limit of these is met by a test that does not mean to.
pub(crate) fn patient() -> Manners {
    Manners {
        limits: Limits {
            idle: LONG,
            head: LONG,
            body_pause: LONG,
            reader: LONG,
            least_read: 1,
            head_bytes: 8 * 1024,
            headers: 20,
            rest: Rest { time: LONG, ..Rest::default() },
        },
        half_close: false,
        refuse,
    }
}

pub(crate) fn with(change: impl FnOnce(&mut Limits)) -> Manners {
    let mut manners = patient();
    change(&mut manners.limits);
    manners
}

fn refuse(violation: Violation) -> Response<Bytes> {
    let status = if violation == Violation::TooLong { 431 } else { 400 };
    Response::builder().status(status).body(Bytes::from(violation.to_string())).unwrap()
}
