//! The upstream, which is also the bare server that replays are compared with: it reads the request's body and answers
//! 200 with 256 bytes, or 503 under `/busy`.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(crate) const BUSY: &str = "/busy";
const ANSWER: &[u8] = &[b'a'; 256];

/// Serves until it is killed, after having printed its address.
pub(crate) fn serve() {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(listener) = TcpListener::bind("127.0.0.1:0").await else { return };
        if let Ok(address) = listener.local_addr() {
            println!("{address}");
        }
        while let Ok((stream, _)) = listener.accept().await {
            let _latency_only = stream.set_nodelay(true);
            tokio::spawn(async move {
                let service = service_fn(answer);
                let _closed = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let busy = request.uri().path() == BUSY;
    let _read = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    if busy {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}
