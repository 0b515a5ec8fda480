use hapax_gateway::framing::Framing;
use hapax_store::Seeded;

use super::{Target, must, variant};
use crate::mutate;

/// A stream of requests, as the gateway's watcher and the server behind it read it.
pub(super) const TARGET: Target = Target {
    name: "proxy-framing",
    about: "any bytes as HTTP/1 requests: cut anywhere they are judged alike, and the server's parser sees the same heads",
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

/// Where each head ends, how much may be passed on, and the reason if that is not all.
fn judged(input: &[u8], step: usize) -> (Vec<usize>, usize, Option<u64>) {
    let mut framing = Framing::default();
    let (mut heads, mut passed) = (Vec::new(), 0);
    for piece in input.chunks(step.max(1)) {
        let before = framing.requests();
        match framing.see(piece) {
            Ok(()) => passed += piece.len(),
            Err((more, violation)) => return (heads, passed + more, Some(variant(&violation))),
        }
        // Byte by byte this is the very place.
        heads.extend((before..framing.requests()).map(|_| passed));
    }
    (heads, passed, None)
}

fn run(input: &[u8]) -> Result<u64, String> {
    let (heads, passed, refused) = judged(input, 1);
    for step in [2, 7, 64, input.len()] {
        let (others, _, verdict) = judged(input, step);
        // The reason may differ where a line is too long; whether it is refused may not.
        must(verdict.is_some() == refused.is_some(), || format!("cut by {step} it is judged otherwise"))?;
        must(refused.is_some() || others.len() == heads.len(), || format!("cut by {step} there are other heads"))?;
    }
    let open = input.get(..passed).unwrap_or_default();
    let first = heads.first().and_then(|end| open.get(..*end)).unwrap_or_default();
    must(!first.contains(&0), || "a NUL got into the first head".to_owned())?;
    // The server's own parser, over what it would get to see.
    let mut at = 0;
    for (number, end) in heads.iter().enumerate() {
        let mut headers = vec![httparse::EMPTY_HEADER; 1_100];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = request.parse(open.get(at..).unwrap_or_default()) else {
            // Refusing more than we do is the server's right; nothing after it is read.
            return Ok(1_000 + number as u64);
        };
        must(at + length == *end, || format!("head {number} ends at {end}, and for the server at {}", at + length))?;
        let named = |name: &str| -> Vec<&[u8]> {
            let found = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value).collect()
        };
        let chunked = named("transfer-encoding").len();
        let lengths = named("content-length");
        must(chunked + lengths.len() <= 1, || format!("head {number} has more than one length"))?;
        at = *end;
        if chunked == 1 {
            match after_chunks(open, at) {
                Some(next) => at = next,
                None => return Ok(2_000 + number as u64),
            }
        } else if let Some(value) = lengths.first() {
            let text = String::from_utf8_lossy(value);
            let length: usize = text.trim().parse().map_err(|_| format!("`{text}` was taken for a length"))?;
            at = at.saturating_add(length);
        }
    }
    Ok(refused.unwrap_or(heads.len() as u64))
}

/// Where the server would look for the next head; none: the body is not all there.
fn after_chunks(bytes: &[u8], mut at: usize) -> Option<usize> {
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
                    return Some(at);
                }
            }
        }
        at = at.checked_add(usize::try_from(size).ok()?)?.checked_add(2)?;
    }
}
