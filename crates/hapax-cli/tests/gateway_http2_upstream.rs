//! Whatever an upstream does over HTTP/2, the record says what is known, and one bad stream or connection is nobody else's.

#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

use crate::support;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use crate::support::{Dir, Gateway, Start, post, until};
use bytes::Bytes;
use h2::{Reason, server};
use http::{Request, Response};
use tokio::sync::Semaphore;

/// What an upstream was asked, with the number of the connection.
#[derive(Clone)]
struct Upstream {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(usize, String)>>>,
    go: Arc<Semaphore>,
}

impl Upstream {
    fn count(&self, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(_, asked)| asked == path).count()
    }

    fn connections(&self) -> usize {
        self.asked.lock().unwrap().iter().map(|(connection, _)| connection + 1).max().unwrap_or(0)
    }

    /// On a runtime of its own, for as long as the process runs.
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Self { address, asked: Arc::default(), go: Arc::new(Semaphore::new(0)) };
        let this = upstream.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                for number in 0.. {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(this.clone().serve(stream, number));
                }
            });
        });
        upstream
    }

    async fn serve(self, stream: tokio::net::TcpStream, number: usize) {
        let mut connection = server::handshake(stream).await.unwrap();
        while let Some(Ok((request, respond))) = connection.accept().await {
            let path = request.uri().path().to_owned();
            self.asked.lock().unwrap().push((number, path.clone()));
            match path.as_str() {
                // Its last stream is this one, and it has not done it.
                "/goaway" => connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM),
                _ => {
                    tokio::spawn(self.clone().answer(request, respond, number, path));
                }
            }
        }
    }

    async fn answer(
        self,
        request: Request<h2::RecvStream>,
        mut respond: server::SendResponse<Bytes>,
        number: usize,
        path: String,
    ) {
        let mut body = request.into_body();
        while let Some(piece) = body.data().await {
            let _ = piece.map(|piece| body.flow_control().release_capacity(piece.len()));
        }
        let first = self.count(&path) == 1;
        match path.as_str() {
            "/things/1" if first => respond.send_reset(Reason::INTERNAL_ERROR),
            "/things/1" => respond.send_reset(Reason::REFUSED_STREAM),
            "/refused" if first => respond.send_reset(Reason::REFUSED_STREAM),
            "/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
            "/half" => {
                let mut stream = respond.send_response(Response::new(()), false).unwrap();
                stream.send_data(Bytes::from_static(b"half"), false).unwrap();
                // Otherwise the reset overtakes what was said.
                let _ = self.go.acquire().await;
                stream.send_reset(Reason::INTERNAL_ERROR);
            }
            "/torso" | "/torso/counted" | "/torso/head" => {
                let head = Response::builder().status(201);
                let head = if path == "/torso/counted" { head.header("content-length", "20") } else { head };
                let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
                if path != "/torso/head" {
                    stream.send_data(Bytes::from_static(b"half of it"), false).unwrap();
                }
                let _ = self.go.acquire().await;
                stream.send_reset(Reason::NO_ERROR);
            }
            "/silent" if number == 0 => std::future::pending().await,
            "/slow" => {
                let _ = self.go.acquire().await;
                say(respond);
            }
            "/held" if first => {
                let _ = self.go.acquire().await;
                say(respond);
            }
            _ => say(respond),
        }
    }
}

fn say(mut respond: server::SendResponse<Bytes>) {
    let mut stream = respond.send_response(Response::builder().status(201).body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::from_static(b"done"), true).unwrap();
}

fn in_front_of(upstream: &Upstream, dir: &Dir, timing: &str) -> Gateway {
    let file = format!("[upstream.default]\nurl = \"http://{}\"\nprotocol = \"http2\"\n{timing}\n", upstream.address);
    Start::at(dir).file(&file).go()
}

fn is_in_doubt(gateway: &Gateway, path: &str) {
    let answer = post(gateway.address, path, "k1", "{}");
    assert!(answer.status == 409 && answer.says("\"code\":\"in_doubt\""), "{path}: {}", answer.text());
}

/// `REFUSED_STREAM` is the one answer that promises that nothing was done (RFC 9113, 8.7): the key is as free as if
/// nothing had been begun.
#[test]
fn a_refused_stream_leaves_the_key_free() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "");
    let refused = post(gateway.address, "/refused", "k1", "{}");
    assert_eq!(refused.status, 502, "{}", refused.text());
    assert!(refused.says("\"safe_new_key\":true") && refused.says("\"next_action\":\"retry_same_key\""));
    // Even another request may use it.
    let again = post(gateway.address, "/refused", "k1", "{\"other\":1}");
    assert_eq!((again.status, again.is_replay()), (201, false), "{}", again.text());
    assert_eq!(upstream.count("/refused"), 2);
}

/// The first try was reset and may have taken effect; the second is refused with the promise that nothing was done. That
/// promise is about the second.
#[test]
fn a_refused_stream_says_nothing_of_an_earlier_try() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let route = "[[route]]\nmatch = \"POST /things/{id}\"\neffect = \"idempotent\"";
    let gateway = in_front_of(&upstream, &dir, route);
    for count in 1..=3 {
        let answer = post(gateway.address, "/things/1", "k1", "{}");
        assert_eq!(answer.status, 502, "{}", answer.text());
        assert!(answer.says("\"safe_new_key\":false"), "try {count}: {}", answer.text());
        assert_eq!(upstream.count("/things/1"), count);
    }
}

/// Any other reset says nothing about what was done before it.
#[test]
fn a_stream_that_is_reset_leaves_doubt_before_and_after_its_first_byte() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "");
    let answer = post(gateway.address, "/reset", "k1", "{}");
    assert_eq!(answer.status, 502);
    assert!(answer.says("\"safe_new_key\":false"), "{}", answer.text());
    is_in_doubt(&gateway, "/reset");
    let mut conn = support::Conn::to(gateway.address);
    let headers = [("Idempotency-Key", "k1"), ("Authorization", "Bearer one"), ("Content-Type", "application/json")];
    conn.send(support::request("POST", "/half", &headers, "{}"));
    assert_eq!(conn.head().unwrap().0, 200);
    assert_eq!(conn.chunk().unwrap().as_deref(), Some(&b"half"[..]));
    upstream.go.add_permits(1);
    assert!(conn.chunk().is_err(), "it does not seem to end");
    until("the end to be recorded", || post(gateway.address, "/half", "k1", "{}").says("\"code\":\"in_doubt\""));
    assert_eq!((upstream.count("/reset"), upstream.count("/half")), (1, 1));
}

/// An upstream that breaks its answer off and says that there was no error has not answered all the same: half an answer is
/// nobody's, and is not given again as a whole one.
#[test]
fn an_answer_that_is_broken_off_without_an_error_is_no_whole_one() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "");
    for path in ["/torso", "/torso/counted", "/torso/head"] {
        let mut conn = support::Conn::to(gateway.address);
        let headers =
            [("Idempotency-Key", "k1"), ("Authorization", "Bearer one"), ("Content-Type", "application/json")];
        conn.send(support::request("POST", path, &headers, "{}"));
        until("it to be asked", || upstream.count(path) == 1);
        std::thread::sleep(std::time::Duration::from_millis(100));
        upstream.go.add_permits(1);
        until("the end to be recorded", || {
            let answer = post(gateway.address, path, "k1", "{}");
            assert!(!answer.is_replay(), "{path}: {}", answer.text());
            answer.says("\"code\":\"in_doubt\"")
        });
        assert_eq!(upstream.count(path), 1);
    }
}

/// A connection that its upstream ends takes its own streams along, and nobody else's.
#[test]
fn goaway_concerns_those_who_were_there() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "");
    assert_eq!(post(gateway.address, "/goaway", "k1", "{}").status, 502);
    is_in_doubt(&gateway, "/goaway");
    for round in 0..5 {
        assert_eq!(post(gateway.address, "/fine", &format!("k{round}"), "{}").status, 201);
    }
    assert_eq!((upstream.count("/goaway"), upstream.count("/fine"), upstream.connections()), (1, 5, 2));
}

/// A connection is dead and does not say so. One request finds out, and is in doubt for it; were the next sent the same
/// way, everybody would be.
#[test]
fn a_dead_connection_puts_one_in_doubt_and_not_everybody() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "first_byte_timeout = \"3s\"");
    assert_eq!(post(gateway.address, "/silent", "k1", "{}").status, 504);
    is_in_doubt(&gateway, "/silent");
    // The first connection answers nobody here.
    for round in 2..6 {
        assert_eq!(post(gateway.address, "/silent", &format!("k{round}"), "{}").status, 201);
    }
    assert_eq!(upstream.connections(), 2);
}

/// As many requests are on a connection as it has streams; the next gets another one. In a queue behind them it would
/// wait, and nobody could say whether it was sent.
#[test]
fn a_connection_carries_no_more_than_it_has_streams() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "streams = 1\nconnections = 2\nrequests_per_tenant = 2");
    let address = gateway.address;
    let held = std::thread::spawn(move || post(address, "/held", "k1", "{}"));
    until("the first to be under way", || upstream.count("/held") == 1);
    assert_eq!(post(address, "/fine", "k1", "{}").status, 201);
    assert_eq!(upstream.connections(), 2);
    upstream.go.add_permits(1);
    assert_eq!(held.join().unwrap().status, 201);
    // A stream that came to its end is another's.
    for round in 0..5 {
        assert_eq!(post(address, "/fine", &format!("n{round}"), "{}").status, 201);
    }
    assert_eq!(upstream.connections(), 2);
}

/// The streams of a connection are everybody's too: one tenant has half of them, and gets them back one by one.
#[test]
fn one_tenant_does_not_take_all_streams() {
    let upstream = Upstream::start();
    let dir = Dir::new();
    let gateway = in_front_of(&upstream, &dir, "streams = 4\nconnections = 1");
    let address = gateway.address;
    let held: Vec<_> =
        (0..2).map(|number| std::thread::spawn(move || post(address, "/slow", &format!("k{number}"), "{}"))).collect();
    until("half of the streams to be taken", || upstream.count("/slow") == 2);
    let refused = post(address, "/slow", "k2", "{}");
    assert!(refused.status == 503 && refused.says("requests_per_tenant"), "{}", refused.text());
    let other = [("Idempotency-Key", "k1"), ("Authorization", "Bearer two")];
    let other = support::Conn::to(address).send(support::request("POST", "/fine", &other, "{}")).answer();
    assert_eq!(other.status, 201, "{}", other.text());
    upstream.go.add_permits(1);
    for held in held {
        assert_eq!(held.join().unwrap().status, 201);
    }
    for round in 0..10 {
        assert_eq!(post(address, "/slow", &format!("n{round}"), "{}").status, 201);
    }
    assert_eq!(upstream.connections(), 1);
}
