//! Threads that read, so that nobody's executor waits for a disk.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Aside {
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Aside {
    /// Without a thread: work is done where it is asked for.
    pub(crate) const fn inline() -> Self {
        Self { jobs: Mutex::new(None), threads: Vec::new() }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "each caller waits for its own job, so there are never more than callers"
    )]
    pub(crate) fn start(name: &str, threads: usize) -> io::Result<Self> {
        let (jobs, work) = channel::<Job>();
        let work = Arc::new(Mutex::new(work));
        let mut aside = Self { jobs: Mutex::new(Some(jobs)), threads: Vec::new() };
        for _ in 0..threads {
            let work = work.clone();
            aside.threads.push(thread::Builder::new().name(name.into()).spawn(move || run(&work))?);
        }
        Ok(aside)
    }

    /// `None`: there was nobody to do it.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.threads.is_empty() {
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

fn run(work: &Mutex<Receiver<Job>>) {
    loop {
        // The lock goes before the work begins, so that the next one can wait for the next job.
        let job = work.lock().recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        *self.jobs.lock() = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
