//! Leasing for whoever may take from some senders only. Their tasks may lie anywhere in the queue, so its head is not enough:
//! as many of others as one page holds would hide them for ever.

use std::sync::Arc;

use hapax_core::{Id, Millis, Tag};
use hapax_store::{Cursor, Index};

use crate::{
    Handed, LeaseRequest, Queue, QueueError,
    dispatch::{Candidates, PAGE},
};

/// How many tasks of others one look passes over at most.
const MOST_PASSED: usize = 4_096;
/// How many sets of senders are remembered for one queue.
const MOST_SETS: usize = 64;

/// How far a queue was looked through for one set of senders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passed {
    /// Everything before it was looked at; new tasks come behind it.
    tail: Option<Cursor>,
    /// Going round, for what comes back to an old place.
    round: Option<Cursor>,
}

/// What one walk through a queue is for.
struct Walk<'a> {
    list: &'a Arc<Candidates>,
    tag: Tag,
    senders: &'a [String],
    asked: &'a LeaseRequest,
    length: Millis,
}

impl Queue {
    /// Takes what these senders have sent, as many as are asked for. What is passed over is not looked at again at once:
    /// each call goes on where the last one has ended.
    #[allow(clippy::too_many_arguments, reason = "what one walk needs to know")]
    pub(crate) async fn take_of_senders(
        &self,
        list: &Arc<Candidates>,
        tag: Tag,
        senders: &[String],
        asked: &LeaseRequest,
        length: Millis,
        woken: bool,
        handed: &mut Vec<Handed>,
    ) -> Result<(), QueueError> {
        let walk = Walk { list, tag, senders, asked, length };
        let mut passed = list.passed.lock().get(senders).cloned().unwrap_or_default();
        // Whoever waits has the time to look through all of it once.
        let most = if asked.wait.is_zero() || woken { MOST_PASSED } else { usize::MAX };
        let from_the_head = passed.tail.is_none();
        let mut walked = self.walk(&walk, &mut passed.tail, most, handed).await;
        if walked.is_ok() && !from_the_head && handed.len() < asked.limit {
            walked = self.walk(&walk, &mut passed.round, MOST_PASSED, handed).await;
            if let Ok(true) = walked {
                passed.round = None;
            }
        }
        let mut all = list.passed.lock();
        if all.len() >= MOST_SETS && !all.contains_key(senders) {
            all.clear();
        }
        all.insert(senders.to_vec(), passed);
        walked.map(drop)
    }

    /// Looks on from `after`, which is moved along. Whether it came to the end.
    async fn walk(
        &self,
        walk: &Walk<'_>,
        after: &mut Option<Cursor>,
        most: usize,
        handed: &mut Vec<Handed>,
    ) -> Result<bool, QueueError> {
        let mut looked_at = 0;
        while looked_at < most {
            let page = self.engine.scan(Index::Queue(walk.tag), after.as_ref(), PAGE).await?;
            for id in &page.items {
                if handed.len() == walk.asked.limit {
                    return Ok(false);
                }
                if !self.is_from(id, walk.senders).await? {
                    continue;
                }
                let Some(candidate) = walk.list.claim(*id) else { continue };
                handed.extend(self.hand_out(&candidate, walk.asked, walk.length).await?);
                candidate.settle();
            }
            looked_at += page.items.len();
            match page.next {
                Some(next) => *after = Some(next),
                None => return Ok(true),
            }
            tokio::task::yield_now().await;
        }
        Ok(false)
    }

    async fn is_from(&self, id: &Id, senders: &[String]) -> Result<bool, QueueError> {
        let task = self.look(id).await?.record;
        Ok(task.is_some_and(|task| senders.iter().any(|one| **one == *task.order.sender.key)))
    }
}
