//! What is stored, what is never stored, and that a replay is what was sent.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use hapax_core::{Body, Policy, Preset, State, body_digest};
use hapax_engine::Engine;
use hapax_http::{Limits, Operation};
use hapax_ledger::Ledger;
use hapax_store::{FaultyStore, ManualClock, Plan, Store};
use http::HeaderName;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;

use crate::support::{App, Given, answer, keyed, policy, post, rules};

/// Everything that lies on disk.
fn bytes_in(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(bytes_in(&path));
        } else {
            bytes.extend(std::fs::read(path).unwrap());
        }
    }
    bytes
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn with_headers(mut given: Given, headers: &[(&'static str, &'static str)]) -> Given {
    for (name, value) in headers {
        given.headers_mut().append(HeaderName::from_static(name), value.parse().unwrap());
    }
    given
}

const ANSWERED: [(&str, &str); 9] = [
    ("location", "/orders/kept-location"),
    ("link", "</a>; rel=kept-link-1"),
    ("link", "</b>; rel=kept-link-2"),
    ("x-custom", "custom-value"),
    ("set-cookie", "session=planted-cookie"),
    ("x-secret", "planted-secret"),
    ("connection", "x-hop"),
    ("x-hop", "planted-hop"),
    ("keep-alive", "planted-keep-alive"),
];

/// Planted secrets must not be found in what the store writes to its disk; what is kept must.
async fn stored_bytes(policy: Policy, path: &Path) -> (Vec<u8>, crate::support::Reply, crate::support::Reply) {
    let _fresh = std::fs::remove_dir_all(path);
    let ledger = Arc::new(Ledger::open(path).unwrap());
    let clock = Arc::new(ManualClock::new(hapax_core::Stamp(0)));
    let store = Arc::new(FaultyStore::new(ledger.clone() as Arc<dyn Store>, Plan::quiet()));
    let engine = Engine::builder(ledger).policy("http", policy).build().unwrap();
    let rules = rules().secret_header(HeaderName::from_static("x-secret"));
    let app =
        App::serve_on(engine, store, clock, rules, |_| async { with_headers(answer(201, "the-kept-body"), &ANSWERED) })
            .await;
    let request = || {
        post("/orders?planted-query=1")
            .header("idempotency-key", "planted-key")
            .header("cookie", "planted-request-cookie")
            .header("x-principal", "ann")
    };
    let first = app.send(request(), "planted-request-body").await;
    let again = app.send(request(), "planted-request-body").await;
    assert!(again.is_replay());
    (bytes_in(path), first, again)
}

fn temp(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("hapax-http-{name}-{}", std::process::id()))
}

#[tokio::test]
async fn cookies_hop_by_hop_headers_and_secrets_are_never_stored() {
    for preset in [Preset::Standard, Preset::Stripe, Preset::Openwop] {
        let path = temp(preset.name());
        let (bytes, first, again) = stored_bytes(preset.policy(), &path).await;
        let name = preset.name();
        for text in ["kept-location", "kept-link-1", "kept-link-2", "the-kept-body"] {
            assert!(holds(&bytes, text), "{name}: {text} was not stored");
        }
        let planted = [
            "planted-cookie",
            "planted-secret",
            "planted-hop",
            "planted-keep-alive",
            "planted-key",
            "planted-request-cookie",
            "planted-request-body",
            "planted-query",
            "set-cookie",
        ];
        for text in planted {
            assert!(!holds(&bytes, text), "{name}: {text} was stored");
        }
        // The first caller gets all of its answer; a replay what is stored, in order.
        assert_eq!(first.header("set-cookie"), Some("session=planted-cookie"));
        assert!(again.header("set-cookie").is_none() && again.header("x-secret").is_none());
        let links = |reply: &crate::support::Reply| {
            reply.headers.get_all("link").iter().map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(links(&again), links(&first));
        // OpenWOP keeps all but the never-stored; the others only what is on their list.
        assert_eq!(again.header("x-custom").is_some(), preset == Preset::Openwop, "{name}");
        let _gone = std::fs::remove_dir_all(&path);
    }
}

#[tokio::test]
async fn a_policy_lists_the_headers_it_keeps_and_never_those_that_may_not_be_kept() {
    let listed = policy(|policy| policy.capture.headers = vec!["x-custom".into(), "connection".into(), "x-hop".into()]);
    let path = temp("listed");
    let (bytes, _, again) = stored_bytes(listed, &path).await;
    assert!(holds(&bytes, "custom-value") && !holds(&bytes, "planted-hop") && !holds(&bytes, "kept-location"));
    assert_eq!((again.header("x-custom"), again.header("content-type")), (Some("custom-value"), Some("text/plain")));
    let _gone = std::fs::remove_dir_all(&path);
}

/// Byte for byte, whatever the bytes are and wherever they lie.
#[tokio::test]
async fn a_replay_is_byte_equal_inline_and_out_of_line() {
    let all: Vec<u8> = (0..=255).collect();
    for size in [0_usize, 1, 256, 8 * 1024, 16 * 1024 + 1, 300_000] {
        let body: Bytes = all.iter().copied().cycle().take(size).collect();
        let sent = body.clone();
        let ids = Arc::new(Mutex::new(Vec::new()));
        let begun = Arc::clone(&ids);
        let app = App::serve(policy(|_| {}), rules(), move |request| {
            begun.lock().push(request.extensions().get::<Operation>().unwrap().0.id());
            let body = sent.clone();
            async move { with_headers(answer(if body.is_empty() { 204 } else { 200 }, body), &[("etag", "\"1\"")]) }
        })
        .await;
        let first = app.post("k", "{}").await;
        assert_eq!(first.body, body);
        let id = ids.lock()[0];
        let record = app.engine.explain(&id).await.unwrap().record.unwrap();
        let State::Committed(done) = record.state else { panic!("{size} bytes: {:?}", record.state) };
        let lies = match done.outcome.body {
            Body::Empty => "nowhere",
            Body::Inline(_) => "in the record",
            Body::Stored { .. } => "beside the record",
            Body::Uncaptured { .. } | Body::Handle(_) => "not kept",
        };
        let expected = match size {
            0 => "nowhere",
            1..=16_384 => "in the record",
            _ => "beside the record",
        };
        assert_eq!(lies, expected, "{size} bytes");
        let again = app.post("k", "{}").await;
        assert!(again.is_replay());
        assert_eq!((again.status, &again.body), (first.status, &first.body), "{size} bytes");
        assert_eq!(again.header("etag"), first.header("etag"));
        assert_eq!(again.header("content-length"), first.header("content-length"));
        assert_eq!(app.calls(), 1);
    }
}

fn chunked(pieces: Vec<Bytes>) -> Given {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
    let body = StreamBody::new(futures_of(frames)).boxed_unsync();
    http::Response::builder().status(200).body(body).unwrap()
}

/// An iterator as a stream, without another dependency.
fn futures_of<I: Iterator + Unpin>(items: I) -> Items<I> {
    Items(items)
}

struct Items<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Items<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}

/// A body without a length is passed on while it comes, and still kept if it turns out to be short.
#[tokio::test]
async fn a_short_body_without_a_length_is_kept() {
    let app = App::serve(policy(|_| {}), rules(), |_| async {
        chunked(vec![Bytes::from_static(b"one "), Bytes::from_static(b"two")])
    })
    .await;
    let first = app.post("k", "{}").await;
    assert_eq!((&first.body[..], first.header("transfer-encoding")), (&b"one two"[..], Some("chunked")));
    let again = app.post("k", "{}").await;
    assert!(again.is_replay());
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn an_answer_too_large_to_keep_reaches_its_caller_whole_and_is_not_run_again() {
    let large = Bytes::from(vec![7_u8; 200_000]);
    let small = policy(|policy| {
        policy.capture.max_body = 10_000;
        policy.capture.inline = 1_000;
    });
    for counted in [true, false] {
        let body = large.clone();
        let app = App::serve(small.clone(), rules(), move |_| {
            let body = body.clone();
            async move {
                if counted {
                    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
                    return http::Response::new(body);
                }
                chunked((0..20).map(|at| body.slice(at * 10_000..(at + 1) * 10_000)).collect())
            }
        })
        .await;
        let first = app.post("k", "{}").await;
        assert_eq!((first.code(), &first.body), (200, &large));
        assert_eq!(first.header("content-length").is_some(), counted);
        let again = app.post("k", "{}").await;
        let said = again.json();
        assert_eq!((again.code(), said["code"].as_str()), (409, Some("already_completed")));
        assert_eq!(said["length"], 200_000);
        let digest = data_encoding::HEXLOWER.encode(&body_digest(&large));
        assert_eq!(said["digest"], format!("sha256:{digest}"));
        assert_eq!((said["answered"].as_u64(), app.calls()), (Some(200), 1));
    }
}

/// A length that is not announced must not get around the limit.
#[tokio::test]
async fn a_chunked_request_body_is_limited_too() {
    let rules = rules().limits(Limits { request_body: 1_000, ..Limits::default() });
    let app = App::serve(policy(|_| {}), rules, |request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        answer(201, body)
    })
    .await;
    let stream = tokio::net::TcpStream::connect(app.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let pieces = (0..100).map(|_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 100]))));
    let request = keyed("k").header("host", "test").body(StreamBody::new(futures_of(pieces))).unwrap();
    let reply = sender.send_request(request).await.unwrap();
    assert_eq!((reply.status().as_u16(), app.calls()), (413, 0));
    // In pieces, but short enough: the handler gets all of it.
    let stream = tokio::net::TcpStream::connect(app.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let pieces = (0..9).map(|_| Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 100]))));
    let request = keyed("k").header("host", "test").body(StreamBody::new(futures_of(pieces))).unwrap();
    let reply = sender.send_request(request).await.unwrap();
    assert_eq!(reply.status().as_u16(), 201);
    assert_eq!(reply.into_body().collect().await.unwrap().to_bytes().len(), 900);
}
