//! Writes down what time has done, a bounded slice at a time. Nothing depends on when it passes: a lapse or an expiry
//! reads the same before and after.

use std::{
    borrow::Cow,
    sync::{Arc, Weak, atomic::Ordering::Relaxed},
    time::Duration,
};

use hapax_core::{Command, Id, Millis, Policy, Reply, Stamp, StateName, as_read, command::Refused, record::About};
use hapax_store::{Cursor, Index, StoreError};
use tokio::{runtime::Handle, time::Instant};

use crate::{
    engine::{Engine, Inner},
    error::EngineError,
    house::Range,
    hunt::Next,
    probe::{PROBES_AT_ONCE, Probed},
    quota::tombstones_full,
    seen::Seen,
};

/// What one pass did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    pub looked_at: usize,
    /// Lapses and expiries written down.
    pub written: usize,
    pub probed: usize,
    /// Bodies dropped that no record named.
    pub orphans: usize,
    /// Another process on the same store does it at the moment, so that it was left to that.
    pub elsewhere: bool,
}

/// Sweeps until it is dropped.
#[derive(Debug)]
pub struct Sweeper(tokio::task::JoinHandle<()>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    /// Sweeps in the background, as often as the most impatient policy wants.
    #[must_use = "the sweeper stops when it is dropped"]
    pub fn sweep_in_background(&self) -> Sweeper {
        let engine = self.clone();
        Sweeper(tokio::spawn(async move {
            loop {
                tokio::time::sleep(engine.inner.pause()).await;
                let _asked_again = engine.ask_promise().await;
                // An error here is the store's, and every caller meets it too; the next pass tries again.
                let _tried_again = engine.sweep().await;
            }
        }))
    }

    /// Starts sweeping on the present runtime, if the engine was built to. It does so by itself at the first call, as before that there may be no
    /// runtime to do it on; whoever has several chooses one of them by this. It ends with the engine.
    pub fn sweep_from_now_on(&self) {
        if self.inner.runtime.get().is_none()
            && let Ok(here) = Handle::try_current()
        {
            let _somebody_else_was_first = self.inner.runtime.set(here);
        }
        if self.inner.sweeping.load(Relaxed) && self.inner.sweeping.swap(false, Relaxed) {
            tokio::spawn(sweep_while_there(Arc::downgrade(&self.inner)));
        }
    }

    /// One whole pass.
    pub async fn sweep(&self) -> Result<Swept, EngineError> {
        let mut swept = Swept::default();
        self.sweep_records(&mut swept, None).await?;
        if self.inner.claims(Range::Bodies).await? {
            let now = self.inner.now(&self.inner.read(&NOBODY).await?);
            self.inner.sweep_orphans(now, &mut swept).await?;
        } else {
            swept.elsewhere = true;
        }
        Ok(swept)
    }

    /// A pass without the bodies: looking for orphans means to look at all of them. Probes are this process's own, and
    /// each is claimed by itself.
    async fn sweep_records(&self, swept: &mut Swept, until: Option<Instant>) -> Result<(), EngineError> {
        if self.inner.claims(Range::Records).await? {
            let now = self.inner.now(&self.inner.read(&NOBODY).await?);
            for index in [Index::LeaseEnd { until: now }, Index::Expiry { until: now }] {
                self.inner.sweep_index(index, swept).await?;
            }
        } else {
            swept.elsewhere = true;
        }
        self.probe_all(swept, until).await
    }

    /// Asks about everything in doubt, or about as much as can be begun in time: those that were asked about are not due
    /// again at once, so the next pass gets further.
    async fn probe_all(&self, swept: &mut Swept, until: Option<Instant>) -> Result<(), EngineError> {
        if self.inner.probes.is_empty() {
            return Ok(());
        }
        let late = || until.is_some_and(|until| Instant::now() >= until);
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.inner.page(Index::InDoubt, after.as_ref()).await?;
            let mut asking = tokio::task::JoinSet::new();
            for id in page.items {
                if late() {
                    break;
                }
                swept.looked_at += 1;
                if asking.len() == PROBES_AT_ONCE {
                    swept.probed += asked(asking.join_next().await);
                }
                let engine = self.clone();
                asking.spawn(async move {
                    // Nobody closes it.
                    let _place = engine.inner.probing.acquire().await;
                    engine.probe(&id).await
                });
            }
            while !asking.is_empty() {
                swept.probed += asked(asking.join_next().await);
            }
            match page.next {
                Some(next) if !late() => after = Some(next),
                Some(_) | None => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }
}

/// 1 if somebody was really asked. A store error here meets every caller too; the next pass asks again.
fn asked(probed: Option<Result<Result<Probed, StoreError>, tokio::task::JoinError>>) -> usize {
    usize::from(matches!(probed, Some(Ok(Ok(Probed::StillUnknown | Probed::Resolved)))))
}

/// Sweeps until nobody holds the engine any more.
async fn sweep_while_there(inner: Weak<Inner>) {
    let mut since_orphans = Duration::ZERO;
    loop {
        let Some(pause) = inner.upgrade().map(|inner| inner.pause()) else { return };
        tokio::time::sleep(pause).await;
        let Some(inner) = inner.upgrade() else { return };
        since_orphans += pause;
        let engine = Engine { inner };
        let _asked_again = engine.ask_promise().await;
        // An error here is the store's, and every caller meets it too; the next pass tries again.
        if since_orphans >= engine.inner.settings.orphan_age {
            since_orphans = Duration::ZERO;
            let _tried_again = engine.sweep().await;
        } else {
            let in_time = Instant::now() + engine.inner.pause();
            let _tried_again = engine.sweep_records(&mut Swept::default(), Some(in_time)).await;
        }
    }
}

/// An id that no operation has: asking for it only tells the time.
const NOBODY: Id = Id([0; 32]);

impl Inner {
    async fn page(&self, index: Index, after: Option<&Cursor>) -> Result<hapax_store::Page<Id>, StoreError> {
        self.in_time("scan", self.store.scan(index, after, self.settings.sweep_slice)).await
    }

    async fn sweep_index(&self, index: Index, swept: &mut Swept) -> Result<(), EngineError> {
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.page(index, after.as_ref()).await?;
            self.expire_page(&page.items, swept).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
            // Requests go first.
            tokio::task::yield_now().await;
            // A long pass outlasts the claim; whoever has lost it leaves the rest to the other.
            if !self.claims(Range::Records).await? {
                swept.elsewhere = true;
                return Ok(());
            }
        }
    }

    async fn expire_page(&self, ids: &[Id], swept: &mut Swept) -> Result<(), EngineError> {
        for id in ids {
            swept.looked_at += 1;
            let Some(seen) = self.operation(id).await? else {
                swept.written += self.sweep_other_kind(id).await?;
                continue;
            };
            let (policy, about) = (self.policy_for(&seen), seen.about());
            let before = seen.version;
            let carried = self.carry(&policy, id, seen, &about, &Command::Expire).await.map_err(StoreError::from)?;
            if carried.seen.version != before {
                swept.written += 1;
            }
        }
        Ok(())
    }

    /// Writes down one slice of what has expired, and one of what has lapsed: before its start that reads as gone too.
    /// Whether there was any.
    pub(crate) async fn expire_some(&self) -> Result<bool, EngineError> {
        let now = self.now(&self.read(&NOBODY).await?);
        let mut swept = Swept::default();
        for index in [Index::Expiry { until: now }, Index::LeaseEnd { until: now }] {
            let page = self.page(index, None).await?;
            self.expire_page(&page.items, &mut swept).await?;
        }
        Ok(swept.written > 0)
    }

    async fn sweep_orphans(&self, now: Stamp, swept: &mut Swept) -> Result<(), EngineError> {
        let age = Millis::from_std(self.settings.orphan_age);
        let mut after: Option<Cursor> = None;
        loop {
            let bodies = self.store.bodies(after.as_ref(), self.settings.sweep_slice);
            let page = self.in_time("bodies", bodies).await?;
            for info in &page.items {
                // A young one may belong to a write that is still under way.
                if now.since(info.stored) < age {
                    continue;
                }
                let Some(owner) = self.operation(&info.owner).await? else { continue };
                let named = owner.record.iter().any(|record| record.stored_bodies().any(|body| body == info.body));
                if !named {
                    self.in_time("drop_body", self.store.drop_body(info.body)).await?;
                    swept.orphans += 1;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
            tokio::task::yield_now().await;
            if !self.claims(Range::Bodies).await? {
                swept.elsewhere = true;
                return Ok(());
            }
        }
    }

    /// Makes room for one record of this tenant by dropping the body of its oldest final one.
    pub(crate) async fn evict_one(&self, policy: &Policy, about: &Arc<About>) -> Result<bool, EngineError> {
        let (surface, tenant) = (self.usage(about.surface_tag).await?, self.usage(about.tenant_tag).await?);
        // New work is refused then, whatever else is given up for it.
        if tombstones_full(policy, surface, tenant, 0) {
            return Ok(false);
        }
        let tenant = about.tenant_tag;
        let Next::From(mut after) = self.hunts.next(tenant) else { return Ok(false) };
        for _ in 0..MOST_PAGES {
            let scan = self.store.scan(Index::TenantAge(tenant), after.as_ref(), HUNTED_AT_ONCE);
            let page = self.in_time("scan", scan).await?;
            for id in &page.items {
                let Some(seen) = self.operation(id).await? else { continue };
                let (about, counted) = (seen.about(), counts(&seen));
                // What time has taken already is only written down.
                let command =
                    if self.moved_by_time(&seen) { Command::Expire } else { Command::Evict { tombstones_full: false } };
                let carried = self.carry(policy, id, seen, &about, &command).await.map_err(StoreError::from)?;
                match carried.reply {
                    Reply::Done(done) if !done.already && counted && !counts(&carried.seen) => {
                        self.hunts.go_on(tenant, after);
                        return Ok(true);
                    }
                    Reply::Refused(Refused::NoTombstones) => return Ok(false),
                    Reply::Done(_) | Reply::Refused(_) | Reply::Fenced | Reply::Conflict(_) | Reply::Verdict(_) => {}
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => {
                    self.hunts.rest(tenant);
                    return Ok(false);
                }
            }
        }
        self.hunts.go_on(tenant, after);
        Ok(false)
    }

    /// The time until the next pass, a tenth more or less, so that processes do not sweep in step.
    fn pause(&self) -> Duration {
        let policies = self.policies();
        let shortest = policies.iter().map(|(_, policy)| policy.sweep).chain([policies.standard().sweep]).min();
        let pause = shortest.unwrap_or(Millis::from_secs(10)).as_std();
        let mut byte = [128];
        // Without randomness there is no jitter, and the pass goes on.
        let _without_jitter = self.entropy.fill(&mut byte);
        pause.mul_f64(0.9 + f64::from(byte[0]) / 1280.0)
    }
}

/// Whether it takes up one of the records that may be kept.
fn counts(seen: &Seen) -> bool {
    seen.record.as_ref().is_some_and(|record| record.state.name() != StateName::Tombstone)
}

impl Inner {
    /// Whether time has done something to the record that nobody has written down.
    fn moved_by_time(&self, seen: &Seen) -> bool {
        seen.record.as_ref().is_some_and(|record| !matches!(as_read(record, self.now(seen)), Some(Cow::Borrowed(_))))
    }
}

/// How many pages of a tenant's oldest records one request looks through for one that may be evicted. The next one goes on
/// behind them.
const MOST_PAGES: usize = 128;
/// How many records such a page holds: what is in front of the one that was found is looked at again by the next.
const HUNTED_AT_ONCE: usize = 32;
