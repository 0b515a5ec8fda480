//! A thread for slow work that is not the writer's, so that nobody's executor waits for a disk.

use std::{
    io,
    sync::mpsc::{Sender, channel},
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Aside {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Aside {
    /// Without a thread: work is done where it is asked for.
    pub(crate) const fn inline() -> Self {
        Self { jobs: Mutex::new(None), thread: None }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "each caller waits for its own job, so there are never more than callers"
    )]
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, work) = channel::<Job>();
        let thread = thread::Builder::new().name("hapax-bodies".into()).spawn(move || {
            for job in work {
                job();
            }
        })?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Some(thread) })
    }

    /// `None`: there was nobody to do it.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.thread.is_none() {
            return Some(work());
        }
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            let _ = reply.send(work());
        });
        let sent = self.jobs.lock().as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { answer.await.ok() } else { None }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        *self.jobs.lock() = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
