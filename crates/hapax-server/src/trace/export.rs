//! Sends spans to a collector, in batches, and loses them rather than holding anybody up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::mpsc,
    time::{Instant, timeout},
};

use super::span::Span;

/// Why no traces can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    #[error(
        "`{0}` is no collector's address; write http://HOST:PORT, such as http://127.0.0.1:4318. For one that speaks TLS \
         only, run a collector beside the daemon that passes spans on [HX0143]"
    )]
    Endpoint(String),
    #[error("the machine has no randomness to give: {0}")]
    Entropy(String),
}

/// At most so many spans in one request, and none waits longer than this.
const BATCH: usize = 512;
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector may take, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;
/// How often metrics go along.
const MINUTE: Duration = Duration::from_secs(60);

/// Sends until its [`super::Tracer`] is gone, and then what is left.
#[derive(Debug)]
pub struct Exporter {
    place: String,
    traces: Uri,
    metrics: Uri,
    waiting: mpsc::Receiver<Span>,
    lost: Arc<AtomicU64>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// An address without the user and the password that may stand in it.
fn without_user(endpoint: &str) -> String {
    match (endpoint.find("//"), endpoint.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}//…{}", &endpoint[..start], &endpoint[end..]),
        (_, _) => endpoint.to_owned(),
    }
}

/// Who it is that tells.
fn resource() -> Value {
    let named = |name: &str, value: &str| json!({ "key": name, "value": { "stringValue": value } });
    json!({ "attributes": [named("service.name", "hapax"), named("service.version", env!("CARGO_PKG_VERSION"))] })
}

fn scope() -> Value {
    json!({ "name": "hapax", "version": env!("CARGO_PKG_VERSION") })
}

impl Exporter {
    pub(super) fn new(endpoint: &str, waiting: mpsc::Receiver<Span>, lost: Arc<AtomicU64>) -> Result<Self, TraceError> {
        let wrong = || TraceError::Endpoint(without_user(endpoint));
        let base: Uri = endpoint.trim_end_matches('/').parse().map_err(|_| wrong())?;
        if base.scheme_str() != Some("http") || base.query().is_some() {
            return Err(wrong());
        }
        // Who it would be sent as is not sent: it must not be thought that it is.
        let authority = base.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        let place = format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(4318));
        let path = base.path().trim_end_matches('/');
        let at = |what: &str| format!("{path}/v1/{what}").parse().map_err(|_| wrong());
        Ok(Self { place, traces: at("traces")?, metrics: at("metrics")?, waiting, lost, connection: None })
    }

    pub async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut told: Option<Instant> = None;
        while let Some(first) = self.waiting.recv().await {
            batch.push(first);
            let gather = async {
                while batch.len() < BATCH {
                    match self.waiting.recv().await {
                        Some(span) => batch.push(span),
                        None => break,
                    }
                }
            };
            let _enough_or_time = timeout(GATHER, gather).await;
            let count = batch.len() as u64;
            if !self.send(&batch).await {
                self.lost.fetch_add(count, Relaxed);
            } else if told.is_none_or(|at| at.elapsed() >= MINUTE) {
                told = Some(Instant::now());
                self.tell_of_regions(batch.last().map_or(0, |span| span.end_ns)).await;
            }
            batch.clear();
        }
    }

    async fn send(&mut self, batch: &[Span]) -> bool {
        let spans: Vec<_> = batch.iter().map(Span::json).collect();
        let body = json!({ "resourceSpans": [{
            "resource": resource(), "scopeSpans": [{ "scope": scope(), "spans": spans }],
        }]});
        let body = Bytes::from(body.to_string());
        let mut pause = Duration::from_millis(100);
        for _ in 0..TRIES {
            match timeout(PATIENCE, self.post(self.traces.clone(), body.clone())).await {
                Ok(Some(status)) if (200..300).contains(&status) => return true,
                // What it calls wrong stays wrong.
                Ok(Some(status)) if (400..500).contains(&status) && status != 429 => return false,
                Ok(_) | Err(_) => self.connection = None,
            }
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
        false
    }

    /// What OpenWOP wants to know of several regions, under its own dotted names. Of one region there is nothing to tell but
    /// that; a collector that takes no metrics is not asked twice for the same minute.
    async fn tell_of_regions(&mut self, now_ns: u64) {
        let at = now_ns.to_string();
        let body = json!({ "resourceMetrics": [{
            "resource": resource(),
            "scopeMetrics": [{ "scope": scope(), "metrics": [
                { "name": "openwop.idempotency.cross_region_conflicts_total", "sum": {
                    "aggregationTemporality": 2, "isMonotonic": true,
                    "dataPoints": [{ "startTimeUnixNano": at, "timeUnixNano": at, "asInt": "0" }],
                } },
                { "name": "openwop.idempotency.partition_seconds", "unit": "s", "gauge": {
                    "dataPoints": [{ "timeUnixNano": at, "asDouble": 0.0 }],
                } },
            ] }],
        }]});
        if timeout(PATIENCE, self.post(self.metrics.clone(), Bytes::from(body.to_string()))).await.is_err() {
            self.connection = None;
        }
    }

    /// The collector's status; `None` if it gave none.
    async fn post(&mut self, uri: Uri, body: Bytes) -> Option<u16> {
        let mut kept = self.connection.take();
        if let Some(connection) = &mut kept
            && connection.ready().await.is_err()
        {
            kept = None;
        }
        let mut connection = match kept {
            Some(kept) => kept,
            None => {
                let stream = TcpStream::connect(&self.place).await.ok()?;
                let (connection, driver) = handshake(TokioIo::new(stream)).await.ok()?;
                tokio::spawn(driver);
                connection
            }
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::HOST, &self.place)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .ok()?;
        let answer = connection.send_request(request).await.ok()?;
        let status = answer.status().as_u16();
        answer.into_body().collect().await.ok()?;
        self.connection = Some(connection);
        Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_user_in_it_is_refused_and_not_repeated() {
        let made = |endpoint: &str| Exporter::new(endpoint, mpsc::channel(1).1, Arc::default());
        assert!(made("http://127.0.0.1:4318/otlp").is_ok());
        for endpoint in ["http://me:hush@127.0.0.1:4318", "https://me:hush@collector"] {
            let error = made(endpoint).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("HX0143") && !error.contains("hush"), "{endpoint}: {error}");
        }
    }
}
