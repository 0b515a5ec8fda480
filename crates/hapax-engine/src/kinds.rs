//! Read, decide, swap for records of other kinds than operations: groups, beats, plans, memos, tasks.
//!
//! Each kind has one pure function in the core; this carries it out. A command is recognised when it is said again, so
//! a write of unknown fate needs no path of its own.

use hapax_core::{
    Id, Moment, Stamp, Version,
    beat::Beats,
    claim::Claim,
    group::{Group, GroupPhase},
    mark::Mark,
    memo::Memo,
    plan::Plan,
    task::{KeySlot, Task},
};
use hapax_store::{
    Envelope, Kind, Snapshot, StoreError, Swap,
    codec::{self, CodecError},
};

use crate::{carry::Tries, engine::Inner};

/// A record of another kind.
pub trait Other: Clone + Send + Sync {
    fn open(envelope: &Envelope) -> Result<Self, CodecError>;
    fn seal(&self) -> Envelope;
    fn settle(&mut self, stamp: Stamp);
}

macro_rules! other {
    ($kind:ty, $open:path, $seal:path) => {
        impl Other for $kind {
            fn open(envelope: &Envelope) -> Result<Self, CodecError> {
                $open(envelope)
            }

            fn seal(&self) -> Envelope {
                $seal(self)
            }

            fn settle(&mut self, stamp: Stamp) {
                <$kind>::settle(self, stamp);
            }
        }
    };
}

other!(Group, codec::open_group, codec::seal_group);
other!(Beats, codec::open_beats, codec::seal_beats);
other!(Plan, codec::open_plan, codec::seal_plan);
other!(Memo, codec::open_memo, codec::seal_memo);
other!(Task, codec::open_task, codec::seal_task);

impl Other for KeySlot {
    fn open(envelope: &Envelope) -> Result<Self, CodecError> {
        codec::open_key_slot(envelope)
    }

    fn seal(&self) -> Envelope {
        codec::seal_key_slot(self)
    }

    /// It has no windows.
    fn settle(&mut self, _: Stamp) {}
}

other!(Claim, codec::open_claim, codec::seal_claim);

impl Other for Mark {
    fn open(envelope: &Envelope) -> Result<Self, CodecError> {
        codec::open_mark(envelope)
    }

    fn seal(&self) -> Envelope {
        codec::seal_mark(self)
    }

    /// It stands for ever.
    fn settle(&mut self, _: Stamp) {}
}

/// A record of another kind as the store had it.
#[derive(Clone, Debug)]
pub struct Looked<R> {
    pub record: Option<R>,
    pub version: Version,
    pub now: Stamp,
}

impl Inner {
    pub(crate) async fn look_at<R: Other>(&self, id: &Id) -> Result<Looked<R>, StoreError> {
        let mut tries = Tries::new(self);
        loop {
            match self.in_time("get", self.store.get(id)).await {
                Ok(snapshot) => return self.looked(&snapshot, id),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// Lets `decide` judge the record until what it wants is written, or it wants nothing.
    pub(crate) async fn decide<R: Other, T>(
        &self,
        id: &Id,
        decide: impl FnMut(Option<&R>, Moment) -> (Option<R>, T),
    ) -> Result<T, StoreError> {
        let looked: Looked<R> = self.look_at(id).await?;
        self.decide_from(id, looked, decide).await
    }

    /// As [`Inner::decide`], starting from what is believed of the record. Where that is out of date, the swap finds out.
    pub(crate) async fn decide_from<R: Other, T>(
        &self,
        id: &Id,
        mut looked: Looked<R>,
        mut decide: impl FnMut(Option<&R>, Moment) -> (Option<R>, T),
    ) -> Result<T, StoreError> {
        let mut tries = Tries::new(self);
        loop {
            let moment = Moment { now: looked.now, wall: self.wall_now() };
            let (write, reply) = decide(looked.record.as_ref(), moment);
            let Some(next) = write else { return Ok(reply) };
            let next = next.seal();
            let weighed = self.quotas.weigh(Some(&next));
            let swapped = self.in_time("swap", self.store.swap(id, looked.version, Some(next))).await;
            if !matches!(swapped, Ok(Swap::Conflict(_))) {
                self.quotas.wrote(weighed);
            }
            match swapped {
                Ok(Swap::Swapped { .. }) => return Ok(reply),
                Ok(Swap::Conflict(snapshot)) => looked = self.looked(&snapshot, id)?,
                Err(error) => {
                    tries.again(error).await?;
                    looked = self.look_at(id).await?;
                }
            }
        }
    }

    fn looked<R: Other>(&self, snapshot: &Snapshot, id: &Id) -> Result<Looked<R>, StoreError> {
        let opened = snapshot.record.as_ref().map(R::open).transpose();
        let mut record = opened.map_err(|error| self.corrupt(id, error.to_string()))?;
        if let Some(record) = &mut record {
            record.settle(snapshot.stamp);
        }
        Ok(Looked { record, version: snapshot.version, now: snapshot.now })
    }

    /// What the sweeper does to a record that is no operation: removes it when its time is over, and goes on with the
    /// closing of a group that was cut short. How many were written.
    pub(crate) async fn sweep_other_kind(&self, id: &Id) -> Result<usize, StoreError> {
        let snapshot = self.in_time("get", self.store.get(id)).await?;
        let Some(envelope) = snapshot.record else { return Ok(0) };
        if envelope.kind == Kind::OPERATION {
            return Ok(0);
        }
        let over = |due: Option<hapax_store::Due>| due.is_some_and(|due| due.resolve(snapshot.stamp) <= snapshot.now);
        // The beats of a session are due after their time, and go unless one of them is still being answered.
        let gone = if envelope.kind == Kind::BEAT {
            over(envelope.expiry) && !self.is_session_alive(id).await?
        } else {
            over(envelope.gone)
        };
        if gone {
            let swapped = self.in_time("swap", self.store.swap(id, snapshot.version, None)).await?;
            return Ok(usize::from(matches!(swapped, Swap::Swapped { .. })));
        }
        if envelope.kind == Kind::GROUP {
            // A damaged one is everybody's trouble who asks for it, not the sweeper's.
            let closing = codec::open_group(&envelope).is_ok_and(|group| group.phase == GroupPhase::Closing);
            if closing {
                self.finish_closing(id).await?;
                return Ok(1);
            }
        }
        Ok(0)
    }
}
