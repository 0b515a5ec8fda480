//! Connections that carry many calls at once, and come back after they were lost.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hapax_store::StoreError;
use parking_lot::RwLock;
use redis::{
    AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection, PubSub},
};
use tokio::sync::Mutex;

use crate::{
    error::{Call, When, store_error},
    invocation::Invocation,
    options::Options,
    reach::Reach,
    script::Script,
};

/// All connections to one server, or to whichever Sentinels say is the one.
#[derive(Debug)]
pub(crate) struct Links {
    reach: Reach,
    pub(crate) name: String,
    links: Vec<Link>,
    turn: AtomicUsize,
    pub(crate) connect_timeout: Duration,
    answer_timeout: Duration,
    /// Calls that were sent, for tests that count round trips.
    sent: Arc<AtomicU64>,
}

/// A call that failed, and whether it had left by then.
#[derive(Debug)]
pub(crate) struct Failed {
    when: When,
    pub(crate) error: RedisError,
}

impl Failed {
    pub(crate) fn told(&self, server: &str, call: Call) -> StoreError {
        store_error(server, call, self.when, &self.error)
    }

    /// Whether this server is not the one to ask, now or for a while.
    pub(crate) fn is_elsewhere(&self) -> bool {
        is_lost(&self.error) || self.error.code().is_some_and(is_not_here)
    }

    /// Of a slot on its way to another server some keys are here, some there: it has done nothing, and will in a moment.
    pub(crate) fn is_half_moved(&self) -> bool {
        self.error.code() == Some("TRYAGAIN")
    }
}

#[derive(Debug, Default)]
struct Link {
    current: RwLock<Option<Connection>>,
    connecting: Mutex<()>,
}

#[derive(Clone)]
struct Connection {
    wire: MultiplexedConnection,
    digests: Arc<Vec<String>>,
    /// Tells one connection from the next.
    number: u64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Links {
    pub(crate) fn new(reach: Reach, name: String, options: &Options, sent: Arc<AtomicU64>) -> Self {
        Self {
            reach,
            name,
            links: (0..options.connections).map(|_| Link::default()).collect(),
            turn: AtomicUsize::new(0),
            connect_timeout: options.connect_timeout,
            answer_timeout: options.answer_timeout,
            sent,
        }
    }

    /// Sentinels look after it.
    pub(crate) const fn is_watched(&self) -> bool {
        matches!(self.reach, Reach::Sentinel(_))
    }

    /// Runs a script of ours. A server that does not know it yet has done nothing, and is sent the whole of it.
    pub(crate) async fn run(&self, call: &Invocation<'_>, in_cluster: bool) -> Result<Value, Failed> {
        let (link, mut connection) = self.connection().await?;
        let digest = connection.digests.get(call.script.place()).map_or("", String::as_str);
        let mut command = redis::cmd("EVALSHA");
        command.arg(digest);
        call.fill(&mut command, in_cluster);
        self.sent.fetch_add(1, Relaxed);
        // An error of the server's comes as a value.
        let mut answer = connection.wire.req_packed_command(&command).await.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT")) {
            answer = connection.wire.req_packed_command(&call.in_full(in_cluster)).await;
        }
        seen(link, &connection, answer)
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, Failed> {
        let (link, mut connection) = self.connection().await?;
        self.sent.fetch_add(1, Relaxed);
        let answer = connection.wire.req_packed_command(command).await;
        seen(link, &connection, answer)
    }

    /// One command, to whom a slot is on its way.
    pub(crate) async fn send_asking(&self, command: Cmd) -> Result<Value, Failed> {
        let mut pipe = redis::pipe();
        pipe.cmd("ASKING").add_command(command);
        let last = self.send_all(&pipe).await?.pop().unwrap_or(Value::Nil);
        last.extract_error().map_err(|error| Failed { when: When::Asked, error })
    }

    /// Several commands in one round trip. What the server says against one of them stands in its place.
    pub(crate) async fn send_all(&self, pipe: &Pipeline) -> Result<Vec<Value>, Failed> {
        let (link, mut connection) = self.connection().await?;
        self.sent.fetch_add(1, Relaxed);
        let answer = connection.wire.req_packed_commands(pipe, 0, pipe.len()).await;
        let values = answer.map_err(|error| lost(link, &connection, error))?;
        // One command is told what would have been told to all: the connection leads to the wrong server.
        if values.iter().any(|value| said(value).is_some_and(leads_astray)) {
            link.drop_this(connection.number);
        }
        Ok(values)
    }

    pub(crate) async fn ask<T: FromRedisValue>(&self, call: Call, command: &Cmd) -> Result<T, StoreError> {
        self.send(command).await.and_then(read).map_err(|failed| failed.told(&self.name, call))
    }

    /// A connection of its own, that listens.
    pub(crate) async fn ear(&self) -> RedisResult<PubSub> {
        self.reach.client().await?.get_async_pubsub().await
    }

    async fn connection(&self) -> Result<(&Link, Connection), Failed> {
        let failed = |error: RedisError| Failed { when: When::Connecting, error };
        let turn = self.turn.fetch_add(1, Relaxed);
        let Some(link) = self.links.get(turn % self.links.len().max(1)) else {
            return Err(failed((redis::ErrorKind::Client, "it has no connection").into()));
        };
        if let Some(connection) = link.current.read().clone() {
            return Ok((link, connection));
        }
        // One connects, the others wait for it.
        let _connecting = link.connecting.lock().await;
        if let Some(connection) = link.current.read().clone() {
            return Ok((link, connection));
        }
        let connection = self.connect().await.map_err(failed)?;
        *link.current.write() = Some(connection.clone());
        Ok((link, connection))
    }

    async fn connect(&self) -> RedisResult<Connection> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.answer_timeout));
        let client = self.reach.client().await?;
        let mut wire = client.get_multiplexed_async_connection_with_config(&config).await?;
        self.reach.agree(&mut wire).await?;
        let mut load = redis::pipe();
        for script in Script::ALL {
            load.cmd("SCRIPT").arg("LOAD").arg(script.text());
        }
        let digests: Vec<String> = load.query_async(&mut wire).await?;
        Ok(Connection { wire, digests: Arc::new(digests), number: NUMBER.fetch_add(1, Relaxed) })
    }
}

impl Link {
    /// What is still under way on it fails by itself.
    fn drop_this(&self, number: u64) {
        let mut current = self.current.write();
        if current.as_ref().is_some_and(|connection| connection.number == number) {
            *current = None;
        }
    }
}

fn seen(link: &Link, connection: &Connection, answer: RedisResult<Value>) -> Result<Value, Failed> {
    answer.and_then(Value::extract_error).map_err(|error| lost(link, connection, error))
}

fn lost(link: &Link, connection: &Connection, error: RedisError) -> Failed {
    if is_lost(&error) {
        link.drop_this(connection.number);
    }
    Failed { when: When::Asked, error }
}

pub(crate) fn read<T: FromRedisValue>(value: Value) -> Result<T, Failed> {
    let read = value.extract_error().and_then(|value| T::from_redis_value(value).map_err(RedisError::from));
    read.map_err(|error| Failed { when: When::Asked, error })
}

/// Whether the connection is of no more use. After a fail-over the address may lead to another server.
fn is_lost(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_timeout()
        || error.is_unrecoverable_error()
        || error.code().is_some_and(leads_astray)
}

/// The first word of what a server says against a command.
pub(crate) fn said(value: &Value) -> Option<&str> {
    if let Value::ServerError(error) = value { Some(error.code()) } else { None }
}

fn leads_astray(code: &str) -> bool {
    matches!(code, "READONLY" | "MASTERDOWN" | "LOADING")
}

/// What a cluster keeps here may be elsewhere.
pub(crate) fn is_not_here(code: &str) -> bool {
    leads_astray(code) || matches!(code, "CLUSTERDOWN" | "MOVED")
}
