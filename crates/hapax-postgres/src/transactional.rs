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

use crate::{
    driver::{Cell, Column, Driver, Param},
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
    /// Asks for the right to do it in this transaction: a `&tokio_postgres::Transaction`, with the feature `sqlx` the
    /// `&mut *transaction` of `sqlx`, or whatever a [`Driver`] was written for.
    pub async fn begin(
        &self,
        mut transaction: impl Driver,
        policy: Arc<Policy>,
        id: Id,
        begin: Begin,
    ) -> Result<Entered, TransactionError> {
        let (lock, key) = ("SELECT pg_try_advisory_xact_lock($1)", [Param::Number(Some(lock_of(&id)))]);
        let locked = transaction.first_row(lock, &key, &[Column::Flag]).await;
        if !is_true(locked.map_err(|words| self.failed("begin", &words))?) {
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
        mut transaction: impl Driver,
        id: &Id,
    ) -> Result<(Option<Record>, Version, Moment), TransactionError> {
        let sql = Sql::within(Sql::Get.text(), &self.schema);
        let columns = [Column::Number, Column::Number, Column::Bytes, Column::Number];
        let row = transaction.first_row(&sql, &[Param::Bytes(Some(&id.0))], &columns).await;
        let row = row.map_err(|words| self.failed("begin", &words))?.unwrap_or_default();
        let [Cell::Number(version), Cell::Number(stamp), Cell::Bytes(record), Cell::Number(Some(now))] = row.as_slice()
        else {
            return Err(TransactionError::Damaged("no row where there is always one".into()));
        };
        let held = row::snapshot(version.unwrap_or(0), stamp.unwrap_or(0), record.clone(), *now)
            .map_err(|error| TransactionError::Damaged(error.to_string()))?;
        let record = held.record.as_ref().map(codec::open).transpose();
        let record = record.map_err(|error| TransactionError::Damaged(error.to_string()))?;
        let record = record.map(|record| record.settled(held.version, held.stamp));
        // The server's time is the wall's too: people read it.
        Ok((record, held.version, Moment { now: held.now, wall: WallMillis(held.now.0) }))
    }

    /// Nothing of a transaction counts before its commit, so what fails in it has done nothing.
    fn failed(&self, call: &str, words: &str) -> TransactionError {
        let reason = format!("`{call}`: {words}; roll the transaction back");
        TransactionError::Store(StoreError::Unavailable { store: self.server.clone(), reason })
    }
}

impl Deed {
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// It was done: the outcome is recorded when the caller commits.
    pub async fn complete(self, transaction: impl Driver, outcome: Outcome) -> Result<(), TransactionError> {
        let command = Command::Complete { token: self.token, outcome };
        self.end(transaction, command).await
    }

    /// It was refused for good, and the same refusal is to be given again.
    pub async fn reject(self, transaction: impl Driver, outcome: Outcome) -> Result<(), TransactionError> {
        let command = Command::Reject { token: self.token, outcome };
        self.end(transaction, command).await
    }

    async fn end(self, mut transaction: impl Driver, command: Command) -> Result<(), TransactionError> {
        let current = Current { record: Some(&*self.pending), version: self.read };
        // Inside the transaction no time passes: nobody else can have seen a lease that was never written.
        let step = apply(&self.policy, current, command, self.moment);
        let (Reply::Done(_), Write::Put(record)) = (&step.reply, &step.write) else {
            return Err(TransactionError::Refused(format!("{:?}", step.reply)));
        };
        let mut record = Record::clone(record);
        // The one write is the reservation too.
        record.attempt.fence = Fence::Write;
        let failed = |words: String| self.inside.failed("complete", &words);
        if let Some((body, bytes)) = &step.put_body {
            let sql = Sql::within(Sql::PutBody.text(), &self.inside.schema);
            let params = [&body.0[..], &self.id.0, bytes].map(|bytes| Param::Bytes(Some(bytes)));
            transaction.first_row(&sql, &params, &[]).await.map_err(failed)?;
        }
        let columns = Columns::of(Some(&codec::seal(&record)));
        let mut params = columns.plain(&self.id.0, &self.inside.channel);
        let sql = if self.read == Version::NEVER {
            Sql::First
        } else {
            params.push(Param::Number(Some(i64::try_from(self.read.0).unwrap_or(-1))));
            Sql::Next
        };
        let sql = Sql::within(sql.text(), &self.inside.schema);
        let written = transaction.first_row(&sql, &params, &[Column::Flag]).await.map_err(failed)?;
        if is_true(written) { Ok(()) } else { Err(TransactionError::Overtaken) }
    }
}

fn is_true(row: Option<Vec<Cell>>) -> bool {
    row.is_some_and(|row| row == [Cell::Flag(true)])
}

/// Two ids that share a lock are only told to come again.
fn lock_of(id: &Id) -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.0[..8]);
    i64::from_be_bytes(bytes)
}
