//! Walks over one index, which lies in 256 parts: a little of each part is read, and what is surely earliest handed out.

use hapax_core::{Id, Tag};
use hapax_store::{Counted, Cursor, Index, Page, StoreError, Usage};

use crate::{
    batch::Batch,
    error::Call,
    keys::BUCKETS,
    place::Place,
    store::RedisStore,
    value::{LARGEST, count, tagged, weight},
};

const CALL: Call = Call::Read("scan");

/// One part of an index, as far as it was read.
struct Part {
    bucket: usize,
    found: Vec<Place>,
    /// Members of the same score that were met again and left out.
    skipped: usize,
    /// More may follow.
    open: bool,
}

impl RedisStore {
    pub(crate) async fn page(
        &self,
        index: Index,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Id>, StoreError> {
        let limit = limit.max(1);
        self.settle(CALL).await?;
        let after = match after {
            None => None,
            Some(cursor) => Some(Place::parse(cursor).ok_or_else(|| self.foreign_cursor())?),
        };
        let (set, until) = match index {
            Index::LeaseEnd { until } => (b"l".to_vec(), until.0.min(LARGEST)),
            Index::Expiry { until } => (b"e".to_vec(), until.0.min(LARGEST)),
            Index::InDoubt => (b"d".to_vec(), LARGEST),
            Index::TenantAge(tag) => (tagged(b't', tag), LARGEST),
            Index::Group(tag) => (tagged(b'g', tag), LARGEST),
            Index::Queue(tag) => (tagged(b'q', tag), LARGEST),
        };
        let ordered_by_member = matches!(index, Index::Group(_) | Index::Queue(_));
        let each = (limit / 64).clamp(4, 64).min(limit);
        let mut parts: Vec<Part> =
            (0..BUCKETS).map(|bucket| Part { bucket, found: Vec::new(), skipped: 0, open: true }).collect();
        // Again only where everything that was met had been handed out before.
        loop {
            let dry: Vec<usize> = parts
                .iter()
                .enumerate()
                .filter(|(_, part)| part.open && part.found.is_empty())
                .map(|one| one.0)
                .collect();
            if dry.is_empty() {
                break;
            }
            let mut batch = Batch::default();
            for part in dry.iter().filter_map(|at| parts.get(*at)) {
                let key = self.keys.in_bucket(part.bucket, &set);
                if ordered_by_member {
                    let from = after.as_ref().map_or_else(|| b"-".to_vec(), |place| bound(b'(', &place.member));
                    let command = batch.add(part.bucket, "ZRANGEBYLEX");
                    command.arg(key).arg(from).arg("+").arg("LIMIT").arg(0).arg(each);
                } else {
                    let from = after.as_ref().map_or(0, |place| place.score);
                    let command = batch.add(part.bucket, "ZRANGEBYSCORE");
                    command.arg(key).arg(from).arg(until);
                    command.arg("WITHSCORES").arg("LIMIT").arg(part.skipped).arg(each);
                }
            }
            let answers: Vec<Vec<Vec<u8>>> = self.servers.ask_all(CALL, &batch).await?;
            for (at, answer) in dry.into_iter().zip(answers) {
                let Some(part) = parts.get_mut(at) else { continue };
                let met = self.places(answer, ordered_by_member)?;
                part.open = met.len() == each;
                let fresh: Vec<Place> =
                    met.iter().filter(|place| after.as_ref().is_none_or(|after| *place > after)).cloned().collect();
                part.skipped += met.len();
                part.found = fresh;
            }
        }
        // Behind the last of a part that goes on, something earlier may still come.
        let sure = parts.iter().filter(|part| part.open).filter_map(|part| part.found.last()).min().cloned();
        let mut all: Vec<Place> = parts.into_iter().flat_map(|part| part.found).collect();
        all.sort_unstable();
        let before = all.len();
        all.retain(|place| sure.as_ref().is_none_or(|sure| place <= sure));
        all.truncate(limit);
        let more = sure.is_some() || all.len() < before;
        let next = all.last().filter(|_| more).map(Place::cursor);
        let items = all.iter().filter_map(|place| id_of(&place.member)).collect();
        Ok(Page { items, next })
    }

    fn places(&self, answer: Vec<Vec<u8>>, ordered_by_member: bool) -> Result<Vec<Place>, StoreError> {
        if ordered_by_member {
            return Ok(answer.into_iter().map(|member| Place { score: 0, member }).collect());
        }
        let mut places = Vec::with_capacity(answer.len() / 2);
        let mut answer = answer.into_iter();
        while let (Some(member), Some(score)) = (answer.next(), answer.next()) {
            let score = self.number(&score, "a score")?;
            places.push(Place { score, member });
        }
        Ok(places)
    }

    pub(crate) async fn count_all(&self, tag: Tag) -> Result<Usage, StoreError> {
        self.settle(Call::Read("usage")).await?;
        let mut batch = Batch::default();
        for bucket in 0..BUCKETS {
            let command = batch.add(bucket, "HMGET");
            command.arg(self.keys.in_bucket(bucket, b"u"));
            command.arg(count(tag, Counted::Record)).arg(count(tag, Counted::Tombstone)).arg(weight(tag));
        }
        let answers: Vec<(Option<u64>, Option<u64>, Option<u64>)> =
            self.servers.ask_all(Call::Read("usage"), &batch).await?;
        let mut usage = Usage { exact: true, ..Usage::default() };
        for (records, tombstones, bytes) in answers {
            usage.records += records.unwrap_or(0);
            usage.tombstones += tombstones.unwrap_or(0);
            usage.bytes = usage.bytes.saturating_add(bytes.unwrap_or(0));
        }
        Ok(usage)
    }
}

fn bound(open: u8, member: &[u8]) -> Vec<u8> {
    let mut bound = vec![open];
    bound.extend_from_slice(member);
    bound
}

/// The id is the end of the member.
fn id_of(member: &[u8]) -> Option<Id> {
    member.last_chunk().copied().map(Id)
}
