//! Answers as upstreams give them, over a connection that does what a test wants of it.

mod answers;
mod early;
mod heads;
mod memory;
mod requests;
mod rest;
mod script;
mod splits;

use std::future::poll_fn;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use super::{Client, Fault, Most};
use script::{Script, Sent};

const MOST: Most = Most { headers: 1_000, head_bytes: 400 * 1024 };

fn post(body: Sent) -> Request<Sent> {
    Request::post("/pay?x=1").header("host", "a").body(body).unwrap()
}

fn of(method: &str) -> Request<Sent> {
    Request::builder().method(method).uri("/").header("host", "a").body(Sent::nothing()).unwrap()
}

/// What became of a request.
#[derive(PartialEq, Eq, Debug)]
struct Answered {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    /// None: it broke off, or cannot be read.
    body: Option<Vec<u8>>,
    trailers: Vec<(String, Vec<u8>)>,
    /// Whether the connection may carry another request.
    rests: bool,
}

impl Answered {
    fn text(&self) -> Option<&str> {
        self.body.as_deref().map(|body| std::str::from_utf8(body).unwrap())
    }
}

fn lines(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

/// Reads the rest of an answer as the gateway does.
async fn read_on(client: &mut Client<Script, Sent>, head: &Response<()>) -> Answered {
    let (mut body, mut trailers) = (Some(Vec::new()), Vec::new());
    if let Some(whole) = client.whole() {
        body = Some(whole.to_vec());
    }
    while let Some(frame) = poll_fn(|cx| client.poll_frame(cx)).await {
        let Ok(frame) = frame else {
            body = None;
            break;
        };
        match frame.into_data() {
            Ok(piece) => body.as_mut().unwrap().extend_from_slice(&piece),
            Err(frame) => trailers = lines(&frame.into_trailers().unwrap()),
        }
    }
    let (status, headers) = (head.status().as_u16(), lines(head.headers()));
    let rests = poll_fn(|cx| std::task::Poll::Ready(client.is_at_rest() && client.is_fit(cx))).await;
    Answered { status, headers, body, trailers, rests }
}

async fn ask(request: Request<Sent>, script: Script) -> Result<Answered, Fault> {
    let mut client = Client::new(script, MOST);
    let head = client.exchange(request).await?;
    Ok(read_on(&mut client, &head).await)
}

/// The answer to a request without a body, over a connection that stays open.
async fn answer(bytes: impl AsRef<[u8]>) -> Result<Answered, Fault> {
    ask(of("POST"), Script::saying([bytes.as_ref()])).await
}

/// The same, where the other side closes after it.
async fn last_answer(bytes: impl AsRef<[u8]>) -> Result<Answered, Fault> {
    ask(of("POST"), Script::saying([bytes.as_ref()]).closed()).await
}

fn frame(text: &'static str) -> Result<http_body::Frame<Bytes>, &'static str> {
    Ok(http_body::Frame::data(Bytes::from_static(text.as_bytes())))
}
