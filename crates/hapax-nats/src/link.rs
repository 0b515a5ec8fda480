//! One connection that carries many calls at once, made anew by the next call after it was lost.
//!
//! The client would reconnect by itself for as long as it takes, and then send what was asked meanwhile. A write must not be
//! late by more than a time-out or two, so a client that has lost its connection is left behind with all it still holds.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use async_nats::{Client, ConnectOptions, HeaderMap, Request, connection::State};
use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::Mutex, time::timeout};

use crate::{
    address::{Address, Login},
    api::MaybeRefused,
    error::Failed,
    options::Options,
};

pub(crate) struct Link {
    address: Address,
    connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    current: RwLock<Option<Connected>>,
    connecting: Mutex<()>,
    made: AtomicU64,
    /// Requests that were sent, for tests that count round trips.
    pub(crate) sent: AtomicU64,
}

#[derive(Clone)]
struct Connected {
    client: Client,
    number: u64,
}

/// The address may hold a password.
impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("name", &self.address.name()).finish_non_exhaustive()
    }
}

impl Link {
    pub(crate) fn new(address: Address, options: &Options) -> Self {
        Self {
            address,
            connect_timeout: options.connect_timeout,
            answer_timeout: options.answer_timeout,
            current: RwLock::default(),
            connecting: Mutex::default(),
            made: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    /// Tells one connection from the next.
    pub(crate) fn number(&self) -> u64 {
        self.made.load(Relaxed)
    }

    pub(crate) async fn client(&self) -> Result<Client, Failed> {
        self.connected().await.map(|connected| connected.client)
    }

    fn living(&self) -> Option<Connected> {
        let current = self.current.read().clone();
        current.filter(|connected| connected.client.connection_state() == State::Connected)
    }

    async fn connected(&self) -> Result<Connected, Failed> {
        if let Some(connected) = self.living() {
            return Ok(connected);
        }
        // One connects, the others wait for it.
        let _connecting = self.connecting.lock().await;
        if let Some(connected) = self.living() {
            return Ok(connected);
        }
        let client = self.connect().await?;
        let connected = Connected { client, number: self.made.fetch_add(1, Relaxed) + 1 };
        *self.current.write() = Some(connected.clone());
        Ok(connected)
    }

    async fn connect(&self) -> Result<Client, Failed> {
        let options = ConnectOptions::new()
            .name("hapax")
            .connection_timeout(self.connect_timeout)
            .request_timeout(Some(self.answer_timeout))
            .ping_interval(Duration::from_secs(10))
            // One round over the servers; whoever calls next starts another.
            .max_reconnects(self.address.servers.len());
        let options = match self.address.login.clone() {
            None => options,
            Some(Login::Token(token)) => options.token(token),
            Some(Login::User(user, password)) => options.user_and_password(user, password),
        };
        match timeout(self.connect_timeout, options.connect(&self.address.servers[..])).await {
            Ok(connected) => connected.map_err(|error| Failed::of_connect(&error)),
            Err(_) => {
                let what = "no connection in time; check that it runs and that this machine may reach it";
                Err(Failed::Connecting(what.into()))
            }
        }
    }

    /// Sends one request and waits for its answer.
    pub(crate) async fn request(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<Bytes, Failed> {
        let Connected { client, number } = self.connected().await?;
        let mut request = Request::new().payload(payload);
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        self.sent.fetch_add(1, Relaxed);
        match client.send_request(subject, request).await {
            Ok(message) => Ok(message.payload),
            Err(error) => {
                let failed = Failed::of_request(error.kind());
                if matches!(failed, Failed::NoAnswer | Failed::Broken) {
                    self.leave(number);
                }
                Err(failed)
            }
        }
    }

    pub(crate) async fn ask<T: DeserializeOwned>(&self, what: &str, body: &impl Serialize) -> Result<T, Failed> {
        let body = serde_json::to_vec(body).map_err(|error| Failed::Connecting(error.to_string()))?;
        let answer = self.request(format!("$JS.API.{what}"), None, body.into()).await?;
        read(&answer)
    }

    /// What is still under way on it fails by itself.
    fn leave(&self, number: u64) {
        let mut current = self.current.write();
        if current.as_ref().is_some_and(|connected| connected.number == number) {
            *current = None;
        }
    }
}

pub(crate) fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Failed> {
    let strange = |error: serde_json::Error| Failed::Strange(error.to_string());
    let refused: MaybeRefused = serde_json::from_slice(answer).map_err(strange)?;
    match refused.error {
        Some(refusal) => Err(Failed::Refused(refusal)),
        None => serde_json::from_slice(answer).map_err(strange),
    }
}
