//! Answers that can be read in two ways: what one reader takes for surplus is the next client's answer. None of it gets
//! through, on this connection or on any other.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support::{Conn, Dir, Reply, Start, Upstream, get, request};

/// What an upstream, or whoever sits in it, would like the next client to take for its answer.
const PLANTED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nplanted";

/// Each is to be refused.
fn refused() -> Vec<(&'static str, String)> {
    let answer = |lines: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{lines}\r\n{body}");
    let chunks = format!("3\r\nabc\r\n0\r\n\r\n{PLANTED}");
    let long = format!("{:x}\r\nabc{PLANTED}\r\n0\r\n\r\n", PLANTED.len() + 3);
    vec![
        ("TE.CL, the length shorter", answer("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", &long)),
        ("CL.TE, the length shorter", answer("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", &long)),
        ("CL.TE, the length longer", answer("Content-Length: 80\r\nTransfer-Encoding: chunked\r\n", &chunks)),
        ("CL.TE, no length at all", answer("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", &long)),
        ("two lengths", answer("Content-Length: 3\r\nContent-Length: 50\r\n", &format!("abc{PLANTED}"))),
        ("twice the same length", answer("Content-Length: 3\r\nContent-Length: 3\r\n", &format!("abc{PLANTED}"))),
        ("a list of lengths", answer("Content-Length: 3, 3\r\n", &format!("abc{PLANTED}"))),
        ("a signed length", answer("Content-Length: +3\r\n", &format!("abc{PLANTED}"))),
        ("a negative length", answer("Content-Length: -3\r\n", &format!("abc{PLANTED}"))),
        ("a hexadecimal length", answer("Content-Length: 0x3\r\n", &format!("abc{PLANTED}"))),
        ("a length beyond numbers", answer("Content-Length: 99999999999999999999\r\n", "abc")),
        ("another coding", answer("Transfer-Encoding: gzip\r\n", "abc")),
        ("another coding beneath", answer("Transfer-Encoding: gzip, chunked\r\n", &chunks)),
        ("another coding on top", answer("Transfer-Encoding: chunked, gzip\r\n", &chunks)),
        ("two codings", answer("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", &chunks)),
        ("HTTP/1.0 with chunks", format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")),
        ("a chunk size that is none", answer("Transfer-Encoding: chunked\r\n", &format!("zz\r\nabc\r\n{PLANTED}"))),
        ("a chunk size that overflows", answer("Transfer-Encoding: chunked\r\n", "10000000000000003\r\nabc\r\n")),
        ("a chunk without its end", answer("Transfer-Encoding: chunked\r\n", "3\r\nabcdef\r\n0\r\n\r\n")),
        ("NUL in a value", answer("X: a\0b\r\nContent-Length: 3\r\n", "abc")),
        ("no version", "200 OK\r\n\r\n".to_owned()),
        ("a status that is none", "HTTP/1.1 2OO OK\r\nContent-Length: 0\r\n\r\n".to_owned()),
        (
            "another protocol",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n".to_owned(),
        ),
    ]
}

/// Each is an answer, with something behind it that is none.
fn with_surplus() -> Vec<(&'static str, String)> {
    vec![
        ("more than its length", format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc{PLANTED}")),
        ("more than its chunks", {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n{PLANTED}")
        }),
        ("a body where none may be", format!("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc{PLANTED}")),
        ("a body of nothing new", format!("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nabc{PLANTED}")),
        ("two answers at once", format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n{PLANTED}")),
    ]
}

/// An answer with chunks and a length was decoded by its chunks and passed on with its length: what was longer than the
/// length came out as the answer to the next request on that connection.
#[test]
fn no_answer_is_longer_for_us_than_for_our_client() {
    let all: Vec<(&str, String, bool)> = refused()
        .into_iter()
        .map(|(name, bytes)| (name, bytes, true))
        .chain(with_surplus().into_iter().map(|(name, bytes)| (name, bytes, false)))
        .collect();
    let bytes: Vec<String> = all.iter().map(|(_, bytes, _)| bytes.clone()).collect();
    let upstream = Upstream::new(move |asked, _, _| match asked.path.strip_prefix("/bad/") {
        Some(number) => Reply::Bytes(bytes[number.parse::<usize>().unwrap()].clone().into_bytes()),
        None => Reply::json(200, "\"good\""),
    });
    let dir = Dir::new();
    let file = format!(
        "[upstream.default]\nurl = \"http://{}\"\nfirst_byte_timeout = \"10s\"\nbody_idle_timeout = \"1s\"\n\
         timeout = \"2s\"\n",
        upstream.address
    );
    let gateway = Start::at(&dir).file(&file).go();
    for (number, (name, _, is_refused)) in all.iter().enumerate() {
        for (method, key) in [("GET", None), ("POST", None), ("POST", Some(("Idempotency-Key", "k1")))] {
            let headers: Vec<_> = key.into_iter().collect();
            let mut conn = Conn::to(gateway.address);
            conn.send(request(method, &format!("/bad/{number}"), &headers, ""));
            // Refused with a word, or broken off where it had begun to flow; never taken for an answer.
            match conn.try_answer(false) {
                Ok(answer) if *is_refused => assert_eq!(answer.status, 502, "{name}: {}", answer.text()),
                Ok(answer) => assert!(!answer.text().contains("planted"), "{name}: {}", answer.text()),
                Err(_) => assert!(is_refused, "{name}: no answer"),
            }
            if conn.try_send(request("GET", "/good", &[], "").as_bytes()).is_ok()
                && let Ok(next) = conn.try_answer(false)
            {
                assert_eq!(next.text(), "\"good\"", "{name}, {method}: what came next");
            }
            assert_eq!(get(gateway.address, "/good").text(), "\"good\"", "{name}, {method}: what came to another");
        }
    }
}
