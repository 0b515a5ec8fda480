//! An upstream's answer: whole, or on its way.

use std::{future::poll_fn, pin::Pin, task::Poll};

use bytes::{Bytes, BytesMut};
use hapax_http::is_stream;
use http::HeaderMap;
use http_body::Body;

use crate::body::{BoxError, Out};

/// As much of an answer as is needed to decide how it goes on.
pub(crate) enum Gathered {
    Whole(Bytes),
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
    let mut first: Option<Bytes> = None;
    let mut more = BytesMut::new();
    loop {
        let frame = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            // Its end is not known, so nothing of it is held back.
            Poll::Pending if !counted => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        match frame {
            None => return Ok(Gathered::Stream { first: joined(first, more), rest: body }),
            Some(None) => return Ok(Gathered::Whole(joined(first, more))),
            Some(Some(frame)) => {
                // Trailers are not kept.
                let Ok(data) = frame?.into_data() else { continue };
                match &first {
                    None => first = Some(data),
                    Some(begun) => {
                        if more.is_empty() {
                            more.extend_from_slice(begun);
                        }
                        more.extend_from_slice(&data);
                    }
                }
            }
        }
        if body.is_end_stream() {
            return Ok(Gathered::Whole(joined(first, more)));
        }
        let so_far = if more.is_empty() { first.as_ref().map_or(0, Bytes::len) } else { more.len() };
        if so_far as u64 > most {
            return Ok(Gathered::Stream { first: joined(first, more), rest: body });
        }
    }
}

fn joined(first: Option<Bytes>, more: BytesMut) -> Bytes {
    if more.is_empty() { first.unwrap_or_default() } else { more.freeze() }
}
