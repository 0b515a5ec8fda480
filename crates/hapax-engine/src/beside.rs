//! What other crates build on: records of their own kinds, through the same loop, clock and patience as operations.

use hapax_core::{Body, Id, Moment, Nonce, Outcome, Record, Tag, Version, as_read};
use hapax_store::{Cursor, Index, Page, Swap, Usage};

use crate::{
    carry::Tries,
    engine::Engine,
    error::EngineError,
    kinds::{Looked, Other},
};

impl Engine {
    /// Reads a record of another kind.
    pub async fn look_at<R: Other>(&self, id: &Id) -> Result<Looked<R>, EngineError> {
        Ok(self.inner.look_at(id).await?)
    }

    /// Lets `decide` judge the record until what it wants is written, or it wants nothing. It has to recognise what it
    /// wrote itself: after a lost answer it is asked again.
    pub async fn decide<R: Other, T>(
        &self,
        id: &Id,
        decide: impl FnMut(Option<&R>, Moment) -> (Option<R>, T) + Send,
    ) -> Result<T, EngineError> {
        Ok(self.inner.decide(id, decide).await?)
    }

    /// As [`Engine::decide`] for a record that is most likely not there: it is not read before it is written.
    pub async fn decide_new<R: Other, T>(
        &self,
        id: &Id,
        decide: impl FnMut(Option<&R>, Moment) -> (Option<R>, T) + Send,
    ) -> Result<T, EngineError> {
        let nothing = Looked { record: None, version: Version::NEVER, now: self.inner.store_now() };
        Ok(self.inner.decide_from(id, nothing, decide).await?)
    }

    /// As [`Engine::decide`], starting from what was read before.
    pub async fn decide_from<R: Other, T>(
        &self,
        id: &Id,
        looked: Looked<R>,
        decide: impl FnMut(Option<&R>, Moment) -> (Option<R>, T) + Send,
    ) -> Result<T, EngineError> {
        Ok(self.inner.decide_from(id, looked, decide).await?)
    }

    /// Removes a record of another kind, if it still has this version.
    pub async fn remove(&self, id: &Id, version: Version) -> Result<bool, EngineError> {
        let swapped = self.inner.in_time("swap", self.inner.store.swap(id, version, None)).await?;
        Ok(matches!(swapped, Swap::Swapped { .. }))
    }

    /// An operation as it reads now, with the version that a resolution has to name.
    pub async fn operation(&self, id: &Id) -> Result<Looked<Record>, EngineError> {
        let seen = self.inner.read(id).await?;
        let now = self.inner.now(&seen);
        let record = seen.record.as_deref().and_then(|record| as_read(record, now)).map(std::borrow::Cow::into_owned);
        Ok(Looked { record, version: seen.version, now })
    }

    /// The outcome with the body that lies beside its record, if it is still there.
    pub async fn with_body(&self, mut outcome: Outcome) -> Result<Outcome, EngineError> {
        if let Some(body) = outcome.stored_body()
            && let Some(bytes) = self.inner.get_body(body).await?
        {
            outcome.body = Body::Inline(bytes.into());
        }
        Ok(outcome)
    }

    /// One page of a list.
    pub async fn scan(&self, index: Index, after: Option<&Cursor>, limit: usize) -> Result<Page<Id>, EngineError> {
        let mut tries = Tries::new(&self.inner);
        loop {
            match self.inner.in_time("scan", self.inner.store.scan(index, after, limit)).await {
                Ok(page) => return Ok(page),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    pub async fn usage(&self, tag: Tag) -> Result<Usage, EngineError> {
        Ok(self.inner.usage(tag).await?)
    }

    /// 128 fresh random bits.
    pub fn nonce(&self) -> Result<Nonce, EngineError> {
        Ok(self.inner.entropy.nonce()?)
    }

    /// The time as well as it can be told without a round trip.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment { now: self.inner.store_now(), wall: self.inner.wall_now() }
    }
}
