//! Streams are passed on as they come. Their start is recorded before the first byte, their end before the end mark.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax_core::{Effect, Id, Preset, StateName, body_digest, policy::OnInFlight};
use hapax_http::{Limits, Operation, Rules};
use hapax_store::Fault;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::support::{App, BoxError, Given, keyed, rules, until};

/// The handler's end of a stream that a test feeds.
struct Feed(mpsc::Receiver<Result<Frame<Bytes>, BoxError>>);

impl futures_core::Stream for Feed {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

type Sender = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

struct Streamed {
    app: App,
    feeds: Arc<Mutex<Vec<(Sender, Id)>>>,
}

impl Streamed {
    /// Each request opens a stream that the test feeds; `length` announces one.
    async fn serve(preset: Preset, effect: Effect, content_type: &'static str, length: Option<u64>) -> Self {
        Self::serve_by(rules(), preset, effect, content_type, length).await
    }

    async fn serve_by(
        rules: Rules,
        preset: Preset,
        effect: Effect,
        content_type: &'static str,
        length: Option<u64>,
    ) -> Self {
        let feeds = Arc::new(Mutex::new(Vec::new()));
        let opened = Arc::clone(&feeds);
        let mut policy = preset.policy();
        policy.on_in_flight = OnInFlight::Reject;
        policy.capture.max_body = 1_000;
        policy.capture.inline = 500;
        let app = App::serve(policy, rules.effect(effect), move |request| {
            let id = request.extensions().get::<Operation>().unwrap().0.id();
            let (sender, receiver) = mpsc::channel(16);
            opened.lock().push((sender, id));
            async move {
                let body = StreamBody::new(Feed(receiver));
                let body = match length {
                    Some(length) => Announced { body, length }.boxed_unsync(),
                    None => body.boxed_unsync(),
                };
                let given: Given = http::Response::builder().header("content-type", content_type).body(body).unwrap();
                given
            }
        })
        .await;
        Self { app, feeds }
    }

    async fn open(&self, key: &str) -> Incoming {
        self.app.open(keyed(key), "{}").await.unwrap().into_body()
    }

    async fn open_over(&self, key: &str, http2: bool) -> Incoming {
        if !http2 {
            return self.open(key).await;
        }
        self.app.open_h2(keyed(key).uri("http://test/orders"), "{}").await.unwrap().into_body()
    }

    /// Feeds the latest stream.
    async fn feed(&self, text: &'static str) {
        let sender = self.feeds.lock().last().unwrap().0.clone();
        sender.send(Ok(Frame::data(Bytes::from_static(text.as_bytes())))).await.unwrap();
    }

    async fn break_off(&self) {
        let sender = self.feeds.lock().last().unwrap().0.clone();
        sender.send(Err("the upstream is gone".into())).await.unwrap();
    }

    fn end(&self) {
        self.feeds.lock().pop();
    }

    fn id(&self) -> Id {
        self.feeds.lock().last().unwrap().1
    }

    async fn state(&self, id: Id) -> StateName {
        self.app.engine.explain(&id).await.unwrap().state
    }
}

/// A stream with a length that it keeps.
struct Announced<B> {
    body: B,
    length: u64,
}

impl<B: hyper::body::Body<Data = Bytes, Error = BoxError> + Unpin> hyper::body::Body for Announced<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        hyper::body::SizeHint::with_exact(self.length)
    }
}

/// The next that says anything: over HTTP/2 the end may come as a frame of its own, with nothing in it.
async fn piece(body: &mut Incoming) -> Option<String> {
    loop {
        let frame = body.frame().await?.unwrap();
        let data = frame.into_data().unwrap();
        if !data.is_empty() {
            return Some(String::from_utf8(data.to_vec()).unwrap());
        }
    }
}

const EVENTS: &str = "text/event-stream";

/// The end mark is the last chunk, and over HTTP/2 the flag on the last frame.
#[tokio::test]
async fn no_event_is_held_back_and_the_end_is_recorded_before_the_end_mark() {
    for http2 in [false, true] {
        let streamed = Streamed::serve(Preset::Standard, Effect::Unsafe, EVENTS, None).await;
        let opening = streamed.open_over("k", http2);
        let first = async {
            until("the handler was called", || async { streamed.app.calls() == 1 }).await;
            streamed.feed("data: one\n\n").await;
        };
        let (mut body, ()) = tokio::join!(opening, first);
        let id = streamed.id();
        // Each event arrives while the stream runs, and the start is recorded.
        assert_eq!(piece(&mut body).await.unwrap(), "data: one\n\n");
        assert_eq!(streamed.state(id).await, StateName::Pending);
        streamed.feed("data: two\n\n").await;
        assert_eq!(piece(&mut body).await.unwrap(), "data: two\n\n");
        let meanwhile = streamed.app.post("k", "{}").await;
        assert_eq!((meanwhile.code(), meanwhile.json()["code"].as_str()), (409, Some("in_flight")));
        streamed.end();
        assert_eq!(piece(&mut body).await, None);
        // Whoever has seen the end finds it recorded, without waiting for anything.
        assert_eq!(streamed.state(id).await, StateName::Committed);
        let said = streamed.app.post("k", "{}").await;
        let problem = said.json();
        assert_eq!((said.code(), problem["code"].as_str()), (409, Some("already_completed")));
        assert_eq!(problem["length"], 22);
        let digest = data_encoding::HEXLOWER.encode(&body_digest(b"data: one\n\ndata: two\n\n"));
        assert_eq!(problem["digest"], format!("sha256:{digest}"));
        assert_eq!(problem["operation"], id.to_string(), "the pointer to what is known of it");
        assert_eq!(streamed.app.calls(), 1);
    }
}

/// The last byte of a counted body is its end mark: it may not leave before the end is recorded.
#[tokio::test]
async fn the_last_byte_of_a_counted_body_waits_for_the_record() {
    for http2 in [false, true] {
        let streamed = Streamed::serve(Preset::Standard, Effect::Unsafe, EVENTS, Some(6)).await;
        let opening = streamed.open_over("k", http2);
        let feeding = async {
            until("the handler was called", || async { streamed.app.calls() == 1 }).await;
            streamed.feed("abc").await;
        };
        let (mut body, ()) = tokio::join!(opening, feeding);
        let id = streamed.id();
        assert_eq!(piece(&mut body).await.unwrap(), "abc");
        assert_eq!(streamed.state(id).await, StateName::Pending);
        streamed.feed("def").await;
        streamed.end();
        assert_eq!(piece(&mut body).await.unwrap(), "def");
        assert_eq!(streamed.state(id).await, StateName::Committed);
    }
}

/// If the end cannot be recorded, the stream must not look finished.
#[tokio::test]
async fn a_stream_whose_end_cannot_be_recorded_is_cut_off() {
    for (length, http2) in [(None, false), (Some(6), false), (None, true), (Some(6), true)] {
        let streamed = Streamed::serve(Preset::Standard, Effect::Unsafe, EVENTS, length).await;
        let opening = streamed.open_over("k", http2);
        let feeding = async {
            until("the handler was called", || async { streamed.app.calls() == 1 }).await;
            streamed.feed("abc").await;
        };
        let (mut body, ()) = tokio::join!(opening, feeding);
        assert_eq!(piece(&mut body).await.unwrap(), "abc");
        streamed.app.store.script(Fault::Stale(1_000_000));
        streamed.feed("def").await;
        streamed.end();
        let rest = body.collect().await;
        assert!(rest.is_err(), "it looked finished, over HTTP/2: {http2}: {rest:?}");
        // The store comes back: the end was kept ready, and is recorded after all.
        streamed.app.store.calm();
        until("the end is recorded", || async {
            streamed.app.post("k", "{}").await.json()["code"] == "already_completed"
        })
        .await;
        assert_eq!(streamed.app.calls(), 1);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_unknown_under_every_preset() {
    for preset in [Preset::Standard, Preset::Stripe, Preset::Openwop] {
        for (effect, expected) in [(Effect::Unsafe, StateName::InDoubt), (Effect::Idempotent, StateName::Open)] {
            let streamed = Streamed::serve(preset, effect, EVENTS, None).await;
            let opening = streamed.open("k");
            let feeding = async {
                until("the handler was called", || async { streamed.app.calls() == 1 }).await;
                streamed.feed("abc").await;
            };
            let (mut body, ()) = tokio::join!(opening, feeding);
            assert_eq!(piece(&mut body).await.unwrap(), "abc");
            let id = streamed.id();
            streamed.break_off().await;
            assert!(body.collect().await.is_err());
            assert_eq!(streamed.state(id).await, expected, "{effect} under {}", preset.name());
        }
    }
}

/// The reader goes away in the middle: the stream is read to its end all the same, and its end is recorded.
#[tokio::test]
async fn a_reader_that_goes_away_does_not_stop_the_stream() {
    let streamed = Streamed::serve(Preset::Standard, Effect::Irreversible, EVENTS, None).await;
    let opening = streamed.open("k");
    let feeding = async {
        until("the handler was called", || async { streamed.app.calls() == 1 }).await;
        streamed.feed("abc").await;
    };
    let (mut body, ()) = tokio::join!(opening, feeding);
    assert_eq!(piece(&mut body).await.unwrap(), "abc");
    let id = streamed.id();
    drop(body);
    // More than all buffers on the way hold, so that somebody has to read it.
    for _ in 0..64 {
        streamed.feed("defg").await;
    }
    assert_eq!(streamed.state(id).await, StateName::Pending);
    streamed.end();
    until("the end is recorded", || async { streamed.state(id).await == StateName::Committed }).await;
    assert_eq!(streamed.app.post("k", "{}").await.json()["length"], 3 + 64 * 4);
}

/// What does not call itself a stream is kept if it is short, though it is passed on as it comes.
#[tokio::test]
async fn an_unhurried_answer_is_passed_on_as_it_comes_and_kept() {
    let streamed = Streamed::serve(Preset::Standard, Effect::Unsafe, "text/plain", None).await;
    let opening = streamed.open("k");
    let feeding = async {
        until("the handler was called", || async { streamed.app.calls() == 1 }).await;
        streamed.feed("slow ").await;
    };
    let (mut body, ()) = tokio::join!(opening, feeding);
    assert_eq!(piece(&mut body).await.unwrap(), "slow ");
    streamed.feed("answer").await;
    assert_eq!(piece(&mut body).await.unwrap(), "answer");
    streamed.end();
    assert_eq!(piece(&mut body).await, None);
    let again = streamed.app.post("k", "{}").await;
    assert_eq!((&again.body[..], again.is_replay()), (&b"slow answer"[..], true));
}

/// A stream that nobody reads and that never ends must not be read for ever.
#[tokio::test]
async fn a_stream_without_a_reader_is_given_up_in_the_end() {
    let rules = rules().limits(Limits { orphaned_stream: std::time::Duration::ZERO, ..Limits::default() });
    let streamed = Streamed::serve_by(rules, Preset::Standard, Effect::Irreversible, EVENTS, None).await;
    let opening = streamed.open("k");
    let feeding = async {
        until("the handler was called", || async { streamed.app.calls() == 1 }).await;
        streamed.feed("abc").await;
    };
    let (mut body, ()) = tokio::join!(opening, feeding);
    assert_eq!(piece(&mut body).await.unwrap(), "abc");
    let id = streamed.id();
    drop(body);
    until("it is given up", || async { streamed.state(id).await == StateName::InDoubt }).await;
}
