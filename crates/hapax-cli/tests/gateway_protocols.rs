//! HTTP as it is spoken: versions, TLS, heads that change on the way, answers without bodies.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support;
use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::support::{Conn, Dir, Reply, Start, Upstream, get, request};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, Version, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).display().to_string()
}

#[test]
fn heads_change_as_a_proxy_has_to_change_them() {
    let upstream = Upstream::new(|_, _, _| {
        Reply::with(
            200,
            &[
                ("Connection", "X-Hop"),
                ("X-Hop", "1"),
                ("Keep-Alive", "timeout=5"),
                ("X-End", "1"),
                ("Via", "1.1 inner"),
            ],
            "{}",
        )
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for key in [None, Some(("Idempotency-Key", "k1"))] {
        let mut headers = vec![
            ("Connection", "keep-alive, X-Mine"),
            ("X-Mine", "1"),
            ("Proxy-Authorization", "Basic x"),
            ("TE", "trailers, deflate"),
            ("X-Forwarded-For", "6.6.6.6"),
            ("Forwarded", "for=6.6.6.6"),
            ("X-End", "1"),
        ];
        headers.extend(key);
        let answer = Conn::to(gateway.address).send(request("POST", "/pay?a=%20b", &headers, "{}")).answer();
        let asked = upstream.asked().pop().unwrap();
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/pay?a=%20b"));
        for gone in ["connection", "x-mine", "proxy-authorization", "keep-alive", "expect"] {
            assert_eq!(asked.header(gone), None, "{gone}");
        }
        assert_eq!(asked.header("te"), Some("trailers"));
        assert_eq!(asked.header("x-end"), Some("1"));
        assert_eq!(asked.header("host"), Some("shop.example"));
        assert_eq!(asked.header("via"), Some("1.1 hapax"));
        assert_eq!(asked.header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(asked.header("forwarded"), Some("for=127.0.0.1;proto=http;host=\"shop.example\""));
        assert_eq!(asked.header("content-length"), Some("2"));
        assert_eq!(answer.header("x-hop"), None);
        assert_eq!(answer.header("keep-alive"), None);
        assert_eq!(answer.header("x-end"), Some("1"));
        assert_eq!(answer.header("via"), Some("1.1 inner, 1.1 hapax"));
        assert!(answer.header("date").is_some());
    }
}

#[test]
fn answers_without_bodies_have_none() {
    let upstream = Upstream::new(|asked, _, _| {
        match (asked.method.as_str(), asked.path.as_str()) {
        ("HEAD", _) => Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"x\"\r\n\r\n".to_vec()),
        (_, "/204") => Reply::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
        (_, "/304") => Reply::Bytes(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec()),
        (_, "/early") => Reply::Bytes(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                .to_vec(),
        ),
        (_, _) => Reply::with(200, &[], ""),
    }
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    // All on one connection: a body where none may be would be taken for the next answer.
    let mut conn = Conn::to(gateway.address);
    let head = conn.send(request("HEAD", "/", &[], "")).answer_to_head();
    assert_eq!((head.status, head.header("content-length"), head.header("etag")), (200, Some("1234"), Some("\"x\"")));
    assert_eq!(conn.send(request("GET", "/304", &[], "")).answer().status, 304);
    for key in ["k1", "k1", "k2"] {
        for path in ["/204", "/empty", "/early"] {
            let answer = conn.send(request("POST", path, &[("Idempotency-Key", key)], "")).answer();
            assert_eq!(answer.status, if path == "/204" { 204 } else { 200 });
            assert_eq!(answer.text(), if path == "/early" { "ok" } else { "" });
        }
    }
    assert_eq!(upstream.count(), 2 + 6);
}

/// A client that asks before it sends its body is told to go on, and the upstream sees an ordinary request.
#[test]
fn expect_100_continue_is_answered_here() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for key in ["", "Idempotency-Key: k1\r\n"] {
        let mut conn = Conn::to(gateway.address);
        conn.send(format!("POST /pay HTTP/1.1\r\nHost: a\r\n{key}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
        assert_eq!(conn.head().unwrap().0, 100);
        assert_eq!(conn.send("{}").answer().status, 201);
        let asked = upstream.asked().pop().unwrap();
        assert_eq!((asked.header("expect"), asked.body.as_slice()), (None, &b"{}"[..]));
    }
}

#[test]
fn old_clients_are_served() {
    let upstream = Upstream::counting();
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send("POST /pay HTTP/1.0\r\nIdempotency-Key: k1\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!(conn.answer().status, 201);
    assert!(conn.closed_within(std::time::Duration::from_secs(10)));
    assert_eq!(upstream.asked()[0].header("via"), Some("1.0 hapax"));
}

/// Trailers of an answer that streams through reach a client that wants them.
#[test]
fn trailers_pass() {
    let upstream = Upstream::new(|_, _, _| {
        Reply::Bytes(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n"
                .to_vec(),
        )
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
    let all = String::from_utf8(conn.rest()).unwrap();
    assert!(all.to_ascii_lowercase().contains("0\r\nx-sum: 7\r\n\r\n"), "{all}");
}

/// A checksum behind an upload that streams through is the upstream's to compare.
#[test]
fn trailers_of_a_request_without_a_key_pass() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let (mut seen, mut piece) = (String::new(), [0; 4_096]);
        while !seen.split_once("\r\n0\r\n").is_some_and(|(_, behind)| behind.ends_with("\r\n\r\n")) {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "{seen}");
            seen.push_str(std::str::from_utf8(&piece[..count]).unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        seen
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(address).go();
    let mut conn = Conn::to(gateway.address);
    conn.send("POST /up HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n");
    assert_eq!(conn.answer().status, 200);
    let seen = upstream.join().unwrap().to_lowercase();
    assert!(seen.contains("trailer: x-sum\r\n") && seen.ends_with("0\r\nx-sum: 7\r\n\r\n"), "{seen}");
}

/// Trailers of a keyed answer: whether all of it was there at the first look is chance, and no reason to lose them.
#[test]
fn trailers_of_a_keyed_answer_do_not_depend_on_chance() {
    let upstream = Upstream::new(|asked, _, stream| {
        let (first, rest) = (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n",
            "0\r\nX-Sum: 7\r\n\r\n",
        );
        if asked.path == "/at-once" {
            return Reply::Bytes([first, rest].concat().into_bytes());
        }
        use std::io::Write as _;
        stream.write_all(first.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        Reply::Bytes(rest.as_bytes().to_vec())
    });
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    for path in ["/at-once", "/in-two"] {
        for number in 0..10 {
            let mut conn = Conn::to(gateway.address);
            conn.send(format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k{number}\r\nTE: trailers\r\n\
                 Connection: TE, close\r\nContent-Length: 0\r\n\r\n"
            ));
            let all = String::from_utf8(conn.rest()).unwrap().to_ascii_lowercase();
            assert!(all.contains("2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n"), "{path}: {all}");
        }
    }
}

async fn http2_client(address: SocketAddr) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn charge(address: SocketAddr, key: &str) -> Request<Full<Bytes>> {
    Request::post(format!("http://{address}/pay"))
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from_static(b"{}")))
        .unwrap()
}

/// HTTP/2 by prior knowledge on both sides, many requests on one connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_on_both_sides() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let (calls, connections) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, opened) = (Arc::clone(&calls), Arc::clone(&connections));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            opened.fetch_add(1, Ordering::SeqCst);
            let counted = Arc::clone(&counted);
            let service = service_fn(move |request: Request<Incoming>| {
                let counted = Arc::clone(&counted);
                async move {
                    assert_eq!(request.version(), Version::HTTP_2);
                    let authority = request.uri().authority().unwrap().to_string();
                    assert!(request.headers().get("connection").is_none());
                    let via = request.headers()["via"].to_str().unwrap().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let number = counted.fetch_add(1, Ordering::SeqCst);
                    let text = format!("{number} {authority} {via} {}", body.len());
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(text))))
                }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    let dir = Dir::new();
    let file = format!("[upstream.default]\nurl = \"http://{upstream}\"\nprotocol = \"http2\"\n");
    let gateway = tokio::task::spawn_blocking(move || (Start::at(&dir).file(&file).go(), dir)).await.unwrap();
    let address = gateway.0.address;
    let mut client = http2_client(address).await;
    let mut answers = Vec::new();
    for round in 0..40 {
        answers.push(client.send_request(charge(address, &format!("k{}", round / 2))));
    }
    let mut replays = 0;
    for answer in answers {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), 200);
        replays += usize::from(answer.headers().contains_key("idempotent-replayed"));
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains(&format!(" {address} 2.0 hapax 2")), "{text}");
    }
    assert_eq!((replays, calls.load(Ordering::SeqCst)), (20, 20));
    for round in 100..120 {
        assert_eq!(client.send_request(charge(address, &format!("k{round}"))).await.unwrap().status(), 200);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1, "one connection carries them all");
}

/// TLS in, with HTTP/2 agreed on the way; TLS out, to an upstream whose root we were told, and refused where we were not.
#[test]
fn tls_in_and_out() {
    let inner = Upstream::counting();
    let (dir, back, other) = (Dir::new(), Dir::new(), Dir::new());
    let behind = Start::at(&back)
        .upstream(inner.address)
        .arg("--tls-certificate", fixture("server.pem"))
        .arg("--tls-key", fixture("server-key.pem"))
        .go();
    let url = format!("https://localhost:{}", behind.address.port());
    let file = format!("[upstream.default]\nurl = \"{url}\"\nca = \"{}\"\nhost = \"upstream\"\n", fixture("ca.pem"));
    let front = Start::at(&dir)
        .file(&file)
        .arg("--tls-certificate", fixture("server.pem"))
        .arg("--tls-key", fixture("server-key.pem"))
        .go();
    for version in ["--http1.1", "--http2"] {
        let output = Command::new("curl")
            .args(["-sS", version, "--cacert", &fixture("ca.pem"), "-H", "Idempotency-Key: k1", "-d", "{}"])
            .args(["-w", "\n%{http_version} %{http_code}", &format!("https://localhost:{}/pay", front.address.port())])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let spoken = if version == "--http2" { "\n2 201" } else { "\n1.1 201" };
        assert_eq!(said, format!("{{\"charge\":0}}{spoken}"), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(inner.count(), 1);
    // The way behind was HTTP/2 as well: each gateway left its mark.
    assert_eq!(inner.asked()[0].header("via"), Some("1.1 hapax, 2.0 hapax"));
    // A certificate of a root that nobody named is not believed, and nothing was sent.
    let distrustful = Start::at(&other).file(&format!("[upstream.default]\nurl = \"{url}\"\n"));
    let distrustful = distrustful.go();
    let answer = support::post(distrustful.address, "/pay", "k1", "{}");
    assert_eq!(answer.status, 502);
    assert!(answer.says("\"safe_new_key\":true"));
    assert_eq!(inner.count(), 1);
}

#[test]
fn large_bodies_stream_through_in_both_directions() {
    let upstream = Upstream::new(|asked, _, _| Reply::with(200, &[], &"y".repeat(asked.body.len())));
    let dir = Dir::new();
    let gateway = Start::at(&dir).upstream(upstream.address).go();
    let body = "x".repeat(5 << 20);
    let mut conn = Conn::to(gateway.address);
    conn.send(request("POST", "/upload", &[], &body));
    assert_eq!(conn.answer().body.len(), 5 << 20);
    assert_eq!(upstream.asked()[0].body.len(), 5 << 20);
    assert_eq!(get(gateway.address, "/").status, 200);
}
