use bytes::BytesMut;
use hapax_http1::grammar::{Body, Ending, Head, Violation};
use hapax_store::Seeded;
use http::Request;

use super::{Target, must, variant};
use crate::mutate;

/// A stream of requests, as the gateway and the server behind it read it.
pub(super) const TARGET: Target = Target {
    name: "proxy-framing",
    about: "any bytes as HTTP/1 requests: cut anywhere they are judged alike, and other servers' parser sees the same requests",
    words: &[
        b"\r\n",
        b"\r\n\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b"\t",
        b"Content-Length: 5",
        b"Content-Length: 0",
        b"Transfer-Encoding: chunked",
        b"transfer-encoding:\tchunked ",
        b"Host: a",
        b"GET / HTTP/1.1",
        b"POST /x HTTP/1.1",
        b"POST /x HTTP/1.0",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b";ext=1",
        b"+",
        b", ",
        b"\xff",
    ],
    seeds: || {
        [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"[..],
            b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"POST /x HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}\r\nGET / HTTP/1.0\r\n\r\n",
        ]
        .map(Vec::from)
        .into()
    },
    make: |random: &mut Seeded| {
        let mut input = Vec::new();
        for _ in 0..=random.below(3) {
            let host = random.pick(&["Host: a\r\n", "host:b\r\n", "Host: a\r\nHost: a\r\n", ""]).copied().unwrap_or("");
            let (lines, body) = random
                .pick(&[
                    ("", ""),
                    ("Content-Length: 3\r\n", "abc"),
                    ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
                    ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
                    ("X: y\r\n z\r\n", ""),
                ])
                .copied()
                .unwrap_or(("", ""));
            input.extend(format!("POST /x HTTP/1.1\r\n{host}{lines}\r\n{body}").into_bytes());
        }
        if random.chance(100) {
            input.extend(mutate::noise(random));
        }
        input
    },
    run,
};

/// So long may a head be, and so many lines have. Inputs are short: limits that they never meet would not be tried.
const MOST_BYTES: usize = 512;
const MOST_HEADERS: usize = 12;

/// One request, as far as there is one, and where in the stream it stands.
#[derive(Debug)]
struct Asked {
    request: Request<()>,
    start: usize,
    head_end: usize,
    body: Vec<u8>,
    /// Where the next begins. None: there is no end of it yet.
    end: Option<usize>,
}

impl Asked {
    fn is_like(&self, other: &Self) -> bool {
        let line =
            |asked: &Self| (asked.request.method().clone(), asked.request.uri().clone(), asked.request.version());
        let places = |asked: &Self| (asked.start, asked.head_end, asked.end);
        line(self) == line(other)
            && places(self) == places(other)
            && self.request.headers() == other.request.headers()
            && self.body == other.body
    }
}

/// The requests in a stream that comes in pieces of so many bytes, and why nothing more of it is read.
fn judged(input: &[u8], step: usize) -> (Vec<Asked>, Option<Violation>) {
    let mut asked = Vec::new();
    let refused = read(input, step, &mut asked).err();
    (asked, refused)
}

fn read(input: &[u8], step: usize, asked: &mut Vec<Asked>) -> Result<(), Violation> {
    let (mut read, mut came) = (BytesMut::new(), 0);
    let mut pieces = input.chunks(step.max(1));
    loop {
        let mut ending = Ending::default();
        let bytes = loop {
            match ending.find_next(&mut read, MOST_BYTES)? {
                Some(bytes) => break bytes,
                None => match pieces.next() {
                    Some(piece) => (came, _) = (came + piece.len(), read.extend_from_slice(piece)),
                    None => return Ok(()),
                },
            }
        };
        let head = Head::read(&bytes, MOST_HEADERS)?;
        let head_end = came - read.len();
        let (start, mut follows) = (head_end - bytes.len(), Body::new(head.length, MOST_BYTES));
        asked.push(Asked { request: head.request, start, head_end, body: Vec::new(), end: None });
        let Some(present) = asked.last_mut() else { return Ok(()) };
        while !follows.is_over() {
            match follows.next(&mut read)? {
                Some(piece) => present.body.extend_from_slice(&piece),
                None if follows.is_over() => {}
                None => match pieces.next() {
                    Some(piece) => (came, _) = (came + piece.len(), read.extend_from_slice(piece)),
                    None => return Ok(()),
                },
            }
        }
        present.end = Some(came - read.len());
    }
}

fn run(input: &[u8]) -> Result<u64, String> {
    let (asked, refused) = judged(input, 1);
    for step in [2, 7, 64, input.len()] {
        let (others, verdict) = judged(input, step);
        // The reason may differ where a line is too long; whether it is refused may not.
        must(verdict.is_some() == refused.is_some(), || format!("cut by {step} it is judged otherwise: {verdict:?}"))?;
        let alike = asked.len() == others.len() && asked.iter().zip(&others).all(|(one, other)| one.is_like(other));
        must(alike, || format!("cut by {step} there are other requests: {others:?} instead of {asked:?}"))?;
    }
    let mut at = 0;
    for (number, one) in asked.iter().enumerate() {
        // Nothing but one empty line is passed over between them.
        let between = input.get(at..one.start).unwrap_or_default();
        must(between.is_empty() || between == b"\r\n", || format!("{between:?} before request {number}"))?;
        match seen_elsewhere(input, one).map_err(|why| format!("request {number}: {why}"))? {
            Elsewhere::Same => {}
            // Refusing more than we do is another server's right; nothing after it is read.
            Elsewhere::Refused => return Ok(1_000 + number as u64),
        }
        match one.end {
            Some(end) => at = end,
            None => return Ok(2_000 + number as u64),
        }
    }
    Ok(refused.map_or(asked.len() as u64, |violation| variant(&violation)))
}

enum Elsewhere {
    Same,
    Refused,
}

/// What the parser of other servers makes of the same bytes.
fn seen_elsewhere(input: &[u8], ours: &Asked) -> Result<Elsewhere, String> {
    let stream = input.get(ours.start..).unwrap_or_default();
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut theirs = httparse::Request::new(&mut headers);
    let length = match theirs.parse(stream) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Err("elsewhere its head goes on".to_owned()),
        Err(_) => return Ok(Elsewhere::Refused),
    };
    let head_end = ours.start + length;
    must(head_end == ours.head_end, || format!("its head ends at {}, and elsewhere at {head_end}", ours.head_end))?;
    same_head(&ours.request, &theirs)?;
    let named = |name: &str| -> Vec<&[u8]> {
        let found = theirs.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value).collect()
    };
    let (chunked, lengths) = (named("transfer-encoding").len(), named("content-length"));
    must(chunked + lengths.len() <= 1, || "it has more than one length".to_owned())?;
    let (body, end) = if chunked == 1 {
        match chunks(input, head_end) {
            Some(found) => found,
            None => {
                return must(ours.end.is_none(), || "elsewhere its body goes on".to_owned()).map(|()| Elsewhere::Same);
            }
        }
    } else {
        let text = lengths.first().map_or_else(|| "0".into(), |value| String::from_utf8_lossy(value));
        let length: usize = text.trim().parse().map_err(|_| format!("`{text}` was taken for a length"))?;
        let end = head_end.saturating_add(length);
        match input.get(head_end..end) {
            Some(body) => (body.to_vec(), end),
            None => {
                return must(ours.end.is_none(), || "elsewhere its body goes on".to_owned()).map(|()| Elsewhere::Same);
            }
        }
    };
    // Chunks that we refuse others may read; those that we read they read alike.
    if let Some(ours_end) = ours.end {
        must(ours_end == end, || format!("it ends at {ours_end}, and elsewhere at {end}"))?;
        must(ours.body == body, || "elsewhere it has another body".to_owned())?;
    }
    Ok(Elsewhere::Same)
}

fn same_head(ours: &Request<()>, theirs: &httparse::Request<'_, '_>) -> Result<(), String> {
    must(theirs.method == Some(ours.method().as_str()), || format!("elsewhere its method is {:?}", theirs.method))?;
    let (path, target) =
        (theirs.path.unwrap_or_default(), ours.uri().path_and_query().map(http::uri::PathAndQuery::as_str));
    must(!path.starts_with('/') || target == Some(path), || format!("its target is {target:?}, and elsewhere {path}"))?;
    must(ours.headers().len() == theirs.headers.len(), || "elsewhere it has other headers".to_owned())?;
    for name in ours.headers().keys() {
        let values: Vec<&[u8]> = ours.headers().get_all(name).iter().map(http::HeaderValue::as_bytes).collect();
        let found = theirs.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name.as_str()));
        let others: Vec<&[u8]> = found.map(|header| header.value).collect();
        must(values == others, || format!("{name} is {values:?}, and elsewhere {others:?}"))?;
    }
    Ok(())
}

/// A body in chunks, and where the next head would be looked for; none: it is not all there.
fn chunks(bytes: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut body = Vec::new();
    loop {
        let rest = bytes.get(at..)?;
        let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(rest) else { return None };
        at += line;
        if size == 0 {
            // Trailers: up to the first empty line.
            loop {
                let rest = bytes.get(at..)?;
                let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
                at += end + 2;
                if end == 0 {
                    return Some((body, at));
                }
            }
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        body.extend_from_slice(bytes.get(at..end)?);
        at = end.checked_add(2)?;
    }
}
