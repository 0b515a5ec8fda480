//! Somebody asks that the process reads its file again. The process does that itself; here question and answer are carried.

use tokio::sync::{mpsc, oneshot};

/// One such question. Dropped without an answer, it was not done.
#[derive(Debug)]
pub struct Reload {
    /// Who asks, for the audit log.
    pub actor: String,
    told: oneshot::Sender<Done>,
}

/// What has changed beside it and waits for a restart, by name; or why all stays as it was.
pub type Done = Result<Vec<String>, String>;

impl Reload {
    /// All of it is in force, or nothing of it.
    pub fn answer(self, done: Done) {
        let _gone = self.told.send(done);
    }
}

/// Where the questions of a server arrive.
pub type Reloads = mpsc::Receiver<Reload>;

/// Where a server asks.
#[derive(Clone, Debug)]
pub struct Reloader(mpsc::Sender<Reload>);

/// The two ends of one such way.
#[must_use]
pub fn reloads() -> (Reloader, Reloads) {
    let (ask, reloads) = mpsc::channel(1);
    (Reloader(ask), reloads)
}

impl Reloader {
    pub(crate) async fn ask(&self, actor: String) -> Done {
        let (told, answer) = oneshot::channel();
        let over = || "the process is about to end, and reads nothing any more".to_owned();
        self.0.send(Reload { actor, told }).await.map_err(|_| over())?;
        answer.await.map_err(|_| over())?
    }
}
