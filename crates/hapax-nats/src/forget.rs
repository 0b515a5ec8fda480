//! Marks of removals are forgotten once no write can be late any more: in the order of their sequences, by the one process
//! that has said so first. What it left behind when it ended early is deleted by the next that reads the bucket.

use hapax_core::{Id, Stamp};

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::{
    api::{Delete, Done, Refusal},
    error::Failed,
    shared::Shared,
};

pub(crate) const HEADER: &str = "Hapax-Forgotten";
const AT_ONCE: usize = 500;

impl Shared {
    pub(crate) async fn forget_some(&self) -> Result<(), Failed> {
        let left = std::mem::take(&mut self.index.write().left);
        self.delete_all(left).await?;
        let Some((now, _)) = self.clock.read(self.link.number()) else { return Ok(()) };
        let before = Stamp(now.0.saturating_sub(self.removal_memory.0 + self.clock.error().0));
        let (old, said, said_at) = {
            let index = self.index.read();
            (index.old_removals(before, AT_ONCE), index.forgotten, index.forgotten_at)
        };
        // The last message of the bucket stays, so that an index can see that it has come that far.
        let seen = *self.seen.borrow();
        let old: Vec<(u64, Id)> = old.into_iter().take_while(|(sequence, _)| *sequence < seen).collect();
        let Some((through, _)) = old.last().copied() else { return Ok(()) };
        if through > said {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, through.to_string());
            headers.insert("Nats-Expected-Last-Subject-Sequence", said_at.to_string());
            match self.publish(self.names.forgotten(), headers, Bytes::new()).await {
                Ok(_) => {}
                // Somebody else did, and we shall hear of it.
                Err(Failed::Refused(refusal)) if refusal.err_code == Refusal::WRONG_SEQUENCE => return Ok(()),
                Err(failed) => return Err(failed),
            }
        }
        {
            let mut index = self.index.write();
            for (sequence, id) in &old {
                index.forget(*sequence, id);
            }
        }
        let ours = old.into_iter().filter(|(sequence, _)| *sequence > said).collect();
        self.delete_all(ours).await
    }

    async fn delete_all(&self, mut marks: Vec<(u64, Id)>) -> Result<(), Failed> {
        while let Some((sequence, id)) = marks.last().copied() {
            if let Err(failed) = self.delete(sequence, &id).await {
                self.index.write().left.append(&mut marks);
                return Err(failed);
            }
            marks.pop();
        }
        Ok(())
    }

    /// This very message; a later one of the same record stays.
    async fn delete(&self, sequence: u64, id: &Id) -> Result<(), Failed> {
        let deleted = if self.deny_delete {
            self.purge(&self.names.records, &self.names.record(id), Some(sequence + 1)).await
        } else {
            let what = format!("STREAM.MSG.DELETE.{}", self.names.records);
            self.link.ask::<Done>(&what, &Delete { seq: sequence, no_erase: true }).await.map(drop)
        };
        match deleted {
            // It is gone already.
            Err(Failed::Refused(_)) => Ok(()),
            other => other,
        }
    }
}
