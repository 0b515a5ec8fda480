//! Connections that nobody uses, by the runtime that looks after them.
//!
//! One that a runtime looks after has its events come straight there, and whoever works there touches a shelf that others hardly ever do: what lies in
//! one place for all of them goes from one processor's cache to another's with each request.

use std::{
    hash::{Hash as _, Hasher},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::{self, Handle},
    time::Instant,
};

use super::link::Link;

/// A power of two, and more than there are processors that a gateway is given, mostly. Where there are more, some share one.
const SHELVES: usize = 16;

#[derive(Default)]
pub(super) struct Shelves([Shelf; SHELVES]);

/// The last used last. In a cache line of its own, and in the one that is fetched along with it.
#[derive(Default)]
#[repr(align(128))]
#[allow(clippy::vec_box, reason = "it goes from hand to hand, and is large")]
struct Shelf(Mutex<Vec<Box<Link>>>);

impl Shelves {
    /// One that was used not longer ago than so, of this runtime if there is one. Any other is better than one more.
    pub(super) fn take(&self, trusted: Duration) -> Option<Box<Link>> {
        let (now, here) = (Instant::now(), Handle::current().id());
        let nearest = number(here);
        self.0[nearest].take(now, trusted, here).or_else(|| {
            let mut others = self.0[nearest + 1..].iter().chain(&self.0[..nearest]);
            others.find_map(|shelf| shelf.take(now, trusted, here))
        })
    }

    pub(super) fn put(&self, mut link: Box<Link>) {
        link.idle_since = Instant::now();
        self.lay(link);
    }

    fn lay(&self, link: Box<Link>) {
        self.0[number(link.home)].0.lock().push(link);
    }

    /// Lets go of those that were not used for so long.
    pub(super) fn tidy(&self, trusted: Duration) {
        let now = Instant::now();
        for shelf in &self.0 {
            let mut links = shelf.0.lock();
            let (good, old): (Vec<_>, Vec<_>) = links.drain(..).partition(|link| link.is_good(now, trusted));
            *links = good;
            drop(links);
            drop(old);
        }
    }
}

impl Shelf {
    fn take(&self, now: Instant, trusted: Duration, here: runtime::Id) -> Option<Box<Link>> {
        let mut links = self.0.lock();
        let last = links.last()?;
        if last.is_good(now, trusted) {
            let nearest = links.iter().rposition(|link| link.home == here && link.is_good(now, trusted));
            let at = nearest.unwrap_or(links.len() - 1);
            return Some(links.remove(at));
        }
        // The last used is too old, so all are.
        let old = std::mem::take(&mut *links);
        drop(links);
        drop(old);
        None
    }
}

impl Link {
    fn is_good(&self, now: Instant, trusted: Duration) -> bool {
        now.saturating_duration_since(self.idle_since) <= trusted
    }
}

/// Where a runtime's connections lie. Two that meet on one shelf only lose what shelves are for.
fn number(home: runtime::Id) -> usize {
    let mut number = Number(0);
    home.hash(&mut number);
    (number.0 % SHELVES as u64) as usize
}

struct Number(u64);

impl Hasher for Number {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |number, byte| number.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use tokio::runtime::Runtime;

    use super::*;
    use crate::outbound::{
        Protocol,
        exchange::Line,
        pool::{Pool, Timing},
    };

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    fn made(pool: &Pool, runtime: &Runtime) -> Box<Link> {
        match runtime.block_on(pool.fresh()).unwrap() {
            Line::Own(link) => link,
            Line::Shared(_) => panic!("HTTP/1.1 is spoken"),
        }
    }

    /// A connection belongs to the runtime that has made it, and is at its best there. But before another is made, any is taken that there is.
    #[test]
    fn who_has_made_a_connection_has_it_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let pool = Pool::new(target, Protocol::Http1, Timing::default(), None);
        let trusted = Duration::from_secs(3);
        // So many that some of them share a shelf with ours, and others do not.
        let runtimes: Vec<Runtime> = (0..=SHELVES).map(|_| runtime()).collect();
        let shelves = Shelves::default();
        let here = runtimes[0].handle().id();
        let _inside = runtimes[0].enter();
        let next = || shelves.take(trusted).map(|link| link.home == here);
        for runtime in &runtimes {
            shelves.put(made(&pool, runtime));
        }
        assert_eq!(next(), Some(true), "others were used later, and it is ours that comes");
        for _ in 0..SHELVES {
            assert_eq!(next(), Some(false));
        }
        assert_eq!(next(), None);

        // And so it is where ours is too old to be trusted.
        let (mut ours, theirs) = (made(&pool, &runtimes[0]), made(&pool, &runtimes[1]));
        ours.idle_since = Instant::now().checked_sub(2 * trusted).unwrap();
        shelves.lay(ours);
        shelves.put(theirs);
        assert_eq!([next(), next()], [Some(false), None]);
    }

    #[test]
    fn what_was_not_used_for_long_is_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let pool = Pool::new(target, Protocol::Http1, Timing::default(), None);
        let (runtime, shelves, trusted) = (runtime(), Shelves::default(), Duration::from_secs(3));
        let mut old = made(&pool, &runtime);
        old.idle_since = Instant::now().checked_sub(2 * trusted).unwrap();
        shelves.lay(old);
        shelves.put(made(&pool, &runtime));
        shelves.tidy(trusted);
        let left: usize = shelves.0.iter().map(|shelf| shelf.0.lock().len()).sum();
        assert_eq!(left, 1);
    }
}
