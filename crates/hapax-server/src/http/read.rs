//! Reads a request's body, no further and no longer than it may.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hapax_core::Millis;
use hapax_http1::Incoming;
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::room::BodyRoom;
use crate::{limits::Limits, problem::Problem};

/// A request's body: still on its way, with the room that it takes, or read already.
#[derive(Debug)]
pub(crate) enum Sent {
    Coming(Incoming, Arc<BodyRoom>),
    Whole(Bytes),
}

pub(crate) async fn bytes(body: Sent, limits: &Limits) -> Result<Bytes, Problem> {
    let (body, room) = match body {
        Sent::Coming(body, room) => (body, room),
        Sent::Whole(bytes) => return Ok(bytes),
    };
    match body.into_whole() {
        Ok(whole) => fits(whole.len(), &room, limits).map(|()| whole),
        // Large: what came whole does not carry its weight.
        Err(coming) => Box::pin(gathered(coming, room, limits)).await,
    }
}

/// What comes in pieces.
async fn gathered(mut body: Incoming, room: Arc<BodyRoom>, limits: &Limits) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > limits.body as u64 {
        return Err(Problem::too_large(limits.body));
    }
    let collected = async {
        let mut all = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(Problem::bad_request("the body broke off; send it again")) };
            let Ok(data) = frame.into_data() else { continue };
            fits(all.len() + data.len(), &room, limits)?;
            // Many clients send a head and then a body, which is one piece.
            if all.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            all.extend_from_slice(&data);
        }
        Ok(all.freeze())
    };
    tokio::time::timeout(limits.body_time, collected).await.unwrap_or_else(|_| Err(Problem::too_slow()))
}

/// Whether a body of so many bytes may be held.
fn fits(bytes: usize, room: &BodyRoom, limits: &Limits) -> Result<(), Problem> {
    if bytes > limits.body {
        return Err(Problem::too_large(limits.body));
    }
    if !room.grow_to(bytes) {
        let detail = "as many bytes are in flight as may; send it again when some have been answered";
        return Err(Problem::too_many(detail, Millis::from_secs(1)));
    }
    Ok(())
}

/// A body that is JSON of this shape.
pub(crate) async fn json<T: DeserializeOwned>(headers: &HeaderMap, body: Sent, limits: &Limits) -> Result<T, Problem> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    // Anything else could be sent by another site's page in a visitor's browser without asking.
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Err(Problem::not_json());
    }
    let bytes = bytes(body, limits).await?;
    if is_deeper(&bytes, limits.json_depth) {
        return Err(Problem::bad_request(format!("the JSON is nested deeper than {}", limits.json_depth)));
    }
    // An array would be taken for the fields of an object in their order, which nobody means.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::bad_request("the body is a JSON object, written with `{` and `}`"));
    }
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(in_words(&error)))
}

/// A body that is text.
pub(crate) async fn text(body: Sent, limits: &Limits) -> Result<String, Problem> {
    let bytes = bytes(body, limits).await?;
    String::from_utf8(bytes.into()).map_err(|_| Problem::bad_request("the body is not UTF-8"))
}

/// Where it went wrong. What was found there is not repeated: it may be a key or a secret.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!("line {}, column {}", error.line(), error.column());
    let named = ["unknown field `", "missing field `"].iter().any(|start| text.starts_with(start));
    if named && text.len() < 400 {
        return text;
    }
    match error.classify() {
        serde_json::error::Category::Data => {
            format!("the JSON has a value at {place} that does not fit; /openapi.json says what does")
        }
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
            format!("the body is not JSON at {place}")
        }
        serde_json::error::Category::Eof => "the JSON ends too early".to_owned(),
    }
}

/// Whether brackets are nested deeper than this. Most bodies have not as many in all, which is soon counted.
fn is_deeper(json: &[u8], most: usize) -> bool {
    memchr::memchr2_iter(b'{', b'[', json).nth(most).is_some() && depth(json) > most
}

/// How deep brackets are nested outside of texts.
fn depth(json: &[u8]) -> usize {
    let (mut deepest, mut now, mut in_text, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in json {
        if in_text {
            match (escaped, byte) {
                (true, _) => escaped = false,
                (false, b'\\') => escaped = true,
                (false, b'"') => in_text = false,
                (false, _) => {}
            }
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_inside_texts_are_no_depth() {
        assert_eq!(depth(br#"{"a":[1,{"b":"[[[[\"[["}]}"#), 3);
        assert_eq!(depth(b"1"), 0);
        assert_eq!(depth(&b"[".repeat(1000)), 1000);
    }

    #[test]
    fn many_brackets_side_by_side_are_not_deep() {
        let side_by_side = format!("[{}]", "[],".repeat(100));
        assert!(is_deeper(side_by_side.as_bytes(), 1) && !is_deeper(side_by_side.as_bytes(), 2));
        assert!(is_deeper(b"[[[1]]]", 2) && !is_deeper(b"[[[1]]]", 3));
        assert!(!is_deeper(br#"{"a":"[[[["}"#, 1));
    }
}
