//! Wake-ups from other processes.
//!
//! Whoever waits marks the row; a write that finds a mark notifies, and no other does: an unconditional `NOTIFY` takes a
//! lock that all commits share. One session listens for the whole process. While it is lost, everybody is woken now and
//! then to read for themselves, and once more when it is back.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    time::Duration,
};

use data_encoding::HEXLOWER_PERMISSIVE;
use hapax_core::Id;
use hapax_store::{StoreError, Waiters, Watch};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_postgres::AsyncMessage;

use crate::{
    error::Call,
    pool::Pool,
    statement::{Sql, quoted},
    store::{PostgresStore, Reach},
};

/// How long a mark lasts, and how often it is made anew.
const MARK: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(10);
/// While nobody listens.
const WITHOUT: Duration = Duration::from_millis(250);
/// For the first session; without it one waits all the same, and is woken now and then.
const FIRST: Duration = Duration::from_secs(2);

impl PostgresStore {
    pub(crate) async fn watch_it(&self, id: Id) -> Result<Box<dyn Watch>, StoreError> {
        let waiter = self.waiters.join(id);
        if let Some(mut up) = self.start_listening() {
            let _without_it = timeout(FIRST, up.wait_for(Option::is_some)).await.is_ok();
        }
        mark(&self.pool, &[id]).await?;
        Ok(Box::new(waiter))
    }

    /// At the first call: before that there may be no runtime to do it on. Only who begins it waits for it; whoever comes
    /// while nobody listens is woken once somebody does.
    fn start_listening(&self) -> Option<watch::Receiver<Option<bool>>> {
        let mut listener = self.listener.lock();
        if listener.is_some() {
            return None;
        }
        let (up, seen) = watch::channel(None);
        let ear = Ear {
            pool: Arc::clone(&self.pool),
            reach: self.listen.clone(),
            channel: self.channel.clone(),
            waiters: Arc::downgrade(&self.waiters),
            up,
        };
        *listener = Some(Listener { up: seen.clone(), task: tokio::spawn(ear.listen()) });
        Some(seen)
    }

    /// Whether the server tells this process of changes that it waits for; if not, it reads now and then.
    #[doc(hidden)]
    #[must_use]
    pub fn listens(&self) -> bool {
        self.listener.lock().as_ref().is_some_and(|listener| *listener.up.borrow() == Some(true))
    }
}

/// Ends with the store.
#[derive(Debug)]
pub(crate) struct Listener {
    up: watch::Receiver<Option<bool>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Ear {
    pool: Arc<Pool>,
    reach: Reach,
    channel: String,
    waiters: Weak<Waiters>,
    /// `None` until the first attempt has ended.
    up: watch::Sender<Option<bool>>,
}

impl Ear {
    async fn listen(self) {
        let sessions = async {
            loop {
                self.session().await;
                self.up.send_replace(Some(false));
                tokio::time::sleep(WITHOUT).await;
            }
        };
        tokio::select! {
            () = sessions => {}
            () = self.wake_without() => {}
        }
    }

    /// Also while a session is on its way, which may take long. Ends with the store.
    async fn wake_without(&self) {
        let mut up = self.up.subscribe();
        while up.wait_for(|up| *up != Some(true)).await.is_ok() {
            let Some(waiters) = self.waiters.upgrade() else { return };
            waiters.wake_all();
            drop(waiters);
            tokio::time::sleep(WITHOUT).await;
        }
    }

    /// Until it is lost.
    async fn session(&self) {
        let connecting = self.reach.config.connect(self.reach.tls.clone());
        let Ok(Ok((client, mut wire))) = timeout(self.pool.connect_timeout(), connecting).await else { return };
        let waiters = self.waiters.clone();
        let (ended, mut end) = mpsc::channel::<()>(1);
        let reading = tokio::spawn(async move {
            // Dropped when the wire is.
            let _ended = ended;
            while let Some(Ok(message)) = poll_fn(|context| wire.poll_message(context)).await {
                let AsyncMessage::Notification(note) = message else { continue };
                let Some(waiters) = waiters.upgrade() else { return };
                let id = HEXLOWER_PERMISSIVE.decode(note.payload().as_bytes()).ok();
                if let Some(id) = id.and_then(|id| id.try_into().ok()) {
                    waiters.wake(&Id(id));
                }
            }
        });
        let _reading = AbortOnDrop(reading);
        let listen = format!("LISTEN {}", quoted(&self.channel));
        if !matches!(timeout(FIRST, client.batch_execute(&listen)).await, Ok(Ok(()))) || !self.mark_all().await {
            return;
        }
        self.up.send_replace(Some(true));
        // What changed while nobody listened.
        if let Some(waiters) = self.waiters.upgrade() {
            waiters.wake_all();
        }
        let mut again = tokio::time::interval(AGAIN);
        again.tick().await;
        loop {
            tokio::select! {
                _ = end.recv() => return,
                _ = again.tick() => {
                    // A session that died in silence is noticed here.
                    let alive = matches!(timeout(FIRST, client.batch_execute("")).await, Ok(Ok(())));
                    if !alive || !self.mark_all().await {
                        return;
                    }
                }
            }
        }
    }

    async fn mark_all(&self) -> bool {
        let ids = self.waiters.upgrade().map(|waiters| waiters.ids()).unwrap_or_default();
        ids.is_empty() || mark(&self.pool, &ids).await.is_ok()
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn mark(pool: &Pool, ids: &[Id]) -> Result<(), StoreError> {
    let ids: Vec<&[u8]> = ids.iter().map(|id| id.0.as_slice()).collect();
    let span = i64::try_from(MARK.as_millis()).unwrap_or(i64::MAX);
    pool.query(Call::Read("watch"), Sql::Mark, &[&ids, &span]).await.map(drop)
}
