//! Waiting for an answer, as a caller that may go away or die with its process.

use std::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};

use super::process::Process;

#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Endless,
    /// Gone after so many polls.
    Polls(u64),
    /// Gone after so many milliseconds.
    Millis(u64),
}

#[derive(Debug)]
pub(super) enum Ended<T> {
    Answered(T),
    Cancelled,
    Crashed,
}

/// What was seen while the work was polled.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// It waited for another's attempt.
    pub(super) joined: bool,
    /// It drew these.
    pub(super) nonces: Vec<[u8; 16]>,
}

pub(super) async fn attend<T>(
    process: &Process,
    patience: Patience,
    work: impl Future<Output = T>,
) -> (Ended<T>, Marks) {
    let mut work = Some(Box::pin(work));
    let (mut left, leaves) = match patience {
        Patience::Endless => (u64::MAX, None),
        Patience::Polls(polls) => (polls, None),
        Patience::Millis(millis) => (u64::MAX, Some(millis)),
    };
    let mut leaving = leaves.map(|millis| Box::pin(tokio::time::sleep(Duration::from_millis(millis))));
    let mut marks = Marks::default();
    poll_fn(move |context| {
        let Some(going) = &mut work else { return Poll::Pending };
        if process.death.has_come() {
            work = None;
            return Poll::Ready((Ended::Crashed, std::mem::take(&mut marks)));
        }
        process.death.mourn(context.waker());
        let (joined, drawn) = (process.engine.stats().joined, process.entropy.nonces().len());
        let polled = going.as_mut().poll(context);
        marks.joined |= process.engine.stats().joined > joined;
        marks.nonces.extend(process.entropy.nonces().drain(drawn..));
        if let Poll::Ready(answer) = polled {
            work = None;
            return Poll::Ready((Ended::Answered(answer), std::mem::take(&mut marks)));
        }
        left -= 1;
        let leaves = leaving.as_mut().is_some_and(|sleep| sleep.as_mut().poll(context).is_ready());
        if left == 0 || leaves {
            work = None;
            return Poll::Ready((Ended::Cancelled, std::mem::take(&mut marks)));
        }
        Poll::Pending
    })
    .await
}
