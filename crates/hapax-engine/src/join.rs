//! Duplicates of a running operation wait for its answer.
//!
//! One subscription and one read serve all who wait for one operation in this process. The subscription is set up
//! before the state is read, and it also wakes at the lease's end, since a lapse writes nothing. A waiter never
//! executes: it is judged as a begin that may not, fingerprint included, and never outlives its own deadline.

use std::sync::Arc;

use hapax_core::{Body, Id, Millis, Moment, State, Verdict, Waiting, judge_waiter, lease_end};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    begin::{Begun, Replayed},
    call::Prepared,
    engine::{Engine, Inner},
    error::EngineError,
    seen::Seen,
    settings::Settings,
    stats::count,
};

/// What the waiters of one operation look at: the record as last read.
type Board = watch::Sender<Option<Seen>>;

#[derive(Debug)]
pub(crate) struct Joins {
    boards: Mutex<HashMap<Id, Arc<Board>>>,
    waiting: Mutex<Waiters>,
    per_key: usize,
    per_tenant: usize,
    in_all: usize,
}

#[derive(Debug, Default)]
struct Waiters {
    in_all: usize,
    by_tenant: HashMap<Arc<str>, usize>,
}

/// One waiter counted, until it is dropped.
struct Counted<'a> {
    joins: &'a Joins,
    tenant: Arc<str>,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut waiting = self.joins.waiting.lock();
        waiting.in_all -= 1;
        if let Some(count) = waiting.by_tenant.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                waiting.by_tenant.remove(&self.tenant);
            }
        }
    }
}

/// One waiter's place.
struct Place<'a> {
    board: watch::Receiver<Option<Seen>>,
    _counted: Counted<'a>,
}

impl Joins {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            boards: Mutex::default(),
            waiting: Mutex::default(),
            per_key: settings.waiters_per_key,
            per_tenant: settings.waiters.div_ceil(settings.waiters_share.max(1)),
            in_all: settings.waiters,
        }
    }

    /// How many wait right now.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().in_all
    }

    /// Counts one more, if there is room for it: whoever waits must not take it from other tenants.
    fn count(&self, tenant: &Arc<str>) -> Option<Counted<'_>> {
        let mut waiting = self.waiting.lock();
        let of_tenant = waiting.by_tenant.get(tenant).copied().unwrap_or(0);
        if waiting.in_all >= self.in_all || of_tenant >= self.per_tenant {
            return None;
        }
        waiting.in_all += 1;
        waiting.by_tenant.insert(Arc::clone(tenant), of_tenant + 1);
        Some(Counted { joins: self, tenant: Arc::clone(tenant) })
    }

    /// A place among the waiters, and the board if it is new and nobody keeps it yet. `None`: too many wait.
    fn place(&self, id: &Id, tenant: &Arc<str>) -> Option<(Place<'_>, Option<Arc<Board>>)> {
        let counted = self.count(tenant)?;
        let mut boards = self.boards.lock();
        if let Some(board) = boards.get(id) {
            let room = board.receiver_count() < self.per_key;
            return room.then(|| (Place { board: board.subscribe(), _counted: counted }, None));
        }
        let board = Arc::new(Board::new(None));
        let place = Place { board: board.subscribe(), _counted: counted };
        boards.insert(*id, Arc::clone(&board));
        Some((place, Some(board)))
    }

    /// Takes the board down if nobody looks at it any more.
    fn take_down(&self, id: &Id, board: &Board) -> bool {
        let mut boards = self.boards.lock();
        if board.receiver_count() > 0 {
            return false;
        }
        boards.remove(id);
        true
    }
}

impl Engine {
    /// Waits for the attempt under way, at most `most`.
    pub(crate) async fn join(
        &self,
        prepared: &Prepared,
        seen: Seen,
        attempt: u32,
        retry_after: Millis,
        most: Millis,
    ) -> Result<Begun, EngineError> {
        let deadline = Instant::now() + most.as_std();
        let Some((mut place, new_board)) = self.inner.joins.place(&prepared.id, &prepared.scope.tenant) else {
            return Ok(Begun::Told(Verdict::InFlight { attempt, retry_after }));
        };
        if let Some(board) = new_board {
            tokio::spawn(keep_board(Arc::clone(&self.inner), prepared.id, board));
        }
        count(&self.inner.counters.joined);
        let mut stop = prepared.stop.as_deref().cloned();
        let mut last = seen;
        loop {
            let shown = place.board.borrow_and_update().clone();
            // What the board shows may be older than what this caller has read itself.
            if let Some(shown) = shown.filter(|shown| shown.version >= last.version) {
                last = shown;
                // A body beside its record may be slow to come; nobody waits for it longer than for the attempt itself.
                match timeout_at(deadline, self.judge(prepared, &last, attempt)).await {
                    Ok(Ok(Some(begun))) => return Ok(begun),
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => return Err(error),
                    Err(_elapsed) => return Ok(self.still_running(prepared, &last, attempt)),
                }
            }
            let changed = tokio::select! {
                biased;
                changed = timeout_at(deadline, place.board.changed()) => matches!(changed, Ok(Ok(()))),
                () = said(stop.as_mut()) => false,
            };
            if !changed {
                // Its time is over; it never runs anything itself.
                return Ok(self.still_running(prepared, &last, attempt));
            }
        }
    }

    /// What a waiter is told whose time is over: how long it is from now on, not from when it came.
    fn still_running(&self, prepared: &Prepared, last: &Seen, attempt: u32) -> Begun {
        let retry_after = match self.judged(prepared, last, attempt) {
            Waiting::Wait { retry_after } => retry_after,
            // It has ended, or its lease has, and only the answer did not come in time.
            Waiting::Answer(_) | Waiting::Joined(_) => Millis::ZERO,
        };
        Begun::Told(Verdict::InFlight { attempt, retry_after })
    }

    fn judged(&self, prepared: &Prepared, shown: &Seen, attempt: u32) -> Waiting {
        let moment = Moment { now: self.inner.now(shown), wall: self.inner.wall_now() };
        judge_waiter(&prepared.policy, shown.current(), prepared.fingerprint.as_ref(), attempt, moment)
    }

    async fn judge(&self, prepared: &Prepared, shown: &Seen, attempt: u32) -> Result<Option<Begun>, EngineError> {
        match self.judged(prepared, shown, attempt) {
            Waiting::Wait { .. } => Ok(None),
            Waiting::Joined(mut failure) => {
                // A new attempt may have dropped it by now; then all that can be said is that it failed.
                if let Some(body) = failure.stored_body()
                    && let Some(bytes) = self.inner.get_body(body).await?
                {
                    failure.body = Body::Inline(bytes.into());
                }
                Ok(Some(Begun::JoinedFailure(failure)))
            }
            Waiting::Answer(Verdict::Replay(replay)) => {
                let replay = self.inner.with_body(&prepared.id, replay, shown).await?;
                Ok(Some(Begun::Replay(Replayed { replay, joined: true })))
            }
            Waiting::Answer(verdict) => Ok(Some(Begun::Told(verdict))),
        }
    }
}

/// Keeps one board up to date while anybody looks at it.
async fn keep_board(inner: Arc<Inner>, id: Id, board: Arc<Board>) {
    let mut wait = inner.settings.store_backoff;
    while let Some(Broken) = watch_board(&inner, &id, &board, &mut wait).await {
        // Waiters have their own deadlines; all that can be done is to try again, while there are any.
        tokio::select! {
            biased;
            () = board.closed() => if inner.joins.take_down(&id, &board) { return },
            () = tokio::time::sleep(wait) => {}
        }
        wait = wait.saturating_mul(2).min(std::time::Duration::from_secs(1));
    }
}

/// The store does not answer, or with something that cannot be read.
struct Broken;

/// One subscription, for as long as it lasts. `None`: nobody looks any more, and the board is down.
async fn watch_board(inner: &Inner, id: &Id, board: &Board, wait: &mut std::time::Duration) -> Option<Broken> {
    let Ok(mut watching) = inner.in_time("watch", inner.store.watch(id)).await else { return Some(Broken) };
    loop {
        let Ok(seen) = inner.read(id).await else { return Some(Broken) };
        *wait = inner.settings.store_backoff;
        let lapse = inner.lapse_of(&seen);
        if board.borrow().as_ref().is_none_or(|shown| inner.news(shown, &seen)) {
            board.send_replace(Some(seen));
        }
        tokio::select! {
            biased;
            () = board.closed() => {
                if inner.joins.take_down(id, board) {
                    return None;
                }
                // Somebody came just now, and what is on the board may be old.
            }
            () = watching.changed() => {}
            () = at(lapse) => {}
        }
    }
}

impl Inner {
    /// Whether waiters have to look again: the record changed, or its lease has run out.
    fn news(&self, shown: &Seen, seen: &Seen) -> bool {
        shown.version != seen.version || self.lapse_of(seen).is_none()
    }

    /// When the running lease ends, on this process's clock. `None`: nothing runs, or it ran out.
    fn lapse_of(&self, seen: &Seen) -> Option<Instant> {
        match &seen.record.as_deref()?.state {
            State::Pending(pending) => {
                let end = lease_end(&pending.lease);
                (self.now(seen) < end).then(|| self.instant_of(seen, end))
            }
            State::Open(_) | State::InDoubt(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => None,
        }
    }
}

/// Once whoever the waiters are here for has no more time for them, or is gone.
async fn said(stop: Option<&mut watch::Receiver<bool>>) {
    match stop {
        Some(stop) => drop(stop.wait_for(|stop| *stop).await),
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
