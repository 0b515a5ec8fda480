//! Which processor a thread works on, where it serves others all day.
//!
//! The system wakes a thread near whoever woke it, and leaves it there for as long as its memory is thought to be at hand. Threads
//! that sleep and wake thousands of times a second are never moved apart: two of them share one processor while another stands still for a
//! third of the time. So each keeps to one of its own, where there is one for each. A process with fewer threads than processors does
//! not know better than the system which of these are free.
//!
//! Before one of them goes to sleep it mostly gives way, once. Who waits for that processor, a client or the ledger's writer, mostly has
//! something for it right after that, and to be woken for each such thing takes longer than to do it.
//!
//! Somebody who computes gives nothing back, though, and keeps the processor for milliseconds. Beside such a one a thread is better off
//! asleep, and wherever the system puts it: it lets go for a while.
//!
//! Connections are spread over runtimes of one such thread each, and belong to one of them, so that what they need does not go from one processor's
//! cache to another's at each step. What belongs to nobody's connection is done by the program's own runtime.

use std::io;

use hapax_server::Crew;
use tokio::runtime::{Builder, Runtime};

/// The runtimes that serve connections. They end when this is dropped, and with them what they still do.
pub(crate) struct Serving(Vec<Runtime>);

impl Drop for Serving {
    fn drop(&mut self) {
        // At once: what one of them still does may need another.
        std::thread::scope(|scope| {
            for runtime in self.0.drain(..) {
                scope.spawn(move || drop(runtime));
            }
        });
    }
}

impl Serving {
    /// One for each of several processors, if the program's own runtime has a thread for each. Else none: whoever has set another number of threads
    /// knows why.
    #[cfg(target_os = "linux")]
    pub(crate) fn beside(own: &Runtime) -> io::Result<Self> {
        let Some(allowed) = linux::allowed() else { return Ok(Self(Vec::new())) };
        let processors = linux::processors(&allowed);
        if processors.len() == 1 || own.metrics().num_workers() != processors.len() {
            return Ok(Self(Vec::new()));
        }
        let one = |processor: usize| {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(1).thread_name("hapax-serving").enable_all();
            linux::keep(&mut builder, allowed, move || Some(processor));
            let runtime = builder.build()?;
            runtime.spawn(hapax::ledger::deliver());
            runtime.spawn(linux::tick());
            Ok(runtime)
        };
        Ok(Self(processors.into_iter().map(one).collect::<io::Result<_>>()?))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn beside(_: &Runtime) -> io::Result<Self> {
        Ok(Self(Vec::new()))
    }

    pub(crate) fn crew(&self) -> Crew {
        Crew::new(self.0.iter().map(|runtime| runtime.handle().clone()))
    }
}

/// Lets each thread that runs tasks keep to a processor of its own.
#[cfg(target_os = "linux")]
pub(crate) fn spread(builder: &mut Builder) {
    use tokio::runtime::{Handle, worker_index};

    let Some(allowed) = linux::allowed() else { return };
    let processors = linux::processors(&allowed);
    linux::keep(builder, allowed, move || {
        let workers = Handle::try_current().ok()?.metrics().num_workers();
        processors.get(worker_index()?).filter(|_| workers == processors.len()).copied()
    });
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn spread(_: &mut Builder) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        cell::{Cell, RefCell},
        time::{Duration, Instant},
    };

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use tokio::runtime::Builder;

    /// Where this process may run.
    pub(super) fn allowed() -> Option<CpuSet> {
        sched_getaffinity(None).ok()
    }

    pub(super) fn processors(allowed: &CpuSet) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|one| allowed.is_set(*one)).collect()
    }

    /// Lets the threads of a runtime keep to the processors that are their own.
    pub(super) fn keep(
        builder: &mut Builder,
        allowed: CpuSet,
        own: impl Fn() -> Option<usize> + Send + Sync + 'static,
    ) {
        let go_to = |places: &CpuSet| {
            let _slower_without = sched_setaffinity(None, places);
        };
        // A thread begins where the one that started it may run. Those that run no tasks go wherever there is room.
        builder.on_thread_start(move || go_to(&allowed));
        let own = move || {
            let mut only = CpuSet::new();
            only.set(own()?);
            Some(only)
        };
        // Only threads that run tasks are ever parked.
        builder.on_thread_park(move || {
            PLACE.with_borrow_mut(|place| place.before_sleep(now(), &allowed, &own, go_to, give_way));
        });
    }

    /// A timer that is set for earlier than any other wakes the runtime by a system call, even if it is set by the runtime's only thread, which is awake. The usual
    /// ones, in which a client, an upstream or a lease runs out of time, are for later than this one.
    pub(super) async fn tick() {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Whoever works in turns is done by then. Whoever computes is not.
    const SHORT: Duration = Duration::from_millis(2);
    /// A processor is crowded once it was kept from its thread so often in a row; each time that it was not takes an eighth of one
    /// back.
    const MOST_CROWDING: u32 = 8 * LONG_WAIT;
    const LONG_WAIT: u32 = 8;
    /// How long the system has its way with a thread whose processor is crowded.
    const ELSEWHERE: Duration = Duration::from_secs(5);
    /// Up to so many make a thread better off asleep.
    const FEW: usize = 16;
    /// So often it gives way all the same: else it would not notice that its processor is crowded.
    const LOOKS_EVERY: u32 = 8;

    thread_local! {
        static PLACE: RefCell<Place> = const { RefCell::new(Place::New) };
        static SLEEPS: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(Debug)]
    enum Place {
        New,
        /// It has none of its own.
        Any,
        Own {
            place: CpuSet,
            crowding: u32,
        },
        /// Its own is crowded.
        Left {
            place: CpuSet,
            since: Instant,
        },
    }

    impl Place {
        /// `give_way` says how long that took, if it was done.
        fn before_sleep(
            &mut self,
            now: Instant,
            allowed: &CpuSet,
            own: impl FnOnce() -> Option<CpuSet>,
            go_to: impl FnOnce(&CpuSet),
            give_way: impl FnOnce() -> Option<Duration>,
        ) {
            match self {
                Self::Any => {}
                Self::New => *self = own().map_or(Self::Any, |place| Self::kept(place, go_to)),
                Self::Left { since, .. } if now.saturating_duration_since(*since) < ELSEWHERE => {}
                Self::Left { place, .. } => *self = Self::kept(*place, go_to),
                Self::Own { place, crowding } => {
                    let Some(waited) = give_way() else { return };
                    *crowding = after(*crowding, waited);
                    if *crowding >= MOST_CROWDING {
                        go_to(allowed);
                        *self = Self::Left { place: *place, since: now };
                    }
                }
            }
        }

        fn kept(place: CpuSet, go_to: impl FnOnce(&CpuSet)) -> Self {
            go_to(&place);
            Self::Own { place, crowding: 0 }
        }
    }

    #[allow(clippy::disallowed_methods, reason = "how long the system keeps a processor is told by real time alone")]
    fn now() -> Instant {
        Instant::now()
    }

    fn give_way() -> Option<Duration> {
        let sleeps = SLEEPS.replace(SLEEPS.get().wrapping_add(1));
        gives_way(hapax::ledger::awaited_here(), sleeps).then(|| {
            let since = now();
            std::thread::yield_now();
            since.elapsed()
        })
    }

    /// Whoever gives way comes after all others, and these go first for a while, each time that they have something to do. A thread on which a few wait for the ledger is
    /// better off asleep: it is woken for all of them at once, and soon. With many there is enough to do when its turn comes, whenever that is.
    const fn gives_way(awaited: usize, sleeps: u32) -> bool {
        awaited == 0 || awaited > FEW || sleeps.is_multiple_of(LOOKS_EVERY)
    }

    fn after(crowding: u32, waited: Duration) -> u32 {
        if waited < SHORT { crowding.saturating_sub(1) } else { crowding + LONG_WAIT }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A place, what it was told to go to, and where it may.
        struct Thread {
            place: Place,
            went: Vec<CpuSet>,
            start: Instant,
        }

        fn one(processor: usize) -> CpuSet {
            let mut only = CpuSet::new();
            only.set(processor);
            only
        }

        fn all() -> CpuSet {
            let mut all = one(0);
            all.set(1);
            all
        }

        impl Thread {
            fn new() -> Self {
                Self { place: Place::New, went: Vec::new(), start: now() }
            }

            fn sleeps(&mut self, after: Duration, own: Option<CpuSet>, waited: Duration) {
                let went = &mut self.went;
                let go_to = |places: &CpuSet| went.push(*places);
                self.place.before_sleep(self.start + after, &all(), || own, go_to, || Some(waited));
            }
        }

        #[test]
        fn a_thread_leaves_a_crowded_processor_and_comes_back() {
            let mut thread = Thread::new();
            thread.sleeps(Duration::ZERO, Some(one(1)), Duration::ZERO);
            for _ in 0..8 {
                assert_eq!(thread.went, [one(1)]);
                thread.sleeps(Duration::ZERO, None, 2 * SHORT);
            }
            assert_eq!(thread.went, [one(1), all()]);
            thread.sleeps(ELSEWHERE - SHORT, None, Duration::ZERO);
            assert_eq!(thread.went.len(), 2, "it stays away");
            thread.sleeps(ELSEWHERE, None, Duration::ZERO);
            assert_eq!(thread.went, [one(1), all(), one(1)]);
            // What was before is forgotten.
            (0..7).for_each(|_| thread.sleeps(ELSEWHERE, None, 2 * SHORT));
            assert_eq!(thread.went.len(), 3);
        }

        #[test]
        fn who_waits_for_a_few_sleeps_at_once_but_looks_now_and_then() {
            assert!((0..8).all(|sleeps| gives_way(0, sleeps)));
            assert!((0..8).all(|sleeps| gives_way(FEW + 1, sleeps)));
            assert_eq!((0..80).filter(|sleeps| gives_way(1, *sleeps)).count(), 10);
            assert_eq!((0..80).filter(|sleeps| gives_way(FEW, *sleeps)).count(), 10);
        }

        #[test]
        fn who_does_not_give_way_learns_nothing() {
            let mut crowding = Place::Own { place: one(1), crowding: LONG_WAIT };
            crowding.before_sleep(now(), &all(), || None, |_| unreachable!("it stays"), || None);
            assert!(matches!(crowding, Place::Own { crowding: LONG_WAIT, .. }));
        }

        #[test]
        fn a_thread_without_a_processor_of_its_own_goes_nowhere() {
            let mut thread = Thread::new();
            (0..20).for_each(|_| thread.sleeps(Duration::ZERO, None, 2 * SHORT));
            assert!(thread.went.is_empty(), "{:?}", thread.went);
        }

        /// A client with many answers to read takes its time now and then. That is no reason to leave.
        #[test]
        fn who_is_kept_waiting_now_and_then_stays() {
            let mut crowding = 0;
            for turn in 0..10_000 {
                let waited = if turn % 9 == 0 { 5 * SHORT } else { SHORT / 10 };
                crowding = after(crowding, waited);
                assert!(crowding < MOST_CROWDING, "turn {turn}");
            }
        }

        #[test]
        fn who_is_kept_waiting_again_and_again_leaves() {
            let crowding = (0..8).fold(0, |crowding, _| after(crowding, 3 * SHORT));
            assert!(crowding >= MOST_CROWDING);
        }
    }
}
