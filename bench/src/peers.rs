//! What one would take instead of the ledger, used as well as it can be: one writer thread that gathers what has queued,
//! applies it as one durable batch, then wakes the callers. All keep the same bytes under the same keys.

use std::{path::Path, sync::mpsc, thread::JoinHandle};

use bytes::Bytes;
use hapax_core::Id;
use tokio::sync::oneshot;

/// A write that waits for its batch.
pub(crate) struct Write {
    pub(crate) id: Id,
    pub(crate) bytes: Bytes,
    /// Only if the key is not there yet.
    pub(crate) begin: bool,
    pub(crate) reply: oneshot::Sender<bool>,
}

/// Applies one batch durably and says of each write whether it was done.
pub(crate) trait Batches: Send + 'static {
    fn apply(&mut self, batch: &[Write]) -> Result<Vec<bool>, String>;
}

/// A peer behind its writer thread.
pub(crate) struct Grouped {
    queue: Option<mpsc::SyncSender<Write>>,
    writer: Option<JoinHandle<()>>,
}

/// The most writes in one batch, as many as tasks can have under way.
const MOST: usize = 4_096;

impl Grouped {
    pub(crate) fn over(mut peer: impl Batches) -> Self {
        let (queue, incoming) = mpsc::sync_channel::<Write>(MOST);
        let writer = std::thread::spawn(move || {
            while let Ok(first) = incoming.recv() {
                let mut batch = vec![first];
                batch.extend(incoming.try_iter().take(MOST));
                let Ok(done) = peer.apply(&batch) else { return };
                for (write, done) in batch.into_iter().zip(done) {
                    let _gone = write.reply.send(done);
                }
            }
        });
        Self { queue: Some(queue), writer: Some(writer) }
    }

    pub(crate) async fn write(&self, id: Id, bytes: Bytes, begin: bool) -> bool {
        let (reply, answer) = oneshot::channel();
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(Write { id, bytes, begin, reply }).is_ok());
        sent && answer.await.unwrap_or(false)
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take() {
            let _panicked = writer.join();
        }
    }
}

pub(crate) struct Fjall {
    database: fjall::Database,
    records: fjall::Keyspace,
}

impl Fjall {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let database = fjall::Database::builder(path).open().map_err(|error| error.to_string())?;
        let records =
            database.keyspace("records", fjall::KeyspaceCreateOptions::default).map_err(|error| error.to_string())?;
        Ok(Self { database, records })
    }
}

impl Batches for Fjall {
    fn apply(&mut self, writes: &[Write]) -> Result<Vec<bool>, String> {
        let mut batch = self.database.batch().durability(Some(fjall::PersistMode::SyncData));
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            let free = !write.begin || !self.records.contains_key(write.id.0).map_err(|error| error.to_string())?;
            if free {
                batch.insert(&self.records, write.id.0, &write.bytes[..]);
            }
            done.push(free);
        }
        batch.commit().map_err(|error| error.to_string())?;
        Ok(done)
    }
}

pub(crate) struct Sqlite {
    connection: rusqlite::Connection,
}

impl Sqlite {
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(path).map_err(|error| error.to_string())?;
        let open = || {
            let connection = rusqlite::Connection::open(path.join("records.db"))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.pragma_update(None, "cache_size", -262_144)?;
            connection
                .execute_batch("CREATE TABLE records (id BLOB PRIMARY KEY, bytes BLOB NOT NULL) WITHOUT ROWID")?;
            Ok::<_, rusqlite::Error>(connection)
        };
        open().map(|connection| Self { connection }).map_err(|error| error.to_string())
    }

    fn transaction(&mut self, writes: &[Write]) -> rusqlite::Result<Vec<bool>> {
        let transaction = self.connection.transaction()?;
        let mut done = Vec::with_capacity(writes.len());
        {
            let mut begin = transaction.prepare_cached("INSERT OR IGNORE INTO records (id, bytes) VALUES (?1, ?2)")?;
            let mut complete = transaction.prepare_cached("UPDATE records SET bytes = ?2 WHERE id = ?1")?;
            for write in writes {
                let statement = if write.begin { &mut begin } else { &mut complete };
                done.push(statement.execute((&write.id.0[..], &write.bytes[..]))? == 1);
            }
        }
        transaction.commit()?;
        Ok(done)
    }
}

impl Batches for Sqlite {
    fn apply(&mut self, writes: &[Write]) -> Result<Vec<bool>, String> {
        self.transaction(writes).map_err(|error| error.to_string())
    }
}
