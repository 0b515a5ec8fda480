//! The service behind the gateway. It knows nothing of keys: whatever reaches it, it charges.

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

use super::order::Trouble;

/// How long an ordinary charge takes.
const ORDINARY: Duration = Duration::from_millis(15);
/// Longer than customers wait.
const SLOW: Duration = Duration::from_millis(450);

pub(crate) struct Shop {
    address: SocketAddr,
    books: Arc<Books>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Books {
    /// How often each order was charged.
    charges: Mutex<BTreeMap<u32, u32>>,
    /// Orders that met their trouble already: it strikes once.
    struck: Mutex<HashSet<u32>>,
}

impl Shop {
    pub(crate) async fn open() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let books = Arc::new(Books::default());
        let serving = tokio::spawn(serve(listener, Arc::clone(&books)));
        Ok(Self { address, books, serving })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the shop and hands over its books: how often each order was charged.
    pub(crate) fn close(self) -> BTreeMap<u32, u32> {
        self.serving.abort();
        std::mem::take(&mut *self.books.charges.lock())
    }
}

async fn serve(listener: TcpListener, books: Arc<Books>) {
    while let Ok((stream, _)) = listener.accept().await {
        let books = Arc::clone(&books);
        tokio::spawn(async move {
            let hang_up = Arc::new(Notify::new());
            let service = service_fn(|request| charge(request, Arc::clone(&books), Arc::clone(&hang_up)));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                _closed = connection => {}
                () = hang_up.notified() => {}
            }
        });
    }
}

async fn charge(
    request: Request<Incoming>,
    books: Arc<Books>,
    hang_up: Arc<Notify>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let trouble = trouble(&request);
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let Ok(order) = serde_json::from_slice::<serde_json::Value>(&body) else {
        return Ok(answer(StatusCode::BAD_REQUEST, r#"{"error":"not an order"}"#.into()));
    };
    let number = order["order"].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let strikes = trouble != Trouble::Nothing && books.struck.lock().insert(number);
    if strikes && trouble == Trouble::Busy {
        return Ok(answer(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"busy, nothing was charged"}"#.into()));
    }
    tokio::time::sleep(if strikes && trouble == Trouble::Slow { SLOW } else { ORDINARY }).await;
    let charges = {
        let mut charges = books.charges.lock();
        let charges = charges.entry(number).or_default();
        *charges += 1;
        *charges
    };
    if strikes && trouble == Trouble::DiesAfterwards {
        hang_up.notify_one();
        std::future::pending::<()>().await;
    }
    let receipt = format!(r#"{{"receipt":"r-{number}-{charges}","amount":{}}}"#, order["amount"]);
    Ok(answer(StatusCode::CREATED, receipt))
}

/// Customers say what shall go wrong, so that the shop needs no list of them.
fn trouble(request: &Request<Incoming>) -> Trouble {
    match request.headers().get("demo-trouble").map(hyper::header::HeaderValue::as_bytes) {
        Some(b"slow") => Trouble::Slow,
        Some(b"busy") => Trouble::Busy,
        Some(b"dies-afterwards") => Trouble::DiesAfterwards,
        _ => Trouble::Nothing,
    }
}

fn answer(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    response
}
