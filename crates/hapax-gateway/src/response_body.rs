//! An upstream's answer: whole, or on its way.

use std::{future::poll_fn, pin::Pin, task::Poll};

use bytes::Bytes;
use hapax_http::{Pieces, is_stream};
use http::HeaderMap;
use http_body::Body;

use crate::body::{BoxError, Out};

/// As much of an answer as is needed to decide how it goes on.
pub(crate) enum Gathered {
    Whole(Bytes, Option<HeaderMap>),
    /// It goes on: too long to keep, or nobody knows when it ends. What came so far stands before the rest.
    Stream {
        first: Bytes,
        rest: Out,
    },
}

/// Gathers a body of known and bearable length to its end, and any other as far as it is there already.
pub(crate) async fn gather(headers: &HeaderMap, mut body: Out, most: u64) -> Result<Gathered, BoxError> {
    let length = body.size_hint().exact();
    if is_stream(headers) || length.is_some_and(|length| length > most) {
        return Ok(Gathered::Stream { first: Bytes::new(), rest: body });
    }
    let counted = length.is_some();
    let mut pieces = Pieces::default();
    let mut trailers = None;
    loop {
        let frame = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            // Its end is not known, so nothing of it is held back.
            Poll::Pending if !counted => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        match frame {
            None => return Ok(Gathered::Stream { first: pieces.joined(), rest: body }),
            Some(None) => return Ok(Gathered::Whole(pieces.joined(), trailers)),
            Some(Some(frame)) => {
                let data = match frame?.into_data() {
                    Ok(data) => data,
                    // They go on with this answer; of a recorded one they are no part.
                    Err(other) => {
                        trailers = other.into_trailers().ok();
                        continue;
                    }
                };
                pieces.add(data);
            }
        }
        if body.is_end_stream() {
            return Ok(Gathered::Whole(pieces.joined(), trailers));
        }
        if pieces.len() as u64 > most {
            return Ok(Gathered::Stream { first: pieces.joined(), rest: body });
        }
    }
}
