//! A server with the layer in front of a handler that a test writes, and a client.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{
    Policy, Preset, Stamp,
    identity::{Surface, Tenant},
};
use hapax_engine::{Engine, Settings};
use hapax_http::{Caller, Layer, RequestBody, Rules};
use hapax_store::{FaultyStore, ManualClock, MemoryStore, Plan};
use http::{HeaderMap, Request, Response, StatusCode, request};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, net::TcpStream, sync::Semaphore};
use tower_layer::Layer as _;
use tower_service::Service;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Asked = Request<RequestBody<Incoming>>;
pub(crate) type Given = Response<UnsyncBoxBody<Bytes, BoxError>>;
type Work = Pin<Box<dyn Future<Output = Given> + Send>>;

/// A handler that counts its calls.
#[derive(Clone)]
pub(crate) struct Handler {
    work: Arc<dyn Fn(Asked) -> Work + Send + Sync>,
    calls: Arc<AtomicUsize>,
}

impl Service<Asked> for Handler {
    type Response = Given;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Given, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Asked) -> Self::Future {
        self.calls.fetch_add(1, SeqCst);
        let work = (self.work)(request);
        Box::pin(async move { Ok(work.await) })
    }
}

pub(crate) fn answer(status: u16, body: impl Into<Bytes>) -> Given {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).header("content-type", "text/plain").body(body).unwrap()
}

pub(crate) fn rules() -> Rules {
    Rules::on(Surface::new("http").unwrap())
}

pub(crate) fn policy(change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = Preset::Standard.policy();
    change(&mut policy);
    policy
}

/// The tenant comes from the credential; a principal and a route may come with it.
pub(crate) fn who(head: &request::Parts) -> Option<Caller> {
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let mut caller = Caller::of(Tenant::new(text("authorization")?).ok()?);
    if let Some(principal) = text("x-principal") {
        caller = caller.principal(principal);
    }
    if let Some(rest) = head.uri.path().strip_prefix("/accounts/") {
        let (account, _) = rest.split_once('/').unwrap_or((rest, ""));
        caller = caller.endpoint("/accounts/{id}/orders").path_parameter("id", account);
    }
    Some(caller)
}

pub(crate) struct App {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) clock: Arc<ManualClock>,
    calls: Arc<AtomicUsize>,
}

impl App {
    /// Serves the handler behind the layer, over a store in memory whose clock stands still until it is moved.
    pub(crate) async fn serve<F>(
        policy: Policy,
        rules: Rules,
        work: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Given> + Send + 'static,
    {
        let clock = Arc::new(ManualClock::new(Stamp(1_000_000)));
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(clock.clone())), Plan::quiet()));
        let settings = Settings { store_retries: 1, store_backoff: Duration::from_millis(1), ..Settings::default() };
        let engine = Engine::builder(store.clone()).settings(settings).policy("http", policy).build().unwrap();
        Self::serve_on(engine, store, clock, rules, work).await
    }

    pub(crate) async fn serve_on<F>(
        engine: Engine,
        store: Arc<FaultyStore>,
        clock: Arc<ManualClock>,
        rules: Rules,
        work: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Given> + Send + 'static,
    {
        let calls = Arc::new(AtomicUsize::new(0));
        let handler = Handler { work: Arc::new(move |request| Box::pin(work(request))), calls: Arc::clone(&calls) };
        let service = Layer::new(engine.clone(), rules, who).unwrap().layer(handler);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                let serve = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let mut service = service.clone();
                    async move {
                        std::future::poll_fn(|context| {
                            <_ as Service<Request<Incoming>>>::poll_ready(&mut service, context)
                        })
                        .await?;
                        service.call(request).await
                    }
                });
                tokio::spawn(async move {
                    let mut first = [0; 3];
                    let h2 = matches!(stream.peek(&mut first).await, Ok(3)) && &first == b"PRI";
                    let io = TokioIo::new(stream);
                    let _broken = if h2 {
                        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, serve).await
                    } else {
                        hyper::server::conn::http1::Builder::new().serve_connection(io, serve).await
                    };
                });
            }
        });
        Self { address, engine, store, clock, calls }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    /// Sends one request on a connection of its own and reads the whole answer.
    pub(crate) async fn send(&self, request: http::request::Builder, body: impl Into<Bytes>) -> Reply {
        self.try_send(request, body).await.unwrap()
    }

    pub(crate) async fn try_send(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Reply, hyper::Error> {
        let (head, body) = self.open(request, body).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    /// Sends one request and gives the answer while its body comes.
    pub(crate) async fn open(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = request.header("host", "test").body(Full::new(body.into())).unwrap();
        sender.send_request(request).await
    }

    /// As [`App::open`], over HTTP/2.
    pub(crate) async fn open_h2(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await?;
        tokio::spawn(connection);
        sender.send_request(request.body(Full::new(body.into())).unwrap()).await
    }

    /// As [`App::send`], over HTTP/2.
    pub(crate) async fn send_h2(&self, request: http::request::Builder, body: impl Into<Bytes>) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = request.body(Full::new(body.into())).unwrap();
        let (head, body) = sender.send_request(request).await.unwrap().into_parts();
        Reply { status: head.status, headers: head.headers, body: body.collect().await.unwrap().to_bytes() }
    }

    /// Posts `body` under a key, as the tenant `acme`.
    pub(crate) async fn post(&self, key: &str, body: &'static str) -> Reply {
        self.send(keyed(key), body).await
    }
}

pub(crate) fn post(path: &str) -> http::request::Builder {
    Request::post(path).header("authorization", "acme").header("content-type", "application/json")
}

pub(crate) fn keyed(key: &str) -> http::request::Builder {
    post("/orders").header("idempotency-key", key)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn code(&self) -> u16 {
        self.status.as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true") || self.header("openwop-idempotent-replay") == Some("true")
    }
}

/// A handler that waits until it is let go.
#[derive(Clone)]
pub(crate) struct Held {
    entered: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { entered: Arc::new(Semaphore::new(0)), go: Arc::new(Semaphore::new(0)) }
    }

    /// Called by the handler.
    pub(crate) async fn wait(&self) {
        self.entered.add_permits(1);
        self.go.acquire().await.unwrap().forget();
    }

    /// Waits until a handler waits.
    pub(crate) async fn entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    pub(crate) fn let_go(&self) {
        self.go.add_permits(1);
    }
}

/// Waits until something holds; no test depends on how long that takes.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..6_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to this: {what}");
}
