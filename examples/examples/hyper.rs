//! The layer around a plain hyper service, without any framework.
//!
//! Run it with `cargo run --example hyper`; it serves on a free port, asks itself, and ends.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax::{
    Hapax, Layer,
    http::{RequestBody, Rules},
    identity::{Surface, Tenant},
};
use http::{Request, Response, request::Parts};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tower_layer::Layer as _;
use tower_service::Service;

#[derive(Clone)]
struct Orders(Arc<AtomicU64>);

impl Service<Request<RequestBody<Incoming>>> for Orders {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<RequestBody<Incoming>>) -> Self::Future {
        let order = self.0.fetch_add(1, SeqCst) + 1;
        ready(Ok(Response::new(Full::from(format!("order {order}")))))
    }
}

fn tenant(request: &Parts) -> Option<Tenant> {
    let token = request.headers.get("authorization")?.to_str().ok()?.strip_prefix("Bearer ")?;
    Tenant::new(token).ok()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hapax = Hapax::memory();
    let orders = Arc::new(AtomicU64::new(0));
    let layer = Layer::new(hapax.clone(), Rules::on(Surface::new("http")?), tenant)?;
    let service = layer.layer(Orders(Arc::clone(&orders)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            let serve = service_fn(move |request| service.clone().call(request));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), serve));
        }
    });

    for key in ["a", "a", "b"] {
        let (status, replayed, body) = hapax_examples::post(address, "/orders", key, "{}").await?;
        println!("{key}: {status} {body} {}", if replayed { "(given again)" } else { "" });
    }
    assert_eq!(orders.load(SeqCst), 2);
    Ok(())
}
