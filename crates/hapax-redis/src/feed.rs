//! The change feed: each bucket in the order of its versions, which are given out one after the other.
//!
//! A cursor holds for each bucket how far it was read, and the highest version when reading began: what was removed and
//! forgotten before that had never been shown.

use bytes::Bytes;
use hapax_core::{Id, Stamp, Version};
use hapax_store::{Change, Changes, Cursor, Snapshot, StoreError};
use redis::Value;

use crate::{batch::Batch, error::Call, keys::BUCKETS, store::RedisStore, value};

const CALL: Call = Call::Read("changes");
/// So many buckets are looked at in one round trip.
const AT_ONCE: usize = 64;

#[derive(Clone)]
struct Reading {
    /// Where the next page begins, so that a busy bucket does not hide the others.
    turn: usize,
    through: Vec<u64>,
    began: Vec<u64>,
}

impl Reading {
    fn cursor(&self) -> Cursor {
        let mut bytes = Vec::with_capacity(2 + BUCKETS * 16);
        bytes.extend_from_slice(&(self.turn as u16).to_be_bytes());
        for number in self.through.iter().chain(&self.began) {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        Cursor(Bytes::from(bytes))
    }

    fn parse(cursor: &Cursor) -> Option<Self> {
        let (turn, rest) = cursor.0.split_first_chunk::<2>()?;
        let (numbers, []) = rest.as_chunks::<8>() else { return None };
        let mut through: Vec<u64> = numbers.iter().map(|number| u64::from_be_bytes(*number)).collect();
        if through.len() != 2 * BUCKETS {
            return None;
        }
        let began = through.split_off(BUCKETS);
        Some(Self { turn: usize::from(u16::from_be_bytes(*turn)) % BUCKETS, through, began })
    }
}

impl RedisStore {
    pub(crate) async fn feed(&self, after: Option<&Cursor>, limit: usize) -> Result<Changes, StoreError> {
        let limit = limit.max(1);
        // Before the start is noted: what is there by then counts as older.
        self.settle(CALL).await?;
        let mut reading = match after {
            None => self.read_from_the_start().await?,
            Some(cursor) => Reading::parse(cursor).ok_or_else(|| self.foreign_cursor())?,
        };
        let mut found: Vec<(Id, Version)> = Vec::new();
        let mut looked = 0;
        while looked < BUCKETS && found.len() < limit {
            let buckets: Vec<usize> = (0..AT_ONCE).map(|step| (reading.turn + step) % BUCKETS).collect();
            let mut batch = Batch::default();
            for bucket in &buckets {
                let from = reading.through.get(*bucket).copied().unwrap_or(0);
                let command = batch.add(*bucket, "ZRANGEBYSCORE");
                command.arg(self.keys.in_bucket(*bucket, b"f")).arg(format!("({from}")).arg("+inf");
                command.arg("WITHSCORES").arg("LIMIT").arg(0).arg(limit);
                // Asked for after the entries: what was forgotten before they were read is known by now.
                batch.add(*bucket, "GET").arg(self.keys.in_bucket(*bucket, b"z"));
            }
            let answers: Vec<Value> = self.servers.ask_all(CALL, &batch).await?;
            let mut answers = answers.into_iter();
            for bucket in buckets {
                let (Some(entries), Some(forgotten)) = (answers.next(), answers.next()) else { break };
                if found.len() == limit {
                    break;
                }
                let (Some(through), Some(began)) = (reading.through.get_mut(bucket), reading.began.get(bucket)) else {
                    break;
                };
                let forgotten: Option<u64> = self.read_value(forgotten)?;
                if forgotten.is_some_and(|forgotten| forgotten > *through.max(&mut began.clone())) {
                    return Ok(Changes::Gap { oldest: self.read_from_the_start().await?.cursor() });
                }
                let entries: Vec<Vec<u8>> = self.read_value(entries)?;
                for (member, score) in entries.iter().zip(entries.iter().skip(1)).step_by(2) {
                    if found.len() == limit {
                        break;
                    }
                    *through = self.number(score, "a version in the feed")?;
                    found.extend(member.last_chunk().map(|id| (Id(*id), Version(*through))));
                }
                reading.turn = (bucket + 1) % BUCKETS;
                looked += 1;
            }
        }
        let items = self.states(&found).await?;
        Ok(Changes::Page { items, next: reading.cursor() })
    }

    async fn read_from_the_start(&self) -> Result<Reading, StoreError> {
        let mut batch = Batch::default();
        for bucket in 0..BUCKETS {
            batch.add(bucket, "GET").arg(self.keys.in_bucket(bucket, b"h"));
        }
        let heads: Vec<Option<Vec<u8>>> = self.servers.ask_all(CALL, &batch).await?;
        let began =
            heads.iter().map(|head| self.highest(head.as_deref().unwrap_or_default())).collect::<Result<_, _>>()?;
        Ok(Reading { turn: 0, through: vec![0; BUCKETS], began })
    }

    /// Each as it is now, which may be later than what the feed has named.
    async fn states(&self, found: &[(Id, Version)]) -> Result<Vec<Change>, StoreError> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let mut batch = Batch::default();
        for (id, _) in found {
            batch.add(usize::from(id.0[0]), "GET").arg(self.keys.record(id));
            // Each server has a clock of its own.
            batch.add(usize::from(id.0[0]), "TIME");
        }
        let answers: Vec<Value> = self.servers.ask_all(CALL, &batch).await?;
        let mut answers = answers.into_iter();
        let mut changes = Vec::with_capacity(found.len());
        for (id, version) in found {
            let (Some(answer), Some(time)) = (answers.next(), answers.next()) else { break };
            let (secs, micros): (u64, u64) = self.read_value(time)?;
            let now = Stamp(secs * 1_000 + micros / 1_000);
            let snapshot = match self.read_value::<Option<Vec<u8>>>(answer)? {
                Some(held) => value::snapshot(Some(held), now).map_err(|reason| self.corrupt(id, reason))?,
                // A removal of which only the feed still knows. Its version is the time it was made, unless many were.
                None => Snapshot { record: None, version: *version, stamp: Stamp((version.0 / 1_000).min(now.0)), now },
            };
            changes.push(Change { id: *id, snapshot });
        }
        Ok(changes)
    }
}
