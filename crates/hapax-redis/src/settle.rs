//! A write leaves beside the head of its bucket what the indexes have to learn, and a later one settles many of them at once.
//! Whoever is about to read an index does so first.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use hapax_core::Id;
use hapax_store::{Store, StoreError};
use tokio::{sync::Mutex, task::JoinSet};

use crate::{batch::Batch, error::Call, invocation::Invocation, keys::BUCKETS, script::Script, store::RedisStore};

/// What a head begins with. Older layouts had `=` here, or a number.
const MARK: u8 = b'}';
/// The same layout, from before records had weights.
const WEIGHTLESS: u8 = b'~';

/// Rounds of settling, numbered from one.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    begun: AtomicU64,
    /// The last one that came to its end, and why it failed.
    last: Mutex<(u64, Option<StoreError>)>,
}

impl RedisStore {
    /// All that was written before this call is in the indexes when it answers. Many who ask at once share one round that
    /// began after all of them had asked.
    pub(crate) async fn settle(&self, call: Call) -> Result<(), StoreError> {
        let begun = self.settling.begun.load(SeqCst);
        let mut last = self.settling.last.lock().await;
        if last.0 <= begun {
            let round = self.settling.begun.fetch_add(1, SeqCst) + 1;
            *last = (round, self.settle_all(call).await.err());
        }
        // A failure is shared as well: nobody waits for a server that many have waited for.
        last.1.clone().map_or(Ok(()), Err)
    }

    async fn settle_all(&self, call: Call) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for bucket in 0..BUCKETS {
            batch.add(bucket, "EXISTS").arg(self.keys.in_bucket(bucket, b"p"));
        }
        let pending: Vec<bool> = self.servers.ask_all(call, &batch).await?;
        let unsettled: Vec<u8> = (0..=u8::MAX).zip(pending).filter(|one| one.1).map(|one| one.0).collect();
        self.run_in(call, &unsettled, Script::Settle).await
    }

    /// All at once: they share what is read and written in one go.
    async fn run_in(&self, call: Call, buckets: &[u8], script: Script) -> Result<(), StoreError> {
        let mut under_way = JoinSet::new();
        for bucket in buckets.iter().copied() {
            let anywhere = Id([bucket; 32]);
            let (head, guard) = (self.keys.head(&anywhere), self.keys.guard(&anywhere));
            let (servers, memory) = (Arc::clone(&self.servers), self.removal_memory);
            under_way.spawn(async move {
                let run = Invocation {
                    script,
                    keys: &[&head],
                    guard: Some(&guard),
                    args: &|command| {
                        command.arg(memory.0);
                    },
                };
                servers.run::<u64>(call, bucket, &run).await
            });
        }
        while let Some(ended) = under_way.join_next().await {
            let given_up = || StoreError::Unavailable { store: self.name(), reason: "a call was given up".into() };
            ended.map_err(|_| given_up())??;
        }
        Ok(())
    }

    /// Makes the layout its own, unless an older program has written here, which listed its records in another way.
    pub(crate) async fn takes_up_layout(&self) -> Result<bool, StoreError> {
        let mut batch = Batch::default();
        for bucket in 0..BUCKETS {
            batch.add(bucket, "GETRANGE").arg(self.keys.in_bucket(bucket, b"h")).arg(0).arg(0);
        }
        let marks: Vec<Vec<u8>> = self.servers.ask_all(Call::Read("open"), &batch).await?;
        if marks.iter().any(|mark| !matches!(mark.as_slice(), [] | [MARK | WEIGHTLESS])) {
            return Ok(false);
        }
        let weightless = (0..=u8::MAX).zip(marks).filter(|(_, mark)| mark == &[WEIGHTLESS]);
        let weightless: Vec<u8> = weightless.map(|(bucket, _)| bucket).collect();
        self.run_in(Call::Write("open"), &weightless, Script::Upgrade).await?;
        Ok(true)
    }

    /// The highest version of a bucket that was settled, from its head.
    pub(crate) fn highest(&self, head: &[u8]) -> Result<u64, StoreError> {
        match head.get(..17) {
            None if head.is_empty() => Ok(0),
            Some([MARK, digits @ ..]) => self.number(digits, "the head of a bucket"),
            Some(_) | None => Err(StoreError::Corrupt {
                store: self.name(),
                place: "the head of a bucket".into(),
                reason: "it is in a layout that this program does not know".into(),
            }),
        }
    }
}
