//! The head of an answer.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};

use super::{
    fault::Fault,
    length::{Extent, Said},
};
use crate::grammar::{is_value, names, split, trimmed};

const MALFORMED: Fault = Fault::Head("it is malformed");
const TOO_MANY: Fault = Fault::Head("it has too many headers");

/// A head, and what it says about what comes after it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    said: Said,
    /// Another request may follow.
    pub(super) keeps: bool,
}

impl Head {
    /// All lines of it, with the empty one at their end. Its values share these bytes.
    pub(super) fn read(bytes: &Bytes, most_headers: usize) -> Result<Self, Fault> {
        let mut lines = Lines(bytes);
        let (version, status) = lines.next().and_then(begun_by).ok_or(MALFORMED)?;
        let (mut said, mut closes) = (Said::default(), false);
        // Most have about so many; what has more is made room for.
        let mut headers = HeaderMap::with_capacity(12);
        for line in lines {
            if line.is_empty() {
                break;
            }
            if headers.len() == most_headers {
                return Err(TOO_MANY);
            }
            let (name, value) = named(bytes, line).ok_or(MALFORMED)?;
            said.hear(&name, &value)?;
            closes |= name == header::CONNECTION && names(value.as_bytes(), b"close");
            headers.try_append(name, value).map_err(|_| TOO_MANY)?;
        }
        let mut response = Response::new(());
        (*response.version_mut(), *response.status_mut()) = (version, status);
        *response.headers_mut() = headers;
        Ok(Self { response, said, keeps: version == Version::HTTP_11 && !closes })
    }

    /// The answer itself comes after it.
    pub(super) fn is_interim(&self) -> bool {
        self.response.status().is_informational() && !self.ends_http()
    }

    /// What comes after it is no HTTP.
    fn ends_http(&self) -> bool {
        self.response.status() == StatusCode::SWITCHING_PROTOCOLS
    }

    /// How the body after it is delimited, given what was asked.
    pub(super) fn extent(&mut self, method: &Method) -> Result<Extent, Fault> {
        self.said.is_said_once()?;
        let status = self.response.status();
        let tunnel = *method == Method::CONNECT && status.is_success();
        self.keeps &= !self.ends_http() && !tunnel;
        let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
        if bodiless || self.ends_http() || tunnel || *method == Method::HEAD {
            return Ok(Extent::Counted(0));
        }
        self.said.extent(self.response.version() == Version::HTTP_11)
    }
}

/// The lines of a head, each of which ends with a line feed, most with a carriage return before it.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (line, rest) = split(self.0, b'\n')?;
        self.0 = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// A version and a status; why it is that may be said too, and is not listened to.
fn begun_by(line: &[u8]) -> Option<(Version, StatusCode)> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let version = match rest.first()? {
        b'1' => Version::HTTP_11,
        b'0' => Version::HTTP_10,
        _ => return None,
    };
    let (status, reason) = rest.get(1..)?.strip_prefix(b" ")?.split_at_checked(3)?;
    let is_plain = reason.is_empty() || reason.starts_with(b" ") && is_value(reason);
    StatusCode::from_bytes(status).ok().filter(|_| is_plain).map(|status| (version, status))
}

/// A name and a value, which shares the bytes that the line is of. What neither may be made of is found where they are made.
fn named(bytes: &Bytes, line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = split(line, b':')?;
    let value = bytes.slice_ref(trimmed(value));
    Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_maybe_shared(value).ok()?))
}
