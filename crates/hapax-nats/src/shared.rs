//! What all calls of a store, and the tasks beside them, use together.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use data_encoding::BASE64;
use hapax_core::{Id, Millis, Stamp, Version};
use hapax_store::{StoreError, Waiters};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::{
    api::{Held, LookedUp, Lookup, Nothing, Purge, Refusal, Stored, StreamInfo},
    clock::Clock,
    error::{Call, Failed},
    follow::Following,
    index::Index,
    link::{self, Link},
    names::Names,
    stamps::Stamps,
};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) link: Link,
    pub(crate) names: Names,
    pub(crate) clock: Clock,
    pub(crate) stamps: Mutex<Stamps>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) index: RwLock<Index>,
    pub(crate) following: Mutex<Following>,
    /// How far the index has come.
    pub(crate) seen: watch::Sender<u64>,
    pub(crate) removal_memory: Millis,
    /// A bucket that somebody else made may forbid to delete single messages.
    pub(crate) deny_delete: bool,
}

impl Shared {
    pub(crate) fn failed(&self, call: Call, failed: Failed) -> StoreError {
        failed.into_store(&self.name, call)
    }

    pub(crate) fn corrupt(&self, place: String, reason: impl Into<String>) -> StoreError {
        StoreError::Corrupt { store: self.name.clone(), place, reason: reason.into() }
    }

    pub(crate) fn unsupported(&self, reason: String) -> StoreError {
        StoreError::Unsupported { store: self.name.clone(), reason }
    }

    pub(crate) fn foreign_cursor(&self) -> StoreError {
        self.unsupported("this cursor is not one of its own".into())
    }

    /// Stores one message; the sequence it was given.
    pub(crate) async fn publish(&self, subject: String, headers: HeaderMap, payload: Bytes) -> Result<u64, Failed> {
        let answer = self.link.request(subject, Some(headers), payload).await?;
        link::read::<Stored>(&answer).map(|stored| stored.seq)
    }

    pub(crate) async fn look_up(&self, stream: &str, lookup: &Lookup<'_>) -> Result<Option<Held>, Failed> {
        match self.link.ask::<LookedUp>(&format!("STREAM.MSG.GET.{stream}"), lookup).await {
            Ok(found) => Ok(Some(found.message)),
            Err(Failed::Refused(refusal)) if refusal.err_code == Refusal::NO_MESSAGE => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    pub(crate) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Held>, Failed> {
        let lookup = Lookup { seq: None, last_by_subj: Some(subject), next_by_subj: None };
        self.look_up(stream, &lookup).await
    }

    pub(crate) async fn last_sequence(&self) -> Result<u64, Failed> {
        let what = format!("STREAM.INFO.{}", self.names.records);
        self.link.ask::<StreamInfo>(&what, &Nothing {}).await.map(|info| info.state.last_seq)
    }

    pub(crate) async fn purge(&self, stream: &str, filter: &str, before: Option<u64>) -> Result<(), Failed> {
        let what = format!("STREAM.PURGE.{stream}");
        self.link.ask::<crate::api::Done>(&what, &Purge { filter, seq: before }).await.map(drop)
    }

    /// The store's time, as far as it can be known here.
    pub(crate) async fn now(self: &Arc<Self>, call: Call) -> Result<Stamp, StoreError> {
        if let Some((now, fresh)) = self.clock.read(self.link.number()) {
            if !fresh && let Some(asking) = self.clock.refreshing() {
                let shared = Arc::clone(self);
                tokio::spawn(async move {
                    let _old_one_stays = shared.calibrate().await;
                    drop(asking);
                });
            }
            return Ok(now);
        }
        self.calibrate().await.map_err(|failed| self.failed(call, failed))?;
        let (Call::Read(name) | Call::Write(name)) = call;
        self.clock.read(self.link.number()).map(|(now, _)| now).ok_or_else(|| StoreError::Unavailable {
            store: self.name.clone(),
            reason: format!("`{name}`: its time cannot be learned; check its load and try again"),
        })
    }

    /// Learns what is known of a version without asking: its stamp.
    pub(crate) fn stamp_of(&self, id: &Id, version: Version) -> Option<Stamp> {
        self.stamps.lock().get(id, version).or_else(|| self.index.read().stamp_of(id, version))
    }
}

impl Held {
    /// The value of one header.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let text = String::from_utf8(BASE64.decode(self.hdrs.as_bytes()).ok()?).ok()?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    pub(crate) fn payload(&self) -> Option<Bytes> {
        BASE64.decode(self.data.as_bytes()).ok().map(Bytes::from)
    }
}
