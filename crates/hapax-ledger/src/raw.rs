//! The log without the rules: same files, same frames, same group commit, no index and no checks. What the ledger is
//! measured against.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{Counted, Envelope, Kind};
use tokio::sync::oneshot;

use crate::{
    append::{Appender, Start},
    disk::Held,
    entry,
    error::OpenError,
    lock,
    log::Log,
    options::Options,
    queue::Queue,
    recover,
};

type Reply = oneshot::Sender<Result<Version, String>>;

#[doc(hidden)]
#[derive(Debug)]
pub struct RawLog {
    queue: Arc<Queue<(Id, Bytes, Reply)>>,
    closed: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Held>,
}

impl RawLog {
    pub fn open(options: &Options) -> Result<Self, OpenError> {
        let dir = options.path.as_path();
        options.disk.create_dir(dir).map_err(OpenError::io(dir, "create it"))?;
        let held = lock::take(&*options.disk, dir, options.lock_wait)?;
        let opened = recover::open(options)?;
        let log = opened.log;
        for _ in 0..options.spares {
            log.make_spare(options.segment_bytes).map_err(OpenError::io(dir, "write a spare segment"))?;
        }
        let queue = Arc::new(Queue::new(options.most_queued));
        let closed = Arc::new(AtomicBool::new(false));
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            thread::Builder::new().name(name.into()).spawn(run).map_err(OpenError::io(dir, "start a thread"))
        };
        let (keeping, done) = (log.clone(), closed.clone());
        let keeper = spawn("raw-keeper", Box::new(move || keep(&keeping, &done)))?;
        let wake = keeper.thread().clone();
        let (work, appender) = (queue.clone(), Appender::new(log, opened.tail));
        let writer = spawn("raw-writer", Box::new(move || write(&work, appender, || wake.unpark())))?;
        Ok(Self { queue, closed, threads: vec![writer, keeper], _lock: held })
    }

    /// Durable before it answers.
    pub async fn append(&self, id: Id, payload: Bytes) -> Result<Version, String> {
        let (reply, answer) = oneshot::channel();
        if self.queue.push((id, payload, reply)).await.is_err() {
            return Err("closed".into());
        }
        answer.await.unwrap_or_else(|_| Err("closed".into()))
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        self.queue.close();
        self.closed.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn keep(log: &Log, closed: &AtomicBool) {
    while !closed.load(Ordering::Acquire) {
        if !log.has_ready() {
            let _ = log.make_ready();
        }
        thread::park_timeout(Duration::from_millis(100));
    }
}

fn write(queue: &Queue<(Id, Bytes, Reply)>, mut appender: Appender, rolled: impl Fn()) {
    let mut incoming = Vec::new();
    let mut replies: Vec<(Reply, Version)> = Vec::new();
    let mut segment = appender.active().number;
    while queue.take(&mut incoming, Some(Duration::from_secs(1))) {
        let mut batch = incoming.drain(..).peekable();
        while batch.peek().is_some() {
            let mut started = false;
            while let Some((id, payload, reply)) =
                batch.next_if(|(_, payload, _)| !started || appender.fits(size(payload)))
            {
                if !started {
                    if !matches!(appender.start(size(&payload)), Ok(Start::Ready)) {
                        return;
                    }
                    started = true;
                }
                let version = Version(appender.version());
                let envelope = envelope(payload);
                appender.add(true, |buffer| entry::put_record(buffer, &id, version, Stamp(0), &envelope));
                replies.push((reply, version));
            }
            let done = appender.commit(0);
            for (reply, version) in replies.drain(..) {
                let _ = reply.send(done.as_ref().map(|()| version).map_err(|failed| format!("{failed:?}")));
            }
            if done.is_err() {
                return;
            }
            if appender.active().number != segment {
                segment = appender.active().number;
                rolled();
            }
        }
    }
}

fn size(payload: &Bytes) -> usize {
    entry::size_of(&envelope(payload.clone()))
}

fn envelope(payload: Bytes) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: Tag([0; 16]),
        tenant: Tag([0; 16]),
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload,
    }
}
