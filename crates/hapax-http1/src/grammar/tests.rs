use bytes::{Bytes, BytesMut};
use http::Version;

use super::*;

const MOST: usize = 64 * 1024;

type Whole = (http::Request<()>, Vec<u8>);

/// Reads requests as a connection does, from pieces of so many bytes: how many whole ones there were, and whether something is left.
fn read_in(stream: &[u8], piece: usize) -> Result<(Vec<Whole>, bool), Violation> {
    let (mut read, mut pieces) = (BytesMut::new(), stream.chunks(piece));
    let mut more = |read: &mut BytesMut| pieces.next().map(|piece| read.extend_from_slice(piece)).is_some();
    let mut requests = Vec::new();
    loop {
        let mut ending = Ending::default();
        let head = loop {
            match ending.find_next(&mut read, MOST)? {
                Some(bytes) => break Head::read(&bytes, 1_000)?,
                None if more(&mut read) => {}
                None => return Ok((requests, !read.is_empty())),
            }
        };
        let (mut body, mut whole) = (Body::new(head.length, MOST), Vec::new());
        while !body.is_over() {
            match body.next(&mut read)? {
                Some(piece) => whole.extend_from_slice(&piece),
                None if body.is_over() || more(&mut read) => {}
                None => return Ok((requests, true)),
            }
        }
        requests.push((head.request, whole));
    }
}

fn see(stream: &[u8]) -> Result<usize, Violation> {
    read_in(stream, MOST).map(|(requests, _)| requests.len())
}

fn request(head_lines: &str) -> Vec<u8> {
    format!("POST /pay HTTP/1.1\r\nHost: a\r\n{head_lines}\r\n").into_bytes()
}

#[test]
fn ordinary_requests_pass_and_end_where_they_end() {
    let stream = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /pay HTTP/1.1\r\nhost:a\r\nContent-Length: 5\r\n\r\nhello\
        \r\nPOST /pay?x=1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n\
        GET http://a/b HTTP/1.1\r\nHost: a\r\nEmpty:\r\nName: caf\xc3\xa9\t x \r\n\r\n\
        OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n\
        GET / HTTP/1.0\r\n\r\n";
    let (requests, left) = read_in(stream, MOST).unwrap();
    assert!(!left);
    let asked: Vec<_> = requests.iter().map(|(request, body)| (request.uri().to_string(), body.len())).collect();
    let wanted = [("/", 0), ("/pay", 5), ("/pay?x=1", 15), ("http://a/b", 0), ("*", 0), ("/", 0)];
    assert_eq!(asked, wanted.map(|(target, length)| (target.to_owned(), length)));
    assert_eq!(requests[2].1, b"hello0123456789");
    assert_eq!(requests[3].0.headers()["name"].as_bytes(), b"caf\xc3\xa9\t x");
    assert_eq!(requests[5].0.version(), Version::HTTP_10);
}

/// However the network cuts a stream into pieces, it is judged alike.
#[test]
fn pieces_change_nothing() {
    let good = [
        request("Content-Length: 3\r\n"),
        b"abc\r\n".to_vec(),
        request("Transfer-Encoding: chunked\r\n"),
        b"3\r\nabc\r\n0\r\n\r\n".to_vec(),
    ]
    .concat();
    let bad = [request(""), b"GET / HTTP/1.1\r\nHost: a\r\nX: y\nContent-Length: 4\r\n\r\n".to_vec()].concat();
    for (stream, passes) in [(good, true), (bad, false)] {
        for piece in 1..stream.len() {
            assert_eq!(
                read_in(&stream, piece).is_ok_and(|(requests, _)| requests.len() == 2),
                passes,
                "pieces of {piece}"
            );
        }
    }
}

#[test]
fn two_lengths_are_refused() {
    for (lines, why) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Violation::TwoLengths),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Violation::TwoLengths),
        ("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", Violation::TwoLengths),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", Violation::ContentLength),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", Violation::ContentLength),
        ("Content-Length: 5, 5\r\n", Violation::ContentLength),
        ("Content-Length: +5\r\n", Violation::ContentLength),
        ("Content-Length: -1\r\n", Violation::ContentLength),
        ("Content-Length: 0x5\r\n", Violation::ContentLength),
        ("Content-Length: 5 5\r\n", Violation::ContentLength),
        ("Content-Length:\r\n", Violation::ContentLength),
        ("Content-Length: 99999999999999999999\r\n", Violation::ContentLength),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: xchunked\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: gzip, chunked\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: chunked, identity\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: identity\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: \"chunked\"\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding: chunked;q=1\r\n", Violation::TransferEncoding),
        ("Transfer-Encoding:\x0bchunked\r\n", Violation::HeaderLine),
        ("Transfer-Encoding : chunked\r\n", Violation::HeaderLine),
        ("Transfer\tEncoding: chunked\r\n", Violation::HeaderLine),
        (" Transfer-Encoding: chunked\r\n", Violation::Folded),
        ("X: a\r\n\tTransfer-Encoding: chunked\r\n", Violation::Folded),
        ("X: a\nTransfer-Encoding: chunked\r\n", Violation::LineEnd),
        ("X: a\rTransfer-Encoding: chunked\r\n", Violation::HeaderLine),
        ("X: a\0b\r\n", Violation::HeaderLine),
        ("X: a\x7f\r\n", Violation::HeaderLine),
        (": a\r\n", Violation::HeaderLine),
        ("X\r\n", Violation::HeaderLine),
        ("Host: b\r\n", Violation::Host),
    ] {
        assert_eq!(see(&request(lines)), Err(why), "{lines:?}");
    }
}

#[test]
fn odd_request_lines_are_refused() {
    for line in [
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / HTTP/1.2",
        "GET / HTTP/2.0",
        "GET / http/1.1",
        "GET / HTTP/01.1",
        "GET /",
        "GET",
        "GET /a b HTTP/1.1",
        "GET /a#b HTTP/1.1",
        "GET a HTTP/1.1",
        "GET ftp://a/ HTTP/1.1",
        "GET * HTTP/1.1",
        "G@T / HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "PRI * HTTP/2.0",
    ] {
        let bytes = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(see(bytes.as_bytes()), Err(Violation::RequestLine), "{line:?}");
    }
    assert_eq!(see(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"), Err(Violation::Connect));
    assert_eq!(see(b"GET / HTTP/1.1\nHost: a\n\n"), Err(Violation::LineEnd));
    assert_eq!(see(b"\r\n\r\nGET / HTTP/1.1\r\n"), Err(Violation::RequestLine));
    assert_eq!(see(b"GET / HTTP/1.1\r\n\r\n"), Err(Violation::Host));
}

#[test]
fn old_requests_have_no_chunks() {
    assert_eq!(see(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(Violation::TransferEncoding));
    assert_eq!(see(b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\na"), Ok(1));
}

#[test]
fn odd_chunks_are_refused() {
    for (body, why) in [
        ("5\nhello\r\n0\r\n\r\n", Violation::LineEnd),
        ("5;a\nb\r\nhello\r\n", Violation::LineEnd),
        ("5;a\rb\r\nhello\r\n", Violation::Chunk),
        ("5 \r\nhello\r\n", Violation::Chunk),
        (" 5\r\nhello\r\n", Violation::Chunk),
        ("0x5\r\nhello\r\n", Violation::Chunk),
        ("+5\r\nhello\r\n", Violation::Chunk),
        ("-1\r\n", Violation::Chunk),
        ("\r\nhello", Violation::Chunk),
        ("5\r\nhelloX\r\n", Violation::Chunk),
        ("5\r\nhello\n0\r\n\r\n", Violation::LineEnd),
        ("10000000000000005\r\nhello\r\n", Violation::Chunk),
        ("ffffffffffffffff\r\n", Violation::Chunk),
        ("0\r\nContent-Length: 5\r\n\r\n", Violation::Trailer),
        ("0\r\nIdempotency-Key: 5\r\n\r\n", Violation::Trailer),
        ("0\r\n folded\r\n\r\n", Violation::Folded),
        ("0\r\nX: a\n\r\n", Violation::LineEnd),
    ] {
        let bytes = [request("Transfer-Encoding: chunked\r\n"), body.as_bytes().to_vec()].concat();
        assert_eq!(see(&bytes), Err(why), "{body:?}");
    }
    let long = format!("1;{}\r\na\r\n", "x".repeat(300));
    let bytes = [request("Transfer-Encoding: chunked\r\n"), long.into_bytes()].concat();
    assert_eq!(see(&bytes), Err(Violation::Chunk));
}

/// What is said about a connection.
#[test]
fn connections_are_kept_unless_somebody_says_otherwise() {
    let head = |text: &str| {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let head = Head::read(&bytes, 10).unwrap();
        (head.keeps, head.expects, head.trailers)
    };
    assert_eq!(head("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), (true, false, false));
    assert_eq!(head("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"), (false, false, false));
    assert_eq!(head("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"), (false, false, false));
    assert_eq!(head("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nTE: trailers\r\n\r\n"), (true, true, true));
}

#[test]
fn heads_without_end_are_bounded() {
    assert_eq!(see(&vec![b'a'; MOST + 1]), Err(Violation::TooLong));
    let many = "X: a\r\n".repeat(1_001);
    assert_eq!(see(&request(&many)), Err(Violation::TooLong));
    let trailers = format!("0\r\n{}\r\n", "X: a\r\n".repeat(MOST / 5));
    let bytes = [request("Transfer-Encoding: chunked\r\n"), trailers.into_bytes()].concat();
    assert_eq!(see(&bytes), Err(Violation::TooLong));
}
