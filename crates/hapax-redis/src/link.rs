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
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, Pipeline, RedisError, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::sync::Mutex;

use crate::{
    error::{Call, When, store_error},
    options::Options,
    script::Script,
};

/// All connections to one server.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) client: Client,
    pub(crate) name: String,
    links: Vec<Link>,
    turn: AtomicUsize,
    connect_timeout: Duration,
    answer_timeout: Duration,
    /// Calls that were sent, for tests that count round trips.
    pub(crate) sent: AtomicU64,
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
    pub(crate) fn new(client: Client, name: String, options: &Options) -> Self {
        Self {
            client,
            name,
            links: (0..options.connections).map(|_| Link::default()).collect(),
            turn: AtomicUsize::new(0),
            connect_timeout: options.connect_timeout,
            answer_timeout: options.answer_timeout,
            sent: AtomicU64::new(0),
        }
    }

    /// Runs a script of ours. A server that does not know it yet has done nothing, and is sent the whole of it.
    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        call: Call,
        script: Script,
        fill: impl Fn(&mut Cmd),
    ) -> Result<T, StoreError> {
        let (link, mut connection) = self.connection(call).await?;
        let digest = connection.digests.get(script.place()).map_or("", String::as_str);
        let mut command = redis::cmd("EVALSHA");
        command.arg(digest);
        fill(&mut command);
        self.sent.fetch_add(1, Relaxed);
        // An error of the server's comes as a value.
        let mut answer = connection.wire.req_packed_command(&command).await.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(|error| error.code() == Some("NOSCRIPT")) {
            let mut command = redis::cmd("EVAL");
            command.arg(script.text());
            fill(&mut command);
            answer = connection.wire.req_packed_command(&command).await;
        }
        self.read(call, link, &connection, answer)
    }

    pub(crate) async fn ask<T: FromRedisValue>(&self, call: Call, command: &Cmd) -> Result<T, StoreError> {
        let (link, mut connection) = self.connection(call).await?;
        self.sent.fetch_add(1, Relaxed);
        let answer = connection.wire.req_packed_command(command).await;
        self.read(call, link, &connection, answer)
    }

    /// Several commands in one round trip, without any promise between them.
    pub(crate) async fn ask_all<T: FromRedisValue>(&self, call: Call, pipe: &Pipeline) -> Result<Vec<T>, StoreError> {
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let (link, mut connection) = self.connection(call).await?;
        self.sent.fetch_add(1, Relaxed);
        let answer = connection.wire.req_packed_commands(pipe, 0, pipe.len()).await;
        self.read(call, link, &connection, answer.map(Value::Array))
    }

    fn read<T: FromRedisValue>(
        &self,
        call: Call,
        link: &Link,
        connection: &Connection,
        answer: RedisResult<Value>,
    ) -> Result<T, StoreError> {
        let read = answer
            .and_then(Value::extract_error)
            .and_then(|value| T::from_redis_value(value).map_err(RedisError::from));
        read.map_err(|error| {
            if error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error() || stepped_down(&error) {
                link.drop_this(connection.number);
            }
            store_error(&self.name, call, When::Asked, &error)
        })
    }

    async fn connection(&self, call: Call) -> Result<(&Link, Connection), StoreError> {
        let turn = self.turn.fetch_add(1, Relaxed);
        let Some(link) = self.links.get(turn % self.links.len().max(1)) else {
            let reason = "it has no connection".to_owned();
            return Err(StoreError::Unavailable { store: self.name.clone(), reason });
        };
        if let Some(connection) = link.current.read().clone() {
            return Ok((link, connection));
        }
        // One connects, the others wait for it.
        let _connecting = link.connecting.lock().await;
        if let Some(connection) = link.current.read().clone() {
            return Ok((link, connection));
        }
        let connection =
            self.connect().await.map_err(|error| store_error(&self.name, call, When::Connecting, &error))?;
        *link.current.write() = Some(connection.clone());
        Ok((link, connection))
    }

    async fn connect(&self) -> RedisResult<Connection> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.answer_timeout));
        let mut wire = self.client.get_multiplexed_async_connection_with_config(&config).await?;
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

/// After a fail-over the address may lead to another server.
fn stepped_down(error: &RedisError) -> bool {
    matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "LOADING"))
}
