//! A customer's program: it sends, waits a while, and tries again under the same key.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{
    order::{Order, Trouble},
    tally::{Heard, Tally},
};

/// As long as a customer waits for an answer at first.
const PATIENCE: Duration = Duration::from_millis(250);
const TRIES: u32 = 60;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// Sends until there is an answer that is worth stopping for.
pub(crate) async fn insist(address: SocketAddr, order: Order, amount: u32, tally: Arc<Tally>) -> Heard {
    let mut heard = Heard::Nothing;
    for tries in 0..TRIES {
        // Whoever hears nothing again and again waits longer: a slow machine is no reason to go without an answer.
        let patience = PATIENCE * (1 + tries / 8);
        heard = tokio::time::timeout(patience, send(address, order, amount, &tally)).await.unwrap_or(Heard::Nothing);
        tally.heard(heard);
        match heard {
            Heard::Charged | Heard::Replayed | Heard::Mismatch | Heard::InDoubt => break,
            Heard::InFlight | Heard::TryAgain | Heard::Nothing => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
    heard
}

async fn send(address: SocketAddr, order: Order, amount: u32, tally: &Tally) -> Heard {
    tally.sent();
    exchange(address, order, amount).await.unwrap_or(Heard::Nothing)
}

async fn exchange(address: SocketAddr, order: Order, amount: u32) -> Option<Heard> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    // Ends with this request, also when the customer gives up.
    let _driving = Aborted(tokio::spawn(connection));
    let mut request = Request::post("/charges")
        .header("host", "shop.example")
        .header("authorization", "Bearer demo")
        .header("content-type", "application/json")
        .header("idempotency-key", order.key());
    if let Some(trouble) = said(order.trouble) {
        request = request.header("demo-trouble", trouble);
    }
    let request = request.body(Full::new(Bytes::from(order.body(amount)))).ok()?;
    let response = sender.send_request(request).await.ok()?;
    let status = response.status();
    let replayed = response.headers().contains_key("idempotent-replayed");
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some(understand(status, replayed, &body))
}

fn understand(status: StatusCode, replayed: bool, body: &[u8]) -> Heard {
    let problem = || serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
    match status {
        StatusCode::CREATED if replayed => Heard::Replayed,
        StatusCode::CREATED => Heard::Charged,
        StatusCode::UNPROCESSABLE_ENTITY => Heard::Mismatch,
        StatusCode::CONFLICT if problem()["code"] == "in_doubt" => Heard::InDoubt,
        StatusCode::CONFLICT => Heard::InFlight,
        _ => Heard::TryAgain,
    }
}

fn said(trouble: Trouble) -> Option<&'static str> {
    match trouble {
        Trouble::Slow => Some("slow"),
        Trouble::Busy => Some("busy"),
        Trouble::DiesAfterwards => Some("dies-afterwards"),
        Trouble::Nothing | Trouble::DoubleClick | Trouble::ChangesMind => None,
    }
}

struct Aborted<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
