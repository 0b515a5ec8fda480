//! Wake-ups from other processes.
//!
//! Whoever waits leaves a mark beside the record; a write that finds one publishes the id. One subscription serves the
//! whole process. While it is lost, everybody is woken now and then to read for themselves, and once more when it is back.
//! A process that may not subscribe is not opened (`rights.rs`).

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
    vec,
};

use hapax_core::Id;
use hapax_store::{StoreError, Waiters, Watch};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use crate::{error::Call, invocation::Invocation, keys::Keys, script::Script, servers::Servers, store::RedisStore};

/// How long a mark lasts, and how often it is made anew.
const MARK: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(10);
/// How many marks are under way at once when all are made anew.
const LANES: usize = 16;
/// While there is no subscription.
const WITHOUT: Duration = Duration::from_millis(250);
/// For the subscription; without it one waits all the same, and is woken now and then.
const FIRST: Duration = Duration::from_secs(2);

impl RedisStore {
    pub(crate) async fn watch_it(&self, id: Id) -> Result<Box<dyn Watch>, StoreError> {
        let waiter = self.waiters.join(id);
        let (mut up, begun) = self.listening();
        // Only at its start: one that is lost later may be away for long, and those who wait are woken now and then.
        let _without_it = timeout_at(begun + FIRST, up.wait_for(|up| *up)).await.is_ok();
        mark(&self.servers, &self.keys, &id).await?;
        Ok(Box::new(waiter))
    }

    /// Starts to listen at the first call: before that there may be no runtime to do it on.
    fn listening(&self) -> (watch::Receiver<bool>, Instant) {
        let mut listener = self.listener.lock();
        let listener = listener.get_or_insert_with(|| {
            let (up, seen) = watch::channel(false);
            let (servers, keys) = (Arc::clone(&self.servers), self.keys.clone());
            let task = tokio::spawn(listen(servers, keys, Arc::downgrade(&self.waiters), up));
            Listener { seen, task, begun: Instant::now() }
        });
        (listener.seen.clone(), listener.begun)
    }

    /// Whether wake-ups of other processes come by themselves now. For tests.
    #[doc(hidden)]
    pub fn listens(&self) -> bool {
        self.listener.lock().as_ref().is_some_and(|listener| *listener.seen.borrow())
    }
}

/// Ends with the store.
#[derive(Debug)]
pub(crate) struct Listener {
    seen: watch::Receiver<bool>,
    task: tokio::task::JoinHandle<()>,
    begun: Instant,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(servers: Arc<Servers>, keys: Keys, waiters: Weak<Waiters>, up: watch::Sender<bool>) {
    let down = up.subscribe();
    let subscribing = async {
        loop {
            let _lost = subscribed(&servers, &keys, &waiters, &up).await;
            up.send_replace(false);
            tokio::time::sleep(WITHOUT).await;
        }
    };
    tokio::select! {
        () = subscribing => {}
        () = wake_while_down(&waiters, down) => {}
    }
}

/// Also while a new subscription is on its way, which may take long.
async fn wake_while_down(waiters: &Weak<Waiters>, mut up: watch::Receiver<bool>) {
    while up.wait_for(|up| !*up).await.is_ok() {
        tokio::time::sleep(WITHOUT).await;
        let Some(waiters) = waiters.upgrade() else { return };
        if !*up.borrow() {
            waiters.wake_all();
        }
    }
}

/// Until the subscription is lost.
async fn subscribed(
    servers: &Arc<Servers>,
    keys: &Keys,
    waiters: &Weak<Waiters>,
    up: &watch::Sender<bool>,
) -> Result<(), redis::RedisError> {
    let connecting = async {
        let mut wire = servers.ear().await?;
        wire.subscribe(keys.channel()).await?;
        Ok::<_, redis::RedisError>(wire)
    };
    let Ok(wire) = timeout(FIRST, connecting).await else { return Ok(()) };
    let (mut sink, mut stream) = wire?.split();
    if !mark_all(servers, keys, waiters).await {
        return Ok(());
    }
    up.send_replace(true);
    // What changed while nobody listened.
    if let Some(waiters) = waiters.upgrade() {
        waiters.wake_all();
    }
    let mut again = tokio::time::interval(AGAIN);
    again.tick().await;
    // Many marks take their time, and nobody's wake-up waits for them.
    let mut marking: Option<Marking> = None;
    loop {
        tokio::select! {
            message = std::future::poll_fn(|context| next(&mut stream, context)) => {
                let Some(message) = message else { return Ok(()) };
                let Some(waiters) = waiters.upgrade() else { return Ok(()) };
                if let Ok(id) = message.get_payload_bytes().try_into() {
                    waiters.wake(&Id(id));
                }
            }
            _ = again.tick(), if marking.is_none() => {
                // A connection that died in silence is noticed here.
                let Ok(answer) = timeout(FIRST, sink.ping::<redis::Value>()).await else { return Ok(()) };
                answer?;
                let (servers, keys, waiters) = (Arc::clone(servers), keys.clone(), waiters.clone());
                marking = Some(Box::pin(async move { mark_all(&servers, &keys, &waiters).await }));
            }
            all = ended(&mut marking) => {
                if !all {
                    return Ok(());
                }
            }
        }
    }
}

type Marking = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Never, while there is nothing to wait for. May be dropped and asked again.
async fn ended(marking: &mut Option<Marking>) -> bool {
    let all = match marking {
        Some(marking) => marking.await,
        None => std::future::pending().await,
    };
    *marking = None;
    all
}

fn next(
    stream: &mut redis::aio::PubSubStream,
    context: &mut std::task::Context<'_>,
) -> std::task::Poll<Option<redis::Msg>> {
    futures_core::Stream::poll_next(std::pin::Pin::new(stream), context)
}

/// Makes all marks anew; whoever's was gone may have missed something, and is woken.
async fn mark_all(servers: &Arc<Servers>, keys: &Keys, waiters: &Weak<Waiters>) -> bool {
    let ids = waiters.upgrade().map(|waiters| waiters.ids()).unwrap_or_default();
    let lanes = LANES.min(ids.len());
    let ids = Arc::new(Mutex::new(ids.into_iter()));
    let mut under_way = JoinSet::new();
    for _ in 0..lanes {
        under_way.spawn(mark_some(Arc::clone(servers), keys.clone(), waiters.clone(), Arc::clone(&ids)));
    }
    while let Some(all) = under_way.join_next().await {
        if !matches!(all, Ok(true)) {
            return false;
        }
    }
    true
}

async fn mark_some(
    servers: Arc<Servers>,
    keys: Keys,
    waiters: Weak<Waiters>,
    ids: Arc<Mutex<vec::IntoIter<Id>>>,
) -> bool {
    loop {
        let Some(id) = ids.lock().next() else { return true };
        let Ok(fresh) = mark(&servers, &keys, &id).await else { return false };
        if fresh && let Some(waiters) = waiters.upgrade() {
            waiters.wake(&id);
        }
    }
}

/// Whether there was none.
async fn mark(servers: &Servers, keys: &Keys, id: &Id) -> Result<bool, StoreError> {
    let (marks, head, guard) = (keys.of(id, b"w"), keys.head(id), keys.guard(id));
    let mark = Invocation {
        script: Script::Mark,
        keys: &[&marks, &head],
        guard: Some(&guard),
        args: &|command| {
            command.arg(&id.0).arg(MARK.as_millis() as u64);
        },
    };
    let fresh: u64 = servers.run(Call::Read("watch"), id.0[0], &mark).await?;
    Ok(fresh == 1)
}
