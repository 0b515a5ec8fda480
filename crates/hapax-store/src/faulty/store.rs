use std::{fmt, sync::Arc};

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag, Version};
use parking_lot::Mutex;

use super::{
    fault::{Call, Fault, Injected, Landing},
    held::Held,
    plan::Plan,
    watch::LostWatch,
};
use crate::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError,
    Swap, Usage, Watch,
};

/// A store in front of which things go wrong, according to a [`Plan`].
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    /// Late writes that wait, and whether a call may let them through.
    late: Vec<(Held, Landing)>,
    stale: u32,
    injected: Injected,
}

/// What is in store for a call that did not fail at once.
enum Fate {
    Clear,
    AnswerLost,
    Late(Landing),
    Deaf,
}

impl FaultyStore {
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, plan: Plan) -> Self {
        let state = State { plan, late: Vec::new(), stale: 0, injected: Injected::default() };
        Self { inner, state: Arc::new(Mutex::new(state)) }
    }

    /// The first call from now on that this fits meets it, after what was scripted before.
    pub fn script(&self, fault: Fault) {
        self.state.lock().plan.script(fault);
    }

    /// No new faults from here on. Late writes still wait.
    pub fn calm(&self) {
        let mut state = self.state.lock();
        state.plan.calm();
        state.stale = 0;
    }

    #[must_use]
    pub fn injected(&self) -> Injected {
        self.state.lock().injected
    }

    /// How many late writes wait to be applied.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.lock().late.len()
    }

    /// Applies one waiting late write, any of them: whether it landed, or `None` if none waits.
    ///
    /// # Errors
    /// What the store behind answers; the write is then lost.
    pub async fn release_one(&self) -> Result<Option<bool>, StoreError> {
        let held = self.state.lock().take(|_| true);
        match held {
            None => Ok(None),
            Some(held) => land(&self.inner, &self.state, held).await.map(Some),
        }
    }

    /// Applies every waiting late write, in any order: how many of them landed.
    ///
    /// # Errors
    /// As [`FaultyStore::release_one`].
    pub async fn release_late(&self) -> Result<usize, StoreError> {
        let mut landed = 0;
        while let Some(one) = self.release_one().await? {
            landed += usize::from(one);
        }
        Ok(landed)
    }

    /// What happens to this call. Comes with every call, first.
    async fn meet(&self, call: Call) -> Result<Fate, StoreError> {
        let landing = {
            let mut state = self.state.lock();
            if state.plan.lands_now() { state.take(|landing| landing == Landing::SomeCall) } else { None }
        };
        if let Some(held) = landing {
            // Its fate is nobody's answer.
            let _ = land(&self.inner, &self.state, held).await;
        }
        let fault = self.state.lock().strike(call);
        match fault {
            Some(Fault::Stale(_)) => Err(self.unavailable("the connection was stale")),
            Some(Fault::Before) => Err(self.unavailable("refused before the write")),
            Some(Fault::LostRead) => Err(self.unavailable("the answer was lost")),
            Some(Fault::Slow(time)) => {
                tokio::time::sleep(time.as_std()).await;
                Ok(Fate::Clear)
            }
            Some(Fault::After) => Ok(Fate::AnswerLost),
            Some(Fault::Late(landing)) => Ok(Fate::Late(landing)),
            Some(Fault::LostWatch) => Ok(Fate::Deaf),
            None => Ok(Fate::Clear),
        }
    }

    async fn read<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        self.meet(Call::Read).await?;
        answer.await
    }

    /// Answers only if the write is to go ahead undisturbed.
    async fn disturb(&self, write: impl FnOnce() -> Held) -> Result<(), StoreError> {
        match self.meet(Call::Write).await? {
            Fate::Late(landing) => {
                self.hold(write(), landing);
                Err(self.unknown("no answer in time"))
            }
            Fate::AnswerLost => {
                write().apply(self.inner.as_ref()).await?;
                Err(self.unknown("the answer was lost"))
            }
            Fate::Clear | Fate::Deaf => Ok(()),
        }
    }

    fn hold(&self, held: Held, landing: Landing) {
        match landing {
            Landing::Released | Landing::SomeCall => self.state.lock().late.push((held, landing)),
            Landing::After(time) => {
                let (inner, state) = (Arc::clone(&self.inner), Arc::clone(&self.state));
                tokio::spawn(async move {
                    tokio::time::sleep(time.as_std()).await;
                    let _ = land(&inner, &state, held).await;
                });
            }
        }
    }

    fn unavailable(&self, reason: &str) -> StoreError {
        StoreError::Unavailable { store: self.name(), reason: reason.into() }
    }

    fn unknown(&self, reason: &str) -> StoreError {
        StoreError::Unknown { store: self.name(), reason: reason.into() }
    }
}

async fn land(inner: &Arc<dyn Store>, state: &Mutex<State>, held: Held) -> Result<bool, StoreError> {
    let landed = held.apply(inner.as_ref()).await?;
    let injected = &mut state.lock().injected;
    *(if landed { &mut injected.late_landed } else { &mut injected.late_conflicted }) += 1;
    Ok(landed)
}

impl State {
    fn take(&mut self, may: impl Fn(Landing) -> bool) -> Option<Held> {
        let able: Vec<usize> =
            self.late.iter().enumerate().filter(|(_, (_, landing))| may(*landing)).map(|(place, _)| place).collect();
        let place = *able.get(self.plan.one_of(able.len()))?;
        Some(self.late.remove(place).0)
    }

    fn strike(&mut self, call: Call) -> Option<Fault> {
        let fault = if self.stale > 0 { Some(Fault::Stale(self.stale)) } else { self.plan.draw(call) };
        let count = match fault? {
            Fault::Before => &mut self.injected.before,
            Fault::After => &mut self.injected.after,
            Fault::Late(_) => &mut self.injected.late,
            Fault::LostRead => &mut self.injected.lost_reads,
            Fault::Slow(_) => &mut self.injected.slow,
            Fault::LostWatch => &mut self.injected.lost_watches,
            Fault::Stale(calls) => {
                self.stale = calls.saturating_sub(1);
                &mut self.injected.stale
            }
        };
        *count += 1;
        fault
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner).field("state", &self.state).finish()
    }
}

impl Store for FaultyStore {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(self.read(self.inner.get(id)))
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(async move {
            self.disturb(|| Held::Swap { id: *id, expected, next: next.clone() }).await?;
            self.inner.swap(id, expected, next).await
        })
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            match self.meet(Call::Watch).await? {
                Fate::Deaf => Ok(Box::new(LostWatch) as Box<dyn Watch>),
                Fate::Clear | Fate::AnswerLost | Fate::Late(_) => self.inner.watch(id).await,
            }
        })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(self.read(self.inner.scan(index, after, limit)))
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        Box::pin(self.read(self.inner.changes(after, limit)))
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(async move {
            self.disturb(|| Held::PutBody { owner: *owner, body, bytes: bytes.clone() }).await?;
            self.inner.put_body(owner, body, bytes).await
        })
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.read(self.inner.get_body(body)))
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(async move {
            self.disturb(|| Held::DropBody { body }).await?;
            self.inner.drop_body(body).await
        })
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        Box::pin(self.read(self.inner.bodies(after, limit)))
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(self.read(self.inner.usage(tag)))
    }

    fn now(&self) -> Option<Stamp> {
        self.inner.now()
    }

    fn clock_error(&self) -> Millis {
        self.inner.clock_error()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn ask_durability(&self) -> Answer<'_, Durability> {
        self.inner.ask_durability()
    }

    fn level(&self) -> Level {
        self.inner.level()
    }

    fn name(&self) -> String {
        format!("faulty {}", self.inner.name())
    }

    fn single_writer(&self) -> bool {
        self.inner.single_writer()
    }
}
