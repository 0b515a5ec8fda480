use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::Full;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    connection::{Address, Pool},
    error::{Error, Refusal},
    operation::Operation,
    wire::{Outcome, Stepped, Ticket},
};

/// How often a request that got no answer is sent again. Every request here can be: nonce and token see to it.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A daemon, and who we are to it. Cloning gives another handle.
#[derive(Clone)]
pub struct Client {
    pool: Arc<Pool>,
    host: String,
    key: Option<String>,
    tenant: Option<String>,
    timeout: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Client {
    /// `http://host:port`, or `unix:` and the path of an admin socket; `https://host:port` with the feature `tls`.
    pub fn new(address: &str) -> Result<Self, Error> {
        Self::trusting(address, None)
    }

    /// Believes the certificates in this PEM file, instead of the system's.
    pub fn trusting(address: &str, ca: Option<&Path>) -> Result<Self, Error> {
        let address = Address::parse(address)?;
        let (host, pool) = (address.host(), Pool::new(address, ca)?);
        Ok(Self { pool: Arc::new(pool), host, key: None, tenant: None, timeout: Duration::from_secs(75) })
    }

    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// For administrators: act for this tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// How long one answer may take; longer than the longest wait.
    #[must_use]
    pub fn timeout(mut self, most: Duration) -> Self {
        self.timeout = most;
        self
    }

    /// Something to be done once: a surface, and the key that names the intent.
    pub fn operation(&self, surface: impl Into<String>, key: impl Into<String>) -> Operation {
        Operation::new(self.clone(), &surface.into(), &key.into())
    }

    pub async fn start(&self, ticket: &Ticket) -> Result<Stepped, Error> {
        self.step(ticket, "start", &serde_json::json!({ "token": ticket.token })).await
    }

    pub async fn renew(&self, ticket: &Ticket) -> Result<Stepped, Error> {
        let said = serde_json::json!({ "token": ticket.token, "lease_ms": ticket.lease_ms });
        self.step(ticket, "renew", &said).await
    }

    pub async fn complete(&self, ticket: &Ticket, outcome: &Outcome) -> Result<Stepped, Error> {
        self.step(ticket, "complete", &serde_json::json!({ "token": ticket.token, "outcome": outcome })).await
    }

    pub async fn reject(&self, ticket: &Ticket, outcome: &Outcome) -> Result<Stepped, Error> {
        self.step(ticket, "reject", &serde_json::json!({ "token": ticket.token, "outcome": outcome })).await
    }

    /// Failed, and may be tried again; with the class `unknown`, nobody can say.
    pub async fn fail(&self, ticket: &Ticket, outcome: &Outcome) -> Result<Stepped, Error> {
        self.step(ticket, "fail", &serde_json::json!({ "token": ticket.token, "outcome": outcome })).await
    }

    /// Nothing happened; `no_effect` is the word for it after the start.
    pub async fn release(&self, ticket: &Ticket) -> Result<Stepped, Error> {
        self.step(ticket, "release", &serde_json::json!({ "token": ticket.token, "why": "no_effect" })).await
    }

    async fn step(&self, ticket: &Ticket, verb: &str, said: &serde_json::Value) -> Result<Stepped, Error> {
        self.post(&format!("/v1/operations/{}:{verb}", ticket.operation), said).await
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.again(Method::GET, path, &[], None).await
    }

    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::Unexpected(error.to_string()))?;
        self.again(Method::POST, path, &bytes, None).await
    }

    /// As [`Client::post`], for what has no token of its own: under this key it happens once, however often it is sent.
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: &str,
    ) -> Result<T, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::Unexpected(error.to_string()))?;
        self.again(Method::POST, path, &bytes, Some(key)).await
    }

    /// As it is: for what is not JSON.
    pub async fn raw(&self, method: Method, path: &str, body: &[u8]) -> Result<(u16, Bytes), Error> {
        let response = self.response(method, path, body, None).await?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    /// The whole answer, with its headers; `key` goes along as the `Idempotency-Key`.
    pub async fn response(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
        key: Option<&str>,
    ) -> Result<Response<Bytes>, Error> {
        self.pool.send(self.request(method, path, body, key)?, self.timeout).await
    }

    /// Sends it until there is an answer, a few times.
    async fn again<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
        key: Option<&str>,
    ) -> Result<T, Error> {
        let mut pause = FIRST_PAUSE;
        let mut left = TRIES;
        loop {
            left -= 1;
            match self.once(method.clone(), path, body, key).await {
                Err(error) if left > 0 && error.may_pass() => {
                    tokio::time::sleep(pause).await;
                    pause *= 4;
                }
                answered => return answered,
            }
        }
    }

    async fn once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
        key: Option<&str>,
    ) -> Result<T, Error> {
        let response = self.response(method, path, body, key).await?;
        let (status, bytes) = (response.status().as_u16(), response.into_body());
        if (200..300).contains(&status) {
            return serde_json::from_slice(&bytes).map_err(|error| Error::Unexpected(error.to_string()));
        }
        match serde_json::from_slice::<Refusal>(&bytes) {
            Ok(refusal) => Err(Error::of(refusal)),
            Err(_) => Err(Error::Unexpected(format!("status {status} without a problem that can be read"))),
        }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
        once: Option<&str>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.host);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        if let Some(once) = once {
            request = request.header("idempotency-key", once);
        }
        if let Some(tenant) = &self.tenant {
            request = request.header("hapax-tenant", tenant);
        }
        let body = Full::new(Bytes::copy_from_slice(body));
        request.body(body).map_err(|error| Error::Unexpected(error.to_string()))
    }
}
