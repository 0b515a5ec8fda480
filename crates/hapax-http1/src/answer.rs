//! The head of an answer, and how its body is delimited.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header, response};
use http_body::SizeHint;

use crate::{
    date,
    grammar::{Head, names},
};

/// How a body that is sent is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Framing {
    /// There is none, whatever the head says.
    None,
    /// So much is still to come.
    Counted(u64),
    Chunked,
    /// By the end of the connection.
    Closing,
}

/// What was asked, as far as it matters to the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) for_head: bool,
    pub(crate) version: Version,
    pub(crate) trailers: bool,
    /// Whether another request may follow.
    pub(crate) keeps: bool,
}

impl Asked {
    /// Whatever it was, nothing follows.
    pub(crate) const LAST: Self = Self { for_head: false, version: Version::HTTP_11, trailers: false, keeps: false };

    pub(crate) fn by(head: &Head) -> Self {
        let for_head = *head.request.method() == Method::HEAD;
        Self { for_head, version: head.request.version(), trailers: head.trailers, keeps: head.keeps }
    }
}

/// Writes the head. Also says whether the connection is of use afterwards.
pub(crate) fn begin(out: &mut Vec<u8>, head: &response::Parts, body: &SizeHint, asked: Asked) -> (Framing, bool) {
    let said = head.headers.get(header::CONTENT_LENGTH).and_then(number);
    let framing = framing(head.status, body.exact().or(said), asked);
    // What follows an interim answer is taken for the answer itself, so nothing may.
    let keeps = asked.keeps && framing != Framing::Closing && !head.status.is_informational();
    out.reserve(256 + head.headers.len() * 48);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(head.status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(head.status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in &head.headers {
        if is_of_the_connection(name) {
            continue;
        }
        line(out, name.as_str(), value.as_bytes());
    }
    match framing {
        Framing::Counted(length) => counted(out, length),
        Framing::Chunked => line(out, "transfer-encoding", b"chunked"),
        // What would have come, where that is known.
        Framing::None if asked.for_head && !is_bodiless(head.status) || head.status == StatusCode::NOT_MODIFIED => {
            if let Some(length) = said.or_else(|| body.exact().filter(|length| *length > 0)) {
                counted(out, length);
            }
        }
        Framing::None | Framing::Closing => {}
    }
    if !head.headers.contains_key(header::DATE) {
        line(out, "date", &date::now());
    }
    if !keeps {
        line(out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    (framing, keeps)
}

/// It is about the connection or the length, and said by whoever knows.
pub(crate) fn is_of_the_connection(name: &HeaderName) -> bool {
    [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH].contains(name)
}

fn framing(status: StatusCode, length: Option<u64>, asked: Asked) -> Framing {
    if asked.for_head || is_bodiless(status) || status == StatusCode::NOT_MODIFIED {
        return Framing::None;
    }
    match length {
        Some(length) => Framing::Counted(length),
        None if asked.version == Version::HTTP_11 => Framing::Chunked,
        None => Framing::Closing,
    }
}

/// It has no body whatever is asked, and so no length to speak of.
fn is_bodiless(status: StatusCode) -> bool {
    status.is_informational() || status == StatusCode::NO_CONTENT
}

pub(crate) fn closes(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| names(value.as_bytes(), b"close"))
}

fn number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.parse().ok()
}

pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn counted(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    digits(out, length, 10);
    out.extend_from_slice(b"\r\n");
}

/// The line before a chunk.
pub(crate) fn chunk(out: &mut Vec<u8>, length: usize) {
    digits(out, length as u64, 16);
    out.extend_from_slice(b"\r\n");
}

/// The end of a body in chunks, with those trailers that the head has announced to somebody who takes them.
pub(crate) fn last_chunk(out: &mut Vec<u8>, trailers: Option<(&HeaderMap, &Announced)>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers.iter().flat_map(|(trailers, _)| *trailers) {
        if trailers.is_some_and(|(_, announced)| announced.has(name)) {
            line(out, name.as_str(), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// What says how a message is read, routed or kept has to be said before it.
const ONLY_IN_HEADS: [HeaderName; 13] = [
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::HOST,
    header::MAX_FORWARDS,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// The trailers that a head has announced.
#[derive(Debug)]
pub(crate) struct Announced(Vec<HeaderValue>);

impl Announced {
    /// None: none were.
    pub(crate) fn in_head(headers: &HeaderMap) -> Option<Self> {
        if !headers.contains_key(header::TRAILER) {
            return None;
        }
        Some(Self(headers.get_all(header::TRAILER).iter().cloned().collect()))
    }

    fn has(&self, name: &HeaderName) -> bool {
        let announced = |value: &HeaderValue| names(value.as_bytes(), name.as_str().as_bytes());
        !ONLY_IN_HEADS.contains(name) && self.0.iter().any(announced)
    }
}

fn digits(out: &mut Vec<u8>, mut number: u64, base: u64) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b"0123456789abcdef"[(number % base) as usize];
        number /= base;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
}
