//! Exactly once for effects in the same database: the effect and its record commit together, or not at all.
//!
//! Nothing is written when work begins. A lock that goes with the transaction keeps others of this kind out (they are told
//! that it is in flight; nobody waits), and at the end one write puts down the final record, if its version is still the
//! one that was read. A crash at any point leaves neither the effect nor a trace.

use std::sync::Arc;

use hapax_core::{
    Command, Current, Fence, Id, Millis, Moment, Outcome, Policy, Record, Reply, Token, Verdict, Version, WallMillis,
    Write, apply, command::Begin,
};
use hapax_store::{StoreError, codec};
use tokio_postgres::{Transaction, types::ToSql};

use crate::{
    error::{Call, store_error},
    row::{self, Columns},
    statement::Sql,
    store::PostgresStore,
};

/// How long somebody is told to wait whose key is locked by another transaction.
const RETRY_AFTER: Millis = Millis(200);

/// Why the caller's transaction has to be rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    #[error("the operation was begun elsewhere while this transaction ran; roll it back and ask again")]
    Overtaken,
    #[error("the rules refuse this end: {0}; roll the transaction back")]
    Refused(String),
    #[error("the record cannot be read: {0}")]
    Damaged(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Begins and ends operations inside the caller's own transaction.
#[derive(Clone, Debug)]
pub struct Transactional {
    server: String,
    schema: String,
    channel: String,
}

/// The answer to a begin.
#[derive(Debug)]
#[must_use]
pub enum Entered {
    /// Do it, in the same transaction, then say how it ended.
    Execute(Deed),
    /// Do not.
    Told(Verdict),
}

/// Work that is under way in a transaction. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct Deed {
    inside: Transactional,
    policy: Arc<Policy>,
    id: Id,
    /// As it would be stored if it were: the rules need something to end.
    pending: Box<Record>,
    token: Token,
    read: Version,
    moment: Moment,
}

impl PostgresStore {
    /// The same records, for whoever brings a transaction.
    #[must_use]
    pub fn transactional(&self) -> Transactional {
        Transactional {
            server: self.pool.name.clone(),
            schema: self.pool.schema().to_owned(),
            channel: self.channel.clone(),
        }
    }
}

impl Transactional {
    /// Asks for the right to do it in this transaction.
    pub async fn begin(
        &self,
        transaction: &Transaction<'_>,
        policy: Arc<Policy>,
        id: Id,
        begin: Begin,
    ) -> Result<Entered, TransactionError> {
        let call = Call::Read("begin");
        let locked = transaction.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&lock_of(&id)]).await;
        if !locked.map_err(|error| self.failed(call, &error))?.get::<_, bool>(0) {
            return Ok(Entered::Told(Verdict::InFlight { retry_after: RETRY_AFTER, attempt: 0 }));
        }
        let (record, version, moment) = self.read(transaction, &id).await?;
        let current = Current { record: record.as_ref(), version };
        let step = apply(&policy, current, Command::Begin(begin), moment);
        let Reply::Verdict(verdict) = step.reply else {
            return Err(TransactionError::Refused("a begin is answered by a verdict".into()));
        };
        match (*verdict, step.write) {
            (Verdict::Execute(grant), Write::Put(pending)) => {
                let pending = Box::new(Record::clone(&pending).settled(version, moment.now));
                let inside = self.clone();
                Ok(Entered::Execute(Deed { inside, policy, id, pending, token: grant.token, read: version, moment }))
            }
            (verdict, _) => Ok(Entered::Told(verdict)),
        }
    }

    async fn read(
        &self,
        transaction: &Transaction<'_>,
        id: &Id,
    ) -> Result<(Option<Record>, Version, Moment), TransactionError> {
        let sql = Sql::within(Sql::Get.text(), &self.schema);
        let row = transaction.query_one(&sql, &[&id.0.as_slice()]).await;
        let row = row.map_err(|error| self.failed(Call::Read("begin"), &error))?;
        let (version, stamp): (Option<i64>, Option<i64>) = (row.get(0), row.get(1));
        let held = row::snapshot(version.unwrap_or(0), stamp.unwrap_or(0), row.get(2), row.get(3))
            .map_err(|error| TransactionError::Damaged(error.to_string()))?;
        let record = held.record.as_ref().map(codec::open).transpose();
        let record = record.map_err(|error| TransactionError::Damaged(error.to_string()))?;
        let record = record.map(|record| record.settled(held.version, held.stamp));
        // The server's time is the wall's too: people read it.
        Ok((record, held.version, Moment { now: held.now, wall: WallMillis(held.now.0) }))
    }

    fn failed(&self, call: Call, error: &tokio_postgres::Error) -> TransactionError {
        TransactionError::Store(store_error(&self.server, call, error))
    }
}

impl Deed {
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// It was done: the outcome is recorded when the caller commits.
    pub async fn complete(self, transaction: &Transaction<'_>, outcome: Outcome) -> Result<(), TransactionError> {
        let command = Command::Complete { token: self.token, outcome };
        self.end(transaction, command).await
    }

    /// It was refused for good, and the same refusal is to be given again.
    pub async fn reject(self, transaction: &Transaction<'_>, outcome: Outcome) -> Result<(), TransactionError> {
        let command = Command::Reject { token: self.token, outcome };
        self.end(transaction, command).await
    }

    async fn end(self, transaction: &Transaction<'_>, command: Command) -> Result<(), TransactionError> {
        let current = Current { record: Some(&*self.pending), version: self.read };
        // Inside the transaction no time passes: nobody else can have seen a lease that was never written.
        let step = apply(&self.policy, current, command, self.moment);
        let (Reply::Done(_), Write::Put(record)) = (&step.reply, &step.write) else {
            return Err(TransactionError::Refused(format!("{:?}", step.reply)));
        };
        let mut record = Record::clone(record);
        // The one write is the reservation too.
        record.attempt.fence = Fence::Write;
        let call = Call::Write("complete");
        if let Some((body, bytes)) = &step.put_body {
            let sql = Sql::within(Sql::PutBody.text(), &self.inside.schema);
            let params: [&(dyn ToSql + Sync); 3] = [&body.0.as_slice(), &self.id.0.as_slice(), &bytes.as_ref()];
            transaction.execute(&sql, &params).await.map_err(|error| self.inside.failed(call, &error))?;
        }
        let columns = Columns::of(Some(&codec::seal(&record)));
        let (id, version) = (self.id.0.as_slice(), i64::try_from(self.read.0).unwrap_or(-1));
        let mut params = columns.params(&id, &self.inside.channel);
        let sql = if self.read == Version::NEVER {
            Sql::First
        } else {
            params.push(&version);
            Sql::Next
        };
        let rows = transaction.query(&Sql::within(sql.text(), &self.inside.schema), &params).await;
        let rows = rows.map_err(|error| self.inside.failed(call, &error))?;
        match rows.first() {
            Some(row) if row.get::<_, bool>(0) => Ok(()),
            Some(_) | None => Err(TransactionError::Overtaken),
        }
    }
}

/// Two ids that share a lock are only told to come again.
fn lock_of(id: &Id) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.0[..8]);
    i64::from_be_bytes(bytes)
}
