//! How what a batch has brought comes to callers who share a thread.
//!
//! The writer could wake each of them by itself. Where they live on a runtime of one thread that sleeps, the first of these wake-ups takes that thread
//! to a processor, often the writer's own: it finds one answer, works on it and sleeps again before the writer comes to the next one. So their
//! answers are put into the thread's letterbox, all of a batch at once, and whoever looks after that is woken once.
//!
//! Where nobody looks after a letterbox, or not any more, each caller is told by itself.

use std::{
    cell::RefCell,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::shared::Reply;

thread_local!(static HERE: RefCell<Option<Arc<Letterbox>>> = const { RefCell::new(None) });

#[derive(Debug, Default)]
struct Letterbox {
    inside: Mutex<Inside>,
    /// Callers who wait for an answer.
    awaited: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inside {
    letters: Vec<Letter>,
    /// Whom to wake, and on which processor that one fell asleep.
    sleeper: Option<(Waker, usize)>,
    gone: bool,
}

/// Who waits for an answer, and where.
#[derive(Debug)]
pub(crate) struct Caller {
    to: oneshot::Sender<Reply>,
    at: Option<Address>,
}

/// For as long as somebody there waits.
#[derive(Debug)]
struct Address(Arc<Letterbox>);

#[derive(Debug)]
struct Letter {
    caller: Caller,
    reply: Reply,
}

impl Address {
    fn here() -> Option<Self> {
        let letterbox = HERE.with_borrow(Clone::clone)?;
        letterbox.awaited.fetch_add(1, Ordering::Relaxed);
        Some(Self(letterbox))
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Caller {
    pub(crate) fn here() -> (Self, oneshot::Receiver<Reply>) {
        let (to, answer) = oneshot::channel();
        (Self { to, at: Address::here() }, answer)
    }

    /// By itself, and at once.
    pub(crate) fn tell(self, reply: Reply) {
        let Self { to, at } = self;
        // Who is told may look at once.
        drop(at);
        // Whoever has left does not want to know.
        let _ = to.send(reply);
    }
}

impl Letter {
    fn hand_over(self) {
        self.caller.tell(self.reply);
    }
}

/// What a writer has for its callers, until all of a batch is together.
#[derive(Debug, Default)]
pub(crate) struct Post(Vec<(Arc<Letterbox>, Vec<Letter>)>);

impl Post {
    /// Who has no letterbox is told at once.
    pub(crate) fn add(&mut self, caller: Caller, reply: Reply) {
        let Some(Address(letterbox)) = &caller.at else { return caller.tell(reply) };
        match self.0.iter_mut().find(|(known, _)| Arc::ptr_eq(known, letterbox)) {
            Some((_, letters)) => letters.push(Letter { caller, reply }),
            None => self.0.push((letterbox.clone(), vec![Letter { caller, reply }])),
        }
    }

    /// All have theirs before anybody is woken, and who sleeps on this processor is woken last: that one may take it over.
    pub(crate) fn send(&mut self) {
        let here = this_processor();
        let mut last = Vec::new();
        for (letterbox, letters) in self.0.drain(..) {
            match letterbox.put(letters) {
                Some((sleeper, processor)) if processor != here => sleeper.wake(),
                Some((sleeper, _)) => last.push(sleeper),
                None => {}
            }
        }
        last.into_iter().for_each(Waker::wake);
    }
}

impl Letterbox {
    /// Whom to wake.
    fn put(&self, letters: Vec<Letter>) -> Option<(Waker, usize)> {
        let mut inside = self.inside.lock();
        if inside.gone {
            drop(inside);
            letters.into_iter().for_each(Letter::hand_over);
            return None;
        }
        inside.letters.extend(letters);
        inside.sleeper.take()
    }

    fn poll_taken(&self, cx: &Context<'_>, into: &mut Vec<Letter>) -> Poll<()> {
        let mut inside = self.inside.lock();
        if inside.letters.is_empty() {
            inside.sleeper = Some((cx.waker().clone(), this_processor()));
            return Poll::Pending;
        }
        std::mem::swap(&mut inside.letters, into);
        Poll::Ready(())
    }
}

/// Looks after a letterbox.
struct Carrier(Arc<Letterbox>);

impl Carrier {
    /// Whoever calls from this thread now has the letterbox.
    fn settle(&self) {
        HERE.with_borrow_mut(|here| {
            if !here.as_ref().is_some_and(|here| Arc::ptr_eq(here, &self.0)) {
                *here = Some(self.0.clone());
            }
        });
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // Who calls from now on is told by itself. As a thread ends, nobody does.
        let _ending = HERE.try_with(|here| {
            here.borrow_mut().take_if(|here| Arc::ptr_eq(here, &self.0));
        });
        let mut inside = self.0.inside.lock();
        inside.gone = true;
        let (left, sleeper) = (std::mem::take(&mut inside.letters), inside.sleeper.take());
        drop(inside);
        drop(sleeper);
        left.into_iter().for_each(Letter::hand_over);
    }
}

/// Hands out, on the thread that this runs on, what the writers of ledgers have for callers there: all of a batch at once. For a runtime of several threads that
/// has one, and for as long as that lives. Whoever keeps that thread busy until a ledger answers, or leaves it to another executor meanwhile, waits for ever: nobody
/// hands anything out there then. Where several threads share their work, each caller is better told by itself.
#[doc(hidden)]
pub async fn deliver() {
    let carrier = Carrier(Arc::default());
    let mut letters = Vec::new();
    loop {
        carrier.settle();
        poll_fn(|cx| carrier.0.poll_taken(cx, &mut letters)).await;
        letters.drain(..).for_each(Letter::hand_over);
    }
}

/// How many callers on this thread wait for the writer of a ledger.
#[doc(hidden)]
#[must_use]
pub fn awaited_here() -> usize {
    HERE.with_borrow(|here| here.as_ref().map_or(0, |letterbox| letterbox.awaited.load(Ordering::Relaxed)))
}

#[cfg(target_os = "linux")]
fn this_processor() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(not(target_os = "linux"))]
const fn this_processor() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::atomic::AtomicU32, task::Wake};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn times(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn is_told(answer: &mut oneshot::Receiver<Reply>) -> bool {
        matches!(answer.try_recv(), Ok(Reply::Conflict))
    }

    #[test]
    fn all_of_a_batch_are_told_by_one_wake_up() {
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let mut cx = Context::from_waker(&waker);
        let mut carrier = pin!(deliver());
        assert!(carrier.as_mut().poll(&mut cx).is_pending());
        let mut post = Post::default();
        for batch in 1..=3 {
            let (callers, mut answers): (Vec<_>, Vec<_>) = (0..20).map(|_| Caller::here()).unzip();
            assert_eq!(awaited_here(), 20);
            callers.into_iter().for_each(|caller| post.add(caller, Reply::Conflict));
            assert_eq!(woken.times(), batch - 1, "not before all are together");
            assert!(!answers.iter_mut().any(is_told));
            post.send();
            assert_eq!(woken.times(), batch);
            assert!(carrier.as_mut().poll(&mut cx).is_pending());
            assert!(answers.iter_mut().all(is_told));
            assert_eq!(awaited_here(), 0);
        }
    }

    #[test]
    fn who_has_no_letterbox_is_told_at_once() {
        let (caller, mut answer) = Caller::here();
        Post::default().add(caller, Reply::Conflict);
        assert!(is_told(&mut answer));
        assert_eq!(awaited_here(), 0);
    }

    /// A runtime ends before, between and after.
    #[test]
    fn letters_outlive_whoever_looks_after_them() {
        let mut carrier = Box::pin(deliver());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(carrier.as_mut().poll(&mut cx).is_pending());
        let mut post = Post::default();
        let [(first, mut told_first), (second, mut told_second), (third, mut told_third)] =
            [Caller::here(), Caller::here(), Caller::here()];
        post.add(first, Reply::Conflict);
        post.send();
        post.add(second, Reply::Conflict);
        assert!(!is_told(&mut told_first));
        drop(carrier);
        assert!(is_told(&mut told_first), "what lay there is handed over");
        post.send();
        assert!(is_told(&mut told_second), "what comes later is as well");
        post.add(third, Reply::Conflict);
        post.send();
        assert!(is_told(&mut told_third));
    }

    #[test]
    fn who_gives_up_is_not_awaited() {
        let mut carrier = pin!(deliver());
        assert!(carrier.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let (caller, answer) = Caller::here();
        drop(answer);
        assert_eq!(awaited_here(), 1, "the writer still has it");
        drop(caller);
        assert_eq!(awaited_here(), 0);
    }
}
