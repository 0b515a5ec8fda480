//! A request's body, read before anything is decided.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

/// Why there is no whole body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    TooLarge,
    TooSlow,
    Broken,
}

pub(crate) async fn read(mut body: Incoming, most: usize, within: Duration) -> Result<Bytes, Unread> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    if body.size_hint().lower() > most as u64 {
        return Err(Unread::TooLarge);
    }
    timeout(within, whole(&mut body, most)).await.unwrap_or(Err(Unread::TooSlow))
}

async fn whole(body: &mut Incoming, most: usize) -> Result<Bytes, Unread> {
    let Some(first) = next(body).await? else { return Ok(Bytes::new()) };
    // Mostly a body comes in one piece, and then it is not copied.
    if body.is_end_stream() && first.len() <= most {
        return Ok(first);
    }
    let mut all = BytesMut::from(first);
    while all.len() <= most {
        match next(body).await? {
            Some(piece) => all.extend_from_slice(&piece),
            None => return Ok(all.freeze()),
        }
    }
    Err(Unread::TooLarge)
}

/// The next piece; trailers are no part of a body that is kept.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Unread> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| if is_slow(&error) { Unread::TooSlow } else { Unread::Broken })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

fn is_slow(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    cause.is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}
