//! The head of a request: the lines that decide where it ends.

use super::{Violation, line};
use memchr::memchr;

/// How the body after a head is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Body {
    Counted(u64),
    Chunked,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Head {
    /// HTTP/1.1, which has hosts and chunks.
    modern: bool,
    hosts: u8,
    length: Option<u64>,
    chunked: bool,
}

impl Head {
    pub(super) fn begun_by(line: &[u8]) -> Result<Self, Violation> {
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
        let modern = match version {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            _ => return Err(refused),
        };
        Ok(Self { modern, ..Self::default() })
    }

    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), Violation> {
        let (name, value) = named(line)?;
        if is(name, b"content-length") {
            if self.length.is_some() {
                return Err(Violation::ContentLength);
            }
            self.length = Some(plain_number(line::trimmed(value))?);
        } else if is(name, b"transfer-encoding") {
            if self.chunked || !is(line::trimmed(value), b"chunked") {
                return Err(Violation::TransferEncoding);
            }
            self.chunked = true;
        } else if is(name, b"host") {
            self.hosts = self.hosts.saturating_add(1);
        }
        Ok(())
    }

    /// The empty line after the head.
    pub(super) const fn ended(&self) -> Result<Body, Violation> {
        if self.hosts > 1 || (self.modern && self.hosts == 0) {
            return Err(Violation::Host);
        }
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Violation::TwoLengths),
            (None, true) if !self.modern => Err(Violation::TransferEncoding),
            (None, true) => Ok(Body::Chunked),
            (Some(length), false) => Ok(Body::Counted(length)),
            (None, false) => Ok(Body::Counted(0)),
        }
    }
}

/// A line after the last chunk. What frames or routes a request cannot come after it.
pub(super) fn trailer(line: &[u8]) -> Result<(), Violation> {
    let (name, _) = named(line)?;
    let only_in_heads: [&[u8]; 8] = [
        b"content-length",
        b"transfer-encoding",
        b"host",
        b"connection",
        b"trailer",
        b"authorization",
        b"idempotency-key",
        b"cookie",
    ];
    if only_in_heads.iter().any(|only| is(name, only)) { Err(Violation::Trailer) } else { Ok(()) }
}

fn named(line: &[u8]) -> Result<(&[u8], &[u8]), Violation> {
    if line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) {
        return Err(Violation::Folded);
    }
    let (name, value) = split(line, b':').ok_or(Violation::HeaderLine)?;
    // The blank before a colon is found here too: it is no part of a token.
    if line::is_token(name) && line::is_value(value) { Ok((name, value)) } else { Err(Violation::HeaderLine) }
}

/// One number: no sign, no list, no blank inside, and it fits.
fn plain_number(value: &[u8]) -> Result<u64, Violation> {
    let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    if !digits {
        return Err(Violation::ContentLength);
    }
    Ok(value.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = memchr(at, bytes)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

const fn is(name: &[u8], wanted: &[u8]) -> bool {
    name.eq_ignore_ascii_case(wanted)
}

fn starts_like(bytes: &[u8], start: &[u8]) -> bool {
    bytes.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}
