//! A small pool: each call has a connection to itself, so that PostgreSQL commits many of them in one go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hapax_store::StoreError;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};
use tokio_postgres::{Client, Row, Statement, types::ToSql};

use crate::{
    error::{Call, is_lost, store_error},
    options::Options,
    statement::{COUNT, Sql},
    store::Reach,
};

#[derive(Debug)]
pub(crate) struct Pool {
    reach: Reach,
    pub(crate) name: String,
    schema: String,
    setup: String,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    connect_timeout: Duration,
    answer_timeout: Duration,
    /// Statements that were sent, each of them one round trip.
    pub(crate) sent: AtomicU64,
}

/// A session with the statements that it knows.
#[derive(Debug)]
struct Connection {
    client: Client,
    statements: [Option<Statement>; COUNT],
}

impl Pool {
    pub(crate) fn new(reach: Reach, name: String, options: &Options) -> Self {
        let lock = options.lock_timeout.as_millis();
        Self {
            reach,
            name,
            schema: options.schema_name().to_owned(),
            setup: format!(
                "SET lock_timeout = {lock}; SET default_transaction_isolation = 'read committed'; \
                 SET application_name = 'hapax'"
            ),
            idle: Mutex::default(),
            permits: Semaphore::new(options.connections),
            connect_timeout: options.connect_timeout,
            answer_timeout: options.answer_timeout,
            sent: AtomicU64::new(0),
        }
    }

    /// Runs one statement and hands its rows out.
    pub(crate) async fn query(
        &self,
        call: Call,
        sql: Sql,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let waiting = timeout(self.answer_timeout, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = waiting else {
            return Err(self.unavailable(call, "all connections are busy; ask for more, or for less at once"));
        };
        let taken = self.idle.lock().pop();
        let mut connection = match taken {
            Some(connection) if !connection.client.is_closed() => connection,
            Some(_) | None => self.connect(call).await?,
        };
        let statement = match connection.statements[sql.place()].clone() {
            Some(statement) => statement,
            None => {
                let text = Sql::within(sql.text(), &self.schema);
                let statement = match timeout(self.answer_timeout, connection.client.prepare(&text)).await {
                    Ok(prepared) => prepared.map_err(|error| self.not_sent(call, &error))?,
                    Err(_) => {
                        return Err(self.unavailable(call, "no answer in time; nothing was sent yet, check its load"));
                    }
                };
                connection.statements[sql.place()] = Some(statement.clone());
                statement
            }
        };
        self.sent.fetch_add(1, Relaxed);
        match timeout(self.answer_timeout, connection.client.query(&statement, params)).await {
            Ok(Ok(rows)) => {
                self.idle.lock().push(connection);
                Ok(rows)
            }
            Ok(Err(error)) => {
                if !is_lost(&error) {
                    self.idle.lock().push(connection);
                }
                Err(store_error(&self.name, call, &error))
            }
            // The connection goes with what is still under way on it.
            Err(_) => Err(self.unanswered(call)),
        }
    }

    async fn connect(&self, call: Call) -> Result<Connection, StoreError> {
        match timeout(self.connect_timeout, self.session()).await {
            Ok(Ok(client)) => Ok(Connection { client, statements: [const { None }; COUNT] }),
            Ok(Err(error)) => Err(self.not_sent(call, &error)),
            Err(_) => Err(self.unavailable(call, "no connection in time; check that this machine may reach it")),
        }
    }

    /// A session outside the pool.
    pub(crate) async fn session(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, wire) = self.reach.config.connect(self.reach.tls.clone()).await?;
        // Ends with the client.
        tokio::spawn(async move {
            let _lost = wire.await;
        });
        client.batch_execute(&self.setup).await?;
        Ok(client)
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) const fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Before the statement itself was sent nothing can have been written.
    pub(crate) fn not_sent(&self, call: Call, error: &tokio_postgres::Error) -> StoreError {
        store_error(&self.name, Call::Read(call.name()), error)
    }

    fn unanswered(&self, call: Call) -> StoreError {
        let (store, reason) = (
            self.name.clone(),
            format!("`{}`: no answer in time; check its load, the next call connects anew", call.name()),
        );
        match call {
            Call::Read(_) => StoreError::Unavailable { store, reason },
            Call::Write(_) => StoreError::Unknown { store, reason },
        }
    }

    fn unavailable(&self, call: Call, reason: &str) -> StoreError {
        StoreError::Unavailable { store: self.name.clone(), reason: format!("`{}`: {reason}", call.name()) }
    }
}

pub(crate) type Shared = Arc<Pool>;
