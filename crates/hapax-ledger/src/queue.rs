//! Where requests gather while the writer syncs.
//!
//! One short lock to add, one to take all. The writer is only woken if it sleeps: under load nobody pays for a system
//! call to hand something in.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::pace::Company;

#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    /// There is something to take. Only a hint, for whoever looks without the lock.
    some: AtomicBool,
    wake: Condvar,
    room: Notify,
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    asleep: bool,
    /// Whoever sleeps is not woken for fewer.
    wanted: usize,
    turned_away: bool,
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct Closed;

/// Where more are waited for: nobody comes any more if nobody came for so long, and after so many such whiles whoever came first has
/// waited long enough.
const WHILE: Duration = Duration::from_millis(1);
const MOST_WHILES: u32 = 2;

/// How often the writer looks for more before it sleeps, giving way to others each time.
const LOOKS: u32 = 100;

impl<T> Queue<T> {
    pub(crate) fn new(most: usize) -> Self {
        let state = State { items: Vec::new(), asleep: false, wanted: 1, turned_away: false, closed: false };
        let some = AtomicBool::new(false);
        Self { state: Mutex::new(state), some, wake: Condvar::new(), room: Notify::new(), most }
    }

    /// Waits for room if the queue is full.
    pub(crate) async fn push(&self, item: T) -> Result<(), Closed> {
        let Err(mut item) = self.try_push(item)? else { return Ok(()) };
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            match self.try_push(item)? {
                Ok(()) => return Ok(()),
                Err(back) => item = back,
            }
            room.await;
        }
    }

    fn try_push(&self, item: T) -> Result<Result<(), T>, Closed> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Closed);
        }
        if state.items.len() >= self.most {
            state.turned_away = true;
            return Ok(Err(item));
        }
        self.add(&mut state, item);
        Ok(Ok(()))
    }

    /// For the ledger's own errands, which are few: never refused for want of room.
    pub(crate) fn force(&self, item: T) -> Result<(), Closed> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Closed);
        }
        self.add(&mut state, item);
        Ok(())
    }

    fn add(&self, state: &mut State<T>, item: T) {
        state.items.push(item);
        self.some.store(true, Ordering::Release);
        if state.asleep && state.items.len() >= state.wanted {
            state.asleep = false;
            self.wake.notify_one();
        }
    }

    /// Changes places with the queue. Waits up to `wait` for something to come; false: closed, and nothing is left.
    pub(crate) fn take(&self, into: &mut Vec<T>, wait: Option<Duration>) -> bool {
        self.take_with(into, wait, Company::Nobody)
    }

    /// The same, but once something is there, these are waited for. Fewer come where no more would, or not soon.
    pub(crate) fn take_with(&self, into: &mut Vec<T>, wait: Option<Duration>, company: Company) -> bool {
        debug_assert!(into.is_empty(), "the last batch was not finished");
        let mut state = self.state.lock();
        if state.items.is_empty() && !state.closed {
            match wait {
                Some(wait) if wait > Duration::ZERO => {
                    drop(state);
                    self.look_around();
                    state = self.state.lock();
                }
                Some(_) | None => {}
            }
        }
        if state.items.is_empty() && !state.closed {
            match wait {
                Some(wait) if wait > Duration::ZERO => {
                    state.asleep = true;
                    let _ = self.wake.wait_for(&mut state, wait);
                    state.asleep = false;
                }
                Some(_) | None => {}
            }
        }
        match company {
            Company::Nobody => {}
            Company::WhoeverIsReady if state.items.is_empty() || state.closed => {}
            // Where nobody else could run, this takes no time.
            Company::WhoeverIsReady => MutexGuard::unlocked(&mut state, std::thread::yield_now),
            Company::AsMany(wanted) => self.gather(&mut state, wanted),
        }
        std::mem::swap(&mut state.items, into);
        self.some.store(false, Ordering::Relaxed);
        if state.turned_away {
            state.turned_away = false;
            self.room.notify_waiters();
        }
        !(state.closed && into.is_empty())
    }

    fn gather(&self, state: &mut MutexGuard<'_, State<T>>, wanted: usize) {
        // Beyond that nobody is let in.
        let wanted = wanted.min(self.most);
        let (mut before, mut whiles) = (0, 0);
        while state.items.len() > before && state.items.len() < wanted && !state.closed && whiles < MOST_WHILES {
            before = state.items.len();
            (state.asleep, state.wanted) = (true, wanted);
            let _ = self.wake.wait_for(state, WHILE);
            (state.asleep, state.wanted) = (false, 1);
            whiles += 1;
        }
    }

    /// Stays awake for a moment. Whoever was just answered mostly asks for the next thing soon, and to be woken costs both
    /// sides time. Others who could run meanwhile do.
    fn look_around(&self) {
        for _ in 0..LOOKS {
            if self.some.load(Ordering::Acquire) {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Nobody takes anything any more: what waits is dropped, and its callers with it.
    pub(crate) fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.state.lock().items);
        drop(left);
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        self.wake.notify_one();
        self.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn holding(items: u32) -> Arc<Queue<u32>> {
        let queue = Arc::new(Queue::new(100));
        (0..items).for_each(|item| queue.force(item).unwrap());
        queue
    }

    fn taken(queue: &Queue<u32>, company: Company) -> Vec<u32> {
        let mut taken = Vec::new();
        assert!(queue.take_with(&mut taken, Some(LONG), company));
        taken
    }

    /// There is nobody else, and the one there is waits for its answer.
    #[test]
    fn who_never_comes_is_not_waited_for() {
        assert_eq!(taken(&holding(1), Company::AsMany(usize::MAX)), [0]);
        assert_eq!(taken(&holding(1), Company::WhoeverIsReady), [0]);
    }

    /// They come as soon as they are waited for.
    #[test]
    fn who_comes_meanwhile_is_taken_along() {
        let together = (0..100).any(|_| {
            let queue = holding(1);
            let later = Arc::clone(&queue);
            let others = thread::spawn(move || {
                let is_wanted = || later.state.lock().wanted == 20;
                let waited_for = (0..1_000_000).any(|_| is_wanted());
                (1..20).for_each(|item| later.force(item).unwrap());
                waited_for
            });
            let taken = taken(&queue, Company::AsMany(20));
            others.join().unwrap() && taken.len() == 20
        });
        assert!(together, "nobody was waited for in any of a hundred times");
    }
}
