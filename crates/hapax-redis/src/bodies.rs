//! Bodies too large for a record: owner, stamp, bytes under one key, and a list of them in each bucket.

use bytes::Bytes;
use hapax_core::{BodyId, Id, Stamp};
use hapax_store::{BodyInfo, Cursor, Page, StoreError};

use crate::{batch::Batch, error::Call, invocation::Invocation, keys::BUCKETS, script::Script, store::RedisStore};

const HEAD: usize = 40;

impl RedisStore {
    pub(crate) async fn keep_body(&self, owner: &Id, body: BodyId, bytes: &Bytes) -> Result<(), StoreError> {
        let list = self.keys.in_bucket(usize::from(body.0[0]), b"B");
        let key = self.keys.body(body);
        let put = Invocation {
            script: Script::PutBody,
            keys: &[&key, &list],
            guard: None,
            args: &|command| {
                command.arg(&owner.0).arg(bytes.as_ref()).arg(&body.0);
            },
        };
        let stored: u64 = self.servers.run(Call::Write("put_body"), body.0[0], &put).await?;
        debug_assert_eq!(stored, 1);
        Ok(())
    }

    pub(crate) async fn read_body(&self, body: BodyId) -> Result<Option<Bytes>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.body(body));
        let held: Option<Vec<u8>> = self.servers.ask(Call::Read("get_body"), body.0[0], &command).await?;
        Ok(held.filter(|held| held.len() >= HEAD).map(|held| Bytes::from(held).slice(HEAD..)))
    }

    /// First the bytes, then the entry: a list may name what is gone, but nothing is there that no list names.
    pub(crate) async fn forget_body(&self, body: BodyId) -> Result<(), StoreError> {
        let (mut batch, bucket) = (Batch::default(), usize::from(body.0[0]));
        batch.add(bucket, "DEL").arg(self.keys.body(body));
        batch.add(bucket, "ZREM").arg(self.keys.in_bucket(bucket, b"B")).arg(&body.0);
        self.servers.ask_all::<u64>(Call::Write("drop_body"), &batch).await.map(drop)
    }

    /// In the order of their ids: one bucket after the other.
    pub(crate) async fn list_bodies(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<BodyInfo>, StoreError> {
        let limit = limit.max(1);
        let after: Option<BodyId> = match after {
            None => None,
            Some(cursor) => Some(BodyId(cursor.0.as_ref().try_into().map_err(|_| self.foreign_cursor())?)),
        };
        let first = after.map_or(0, |body| usize::from(body.0[0]));
        let mut batch = Batch::default();
        for bucket in first..BUCKETS {
            let from = match after {
                Some(body) if bucket == first => [b"(".as_slice(), &body.0].concat(),
                Some(_) | None => b"-".to_vec(),
            };
            let command = batch.add(bucket, "ZRANGEBYLEX");
            command.arg(self.keys.in_bucket(bucket, b"B")).arg(from).arg("+").arg("LIMIT").arg(0).arg(limit);
        }
        let listed: Vec<Vec<Vec<u8>>> = self.servers.ask_all(Call::Read("bodies"), &batch).await?;
        let mut bodies: Vec<BodyId> =
            listed.into_iter().flatten().filter_map(|member| member.try_into().ok().map(BodyId)).collect();
        let more = bodies.len() >= limit;
        bodies.truncate(limit);
        let next = bodies.last().filter(|_| more).map(|body| Cursor(Bytes::copy_from_slice(&body.0)));
        Ok(Page { items: self.infos(&bodies).await?, next })
    }

    async fn infos(&self, bodies: &[BodyId]) -> Result<Vec<BodyInfo>, StoreError> {
        let mut batch = Batch::default();
        for body in bodies {
            let bucket = usize::from(body.0[0]);
            batch.add(bucket, "GETRANGE").arg(self.keys.body(*body)).arg(0).arg(HEAD - 1);
            batch.add(bucket, "STRLEN").arg(self.keys.body(*body));
        }
        let answers: Vec<redis::Value> = self.servers.ask_all(Call::Read("bodies"), &batch).await?;
        let mut answers = answers.into_iter();
        let mut infos = Vec::with_capacity(bodies.len());
        for body in bodies {
            let (Some(head), Some(length)) = (answers.next(), answers.next()) else { break };
            let (head, length): (Vec<u8>, usize) = (self.read_value(head)?, self.read_value(length)?);
            // Dropped since it was listed.
            let Some((owner, stamp)) = head.split_first_chunk::<32>() else { continue };
            let Some(stamp) = stamp.first_chunk::<8>() else { continue };
            infos.push(BodyInfo {
                body: *body,
                owner: Id(*owner),
                stored: Stamp(u64::from_be_bytes(*stamp)),
                length: length.saturating_sub(HEAD) as u64,
            });
        }
        Ok(infos)
    }
}
