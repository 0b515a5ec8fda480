//! The head of a request.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use memchr::memchr;

use super::{Violation, line};

/// How the body after a head is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    Counted(u64),
    Chunked,
}

/// A head, and what it says about the connection it came over.
#[derive(Debug)]
pub struct Head {
    pub request: Request<()>,
    pub length: Length,
    /// Whether another request may follow.
    pub keeps: bool,
    /// It waits to be asked for its body.
    pub expects: bool,
    /// It takes what comes after an answer's chunks.
    pub trailers: bool,
}

impl Head {
    /// All lines of it, with the empty one at their end. Its values share these bytes.
    pub fn read(bytes: &Bytes, most_headers: usize) -> Result<Self, Violation> {
        let mut lines = Lines { bytes, at: 0 };
        let (mut request, modern) = begun_by(bytes, lines.next().unwrap_or_default())?;
        let mut said = Said::default();
        // Most have about so many; what has more is made room for.
        let mut headers = HeaderMap::with_capacity(12);
        for line in lines {
            if line.is_empty() {
                continue;
            }
            if headers.len() == most_headers {
                return Err(Violation::TooLong);
            }
            let (name, value) = named(bytes, line)?;
            said.hear(&name, &value)?;
            headers.try_append(name, value).map_err(|_| Violation::TooLong)?;
        }
        let length = said.length(modern)?;
        *request.headers_mut() = headers;
        Ok(Self {
            request,
            length,
            keeps: modern && !said.closes,
            expects: modern && said.expects,
            trailers: said.trailers,
        })
    }
}

/// The lines of a head, of which it is known that each ends with CR LF.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let end = memchr(b'\n', rest)?;
        self.at += end + 1;
        rest.get(..end.saturating_sub(1))
    }
}

fn begun_by(bytes: &Bytes, line: &[u8]) -> Result<(Request<()>, bool), Violation> {
    let refused = Violation::RequestLine;
    let (method, rest) = split(line, b' ').ok_or(refused)?;
    let (target, version) = split(rest, b' ').ok_or(refused)?;
    if !line::is_token(method) || !line::is_target(target) {
        return Err(refused);
    }
    if method == b"CONNECT" {
        return Err(Violation::Connect);
    }
    let origin = target.starts_with(b"/");
    let absolute = starts_like(target, b"http://") || starts_like(target, b"https://");
    let whole_server = target == b"*" && method == b"OPTIONS";
    if !origin && !absolute && !whole_server {
        return Err(refused);
    }
    let version = match version {
        b"HTTP/1.1" => Version::HTTP_11,
        b"HTTP/1.0" => Version::HTTP_10,
        _ => return Err(refused),
    };
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method).map_err(|_| refused)?;
    *request.uri_mut() = Uri::from_maybe_shared(bytes.slice_ref(target)).map_err(|_| refused)?;
    *request.version_mut() = version;
    Ok((request, version == Version::HTTP_11))
}

/// What headers say about the connection, and about where the request ends.
#[derive(Default)]
struct Said {
    hosts: u8,
    length: Option<u64>,
    chunked: bool,
    closes: bool,
    expects: bool,
    trailers: bool,
}

impl Said {
    fn hear(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), Violation> {
        let value = value.as_bytes();
        if *name == header::CONTENT_LENGTH {
            if self.length.is_some() {
                return Err(Violation::ContentLength);
            }
            self.length = Some(plain_number(value)?);
        } else if *name == header::TRANSFER_ENCODING {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Violation::TransferEncoding);
            }
            self.chunked = true;
        } else if *name == header::HOST {
            self.hosts = self.hosts.saturating_add(1);
        } else if *name == header::CONNECTION {
            self.closes |= names(value, b"close");
        } else if *name == header::EXPECT {
            self.expects |= value.eq_ignore_ascii_case(b"100-continue");
        } else if *name == header::TE {
            self.trailers |= names(value, b"trailers");
        }
        Ok(())
    }

    /// The empty line after the head.
    const fn length(&self, modern: bool) -> Result<Length, Violation> {
        if self.hosts > 1 || (modern && self.hosts == 0) {
            return Err(Violation::Host);
        }
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Violation::TwoLengths),
            // Chunks came with HTTP/1.1.
            (None, true) if !modern => Err(Violation::TransferEncoding),
            (None, true) => Ok(Length::Chunked),
            (Some(length), false) => Ok(Length::Counted(length)),
            (None, false) => Ok(Length::Counted(0)),
        }
    }
}

/// A line after the last chunk. What frames or routes a request cannot come after it.
pub(super) fn trailer(line: &[u8]) -> Result<(HeaderName, HeaderValue), Violation> {
    let (name, value) = any_trailer(line)?;
    if ONLY_IN_HEADS.contains(&name) { Err(Violation::Trailer) } else { Ok((name, value)) }
}

/// A line after the last chunk, whatever it is about.
pub(super) fn any_trailer(line: &[u8]) -> Result<(HeaderName, HeaderValue), Violation> {
    let line = Bytes::copy_from_slice(line);
    named(&line, &line)
}

static ONLY_IN_HEADS: [HeaderName; 8] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::HOST,
    header::CONNECTION,
    header::TRAILER,
    header::AUTHORIZATION,
    HeaderName::from_static("idempotency-key"),
    header::COOKIE,
];

/// A name and a value, which shares the bytes that the line is of.
fn named(bytes: &Bytes, line: &[u8]) -> Result<(HeaderName, HeaderValue), Violation> {
    if line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
        return Err(Violation::Folded);
    }
    let (name, value) = split(line, b':').ok_or(Violation::HeaderLine)?;
    // The blank before a colon is found here too: it is no part of a name. So are control characters in a value.
    let name = HeaderName::from_bytes(name).map_err(|_| Violation::HeaderLine)?;
    let value = bytes.slice_ref(line::trimmed(value));
    Ok((name, HeaderValue::from_maybe_shared(value).map_err(|_| Violation::HeaderLine)?))
}

/// One number: no sign, no list, no blank inside, and it fits.
fn plain_number(value: &[u8]) -> Result<u64, Violation> {
    let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    if !digits {
        return Err(Violation::ContentLength);
    }
    Ok(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Whether a list has this in it.
pub(crate) fn names(list: &[u8], wanted: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|one| line::trimmed(one).eq_ignore_ascii_case(wanted))
}

/// What is before a byte, and what after it.
pub(crate) fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr(at, bytes)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

fn starts_like(bytes: &[u8], start: &[u8]) -> bool {
    bytes.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}
