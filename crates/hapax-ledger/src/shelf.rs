//! Where bodies are handed in, taken out and listed, and where records are read that are no longer in memory.
//!
//! One thread writes: what waits together shares one sync of the directory. Others read. Neither the log nor anybody's
//! executor waits for either.

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use hapax_core::Id;
use hapax_store::{BodyId, BodyInfo, Cursor, Page, StoreError};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{aside::Aside, bodies::Passing, queue::Queue, shared::Shared, sudden_end::SuddenEnd};

/// A body may be large: whoever comes later waits with it outside.
const MOST_QUEUED: usize = 64;
/// How many share a sync. Each holds a file open.
const MOST_AT_ONCE: usize = 64;
const READERS: usize = 4;
/// There is nothing to do without work.
const ASLEEP: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub(crate) struct Shelf {
    shared: Arc<Shared>,
    queue: Arc<Queue<Handed>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Aside,
    inline: bool,
}

#[derive(Debug)]
struct Handed {
    body: BodyId,
    what: What,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

#[derive(Debug)]
enum What {
    Put { owner: Id, bytes: Bytes },
    Remove,
}

impl Shelf {
    /// Without threads: everything is done where it is asked for.
    pub(crate) fn inline(shared: Arc<Shared>) -> Self {
        let queue = Arc::new(Queue::new(MOST_QUEUED));
        Self { shared, queue, writer: Mutex::new(None), readers: Aside::inline(), inline: true }
    }

    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Self> {
        let readers = Aside::start("hapax-reader", READERS)?;
        let queue = Arc::new(Queue::new(MOST_QUEUED));
        let (work, of) = (queue.clone(), shared.clone());
        let writer = thread::Builder::new().name("hapax-bodies".into()).spawn(move || run(&of, &work))?;
        Ok(Self { shared, queue, writer: Mutex::new(Some(writer)), readers, inline: false })
    }

    /// Finishes what was handed in.
    pub(crate) fn close(&self) {
        self.queue.close();
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    pub(crate) async fn put(&self, owner: Id, body: BodyId, bytes: Bytes) -> Result<(), StoreError> {
        self.hand_in(body, What::Put { owner, bytes }).await
    }

    pub(crate) async fn remove(&self, body: BodyId) -> Result<(), StoreError> {
        self.hand_in(body, What::Remove).await
    }

    async fn hand_in(&self, body: BodyId, what: What) -> Result<(), StoreError> {
        self.shared.healthy()?;
        let (reply, answer) = oneshot::channel();
        let handed = Handed { body, what, reply };
        if self.inline {
            write(&self.shared, vec![handed]);
        } else if self.queue.push(handed).await.is_err() {
            return Err(self.nobody());
        }
        answer.await.unwrap_or_else(|_| Err(self.nobody()))
    }

    pub(crate) async fn get(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        self.shared.healthy()?;
        self.aside(move |shared| shared.bodies.get(body)).await
    }

    /// What has to be read from the disk, by a thread that nobody else waits for.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        self.readers.run(move || read(&shared)).await.unwrap_or_else(|| Err(self.nobody()))
    }

    pub(crate) async fn list(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<BodyInfo>, StoreError> {
        self.shared.healthy()?;
        let listed = self.shared.bodies.list(after, limit)?;
        if listed.is_complete() {
            return Ok(listed.page());
        }
        self.aside(move |shared| shared.bodies.complete(listed)).await
    }

    fn nobody(&self) -> StoreError {
        match self.shared.healthy() {
            Err(why) => why,
            Ok(()) => self.shared.unavailable("it was closed"),
        }
    }
}

fn run(shared: &Arc<Shared>, queue: &Queue<Handed>) {
    let sudden_end = SuddenEnd::of("bodies", shared.clone(), queue);
    let mut incoming = Vec::new();
    while queue.take(&mut incoming, Some(ASLEEP)) {
        let mut waiting: VecDeque<_> = incoming.drain(..).collect();
        while !waiting.is_empty() {
            write(shared, together(&mut waiting));
        }
    }
    sudden_end.expected();
}

/// The next ones that can share a sync: of one body only the first, since its files have one name.
fn together(waiting: &mut VecDeque<Handed>) -> Vec<Handed> {
    let mut bodies = BTreeSet::new();
    let mut taken = Vec::new();
    while taken.len() < MOST_AT_ONCE {
        match waiting.pop_front() {
            Some(next) if bodies.insert(next.body) => taken.push(next),
            Some(again) => {
                waiting.push_front(again);
                break;
            }
            None => break,
        }
    }
    taken
}

/// What has been done, and is not yet durable.
enum Step {
    /// How long it is.
    Put(u64, io::Result<Passing>),
    /// Whether it was there.
    Removed(BodyId, io::Result<bool>),
}

/// A body is written before the record that names it: a failed sync is no better here than in the log, and poisons. The
/// exception is a want of room: what was half written under a passing name is thrown away, and no new work is taken until
/// there is some again.
fn write(shared: &Shared, all: Vec<Handed>) {
    let bodies = &shared.bodies;
    let stored = shared.time.tell();
    let mut steps = Vec::with_capacity(all.len());
    // All of them are on their way to the disk before the first one is waited for.
    for Handed { body, what, reply } in all {
        let step = match what {
            What::Put { owner, bytes } => {
                let written = bodies.write(&owner, body, &bytes, stored).inspect_err(|_| bodies.discard(body));
                Step::Put(bytes.len() as u64, written)
            }
            What::Remove => Step::Removed(body, bodies.remove(body)),
        };
        steps.push((step, reply));
    }
    let mut changed = false;
    for (step, _) in &mut steps {
        match step {
            Step::Put(_, done @ Ok(_)) => {
                let finished = done.as_ref().map_or(Ok(()), |passing| {
                    bodies.finish(passing).inspect_err(|_| bodies.discard(passing.info.body))
                });
                match finished {
                    Ok(()) => changed = true,
                    Err(error) => *done = Err(error),
                }
            }
            Step::Removed(_, Ok(was_there)) => changed |= *was_there,
            Step::Put(_, Err(_)) | Step::Removed(_, Err(_)) => {}
        }
    }
    let synced = if changed { bodies.sync() } else { Ok(()) };
    if let Err(error) = &synced {
        shared.poison(format!("the directory of bodies cannot be synced: {error}"));
    }
    for (step, reply) in steps {
        let failed = match (&step, &synced) {
            (Step::Put(length, Err(error)), _) => {
                let failed = bodies.failed(error);
                if let StoreError::Unavailable { reason, .. } = &failed {
                    shared.poison(reason);
                } else {
                    bodies.lacks(*length);
                }
                Some(failed)
            }
            (Step::Removed(_, Err(error)), _) => Some(bodies.failed(error)),
            (Step::Removed(_, Ok(false)), _) => None,
            (Step::Put(_, Ok(_)) | Step::Removed(_, Ok(true)), Err(error)) => {
                Some(shared.unavailable(format!("its bodies cannot be synced: {error}")))
            }
            (Step::Put(length, Ok(passing)), Ok(())) => {
                bodies.had_room(*length);
                bodies.learn(passing.info);
                None
            }
            (Step::Removed(body, Ok(true)), Ok(())) => {
                bodies.forget(*body);
                None
            }
        };
        let _ = reply.send(failed.map_or(Ok(()), Err));
    }
}
