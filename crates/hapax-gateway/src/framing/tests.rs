use super::*;

fn see(bytes: &[u8]) -> (Framing, Result<(), Violation>) {
    let mut framing = Framing::default();
    let seen = framing.see(bytes).map_err(|(_, violation)| violation);
    (framing, seen)
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
    let (framing, seen) = see(stream);
    assert_eq!(seen, Ok(()));
    assert_eq!((framing.requests(), framing.phase()), (6, Phase::Between));
}

/// However the network cuts a stream into pieces, it is judged alike.
#[test]
fn pieces_change_nothing() {
    let good = [
        request("Content-Length: 3\r\n"),
        b"abc".to_vec(),
        request("Transfer-Encoding: chunked\r\n"),
        b"3\r\nabc\r\n0\r\n\r\n".to_vec(),
    ]
    .concat();
    let bad = [request(""), b"GET / HTTP/1.1\r\nHost: a\r\nX: y\nContent-Length: 4\r\n\r\n".to_vec()].concat();
    for (stream, passes) in [(good, true), (bad, false)] {
        for cut in 1..stream.len() {
            let mut framing = Framing::default();
            let both = framing.see(&stream[..cut]).and_then(|()| framing.see(&stream[cut..]));
            assert_eq!(both.is_ok(), passes, "cut at {cut}");
        }
        let mut framing = Framing::default();
        let each = stream.iter().try_for_each(|byte| framing.see(&[*byte]));
        assert_eq!(each.is_ok(), passes);
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
        assert_eq!(see(&request(lines)).1, Err(why), "{lines:?}");
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
        assert_eq!(see(bytes.as_bytes()).1, Err(Violation::RequestLine), "{line:?}");
    }
    assert_eq!(see(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n").1, Err(Violation::Connect));
    assert_eq!(see(b"GET / HTTP/1.1\nHost: a\n\n").1, Err(Violation::LineEnd));
    assert_eq!(see(b"\r\n\r\nGET / HTTP/1.1\r\n").1, Err(Violation::RequestLine));
    assert_eq!(see(b"GET / HTTP/1.1\r\n\r\n").1, Err(Violation::Host));
}

#[test]
fn old_requests_have_no_chunks() {
    assert_eq!(see(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").1, Err(Violation::TransferEncoding));
    assert_eq!(see(b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\na").1, Ok(()));
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
        assert_eq!(see(&bytes).1, Err(why), "{body:?}");
    }
    let long = format!("1;{}\r\na\r\n", "x".repeat(300));
    let bytes = [request("Transfer-Encoding: chunked\r\n"), long.into_bytes()].concat();
    assert_eq!(see(&bytes).1, Err(Violation::Chunk));
}

/// What may be passed on of refused bytes holds no end of the line that was refused: the server behind cannot have
/// taken it for whole.
#[test]
fn the_end_of_a_refused_line_is_never_passed_on() {
    let bytes = request("X: a\nY: b\r\n");
    let mut framing = Framing::default();
    let (passed, _) = framing.see(&bytes).unwrap_err();
    assert_eq!(&bytes[..passed], b"POST /pay HTTP/1.1\r\nHost: a\r\n");
    assert_eq!(framing.see(b"anything"), Err((0, Violation::LineEnd)));
}

#[test]
fn lines_without_end_are_bounded() {
    let mut framing = Framing::default();
    let endless = vec![b'a'; 1024];
    let seen = (0..100).try_for_each(|_| framing.see(&endless));
    assert_eq!(seen.unwrap_err().1, Violation::TooLong);
    let many = "X: a\r\n".repeat(MOST_LINES + 1);
    assert_eq!(see(&request(&many)).1, Err(Violation::TooLong));
}
