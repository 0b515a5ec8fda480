//! Many futures inside one task, polled in an order that follows from the seed.
//!
//! What wakes a future only rings its bell. Which of the rung ones is polled next is drawn, so the order does not depend
//! on how a channel happens to wake its receivers, and each seed is another schedule. After each poll the task steps
//! back, so that tasks which the engine has spawned come in between.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

use hapax_store::Seeded;

type Seat = Pin<Box<dyn Future<Output = ()>>>;

/// See the module.
pub struct Pump {
    seats: Vec<Option<Seat>>,
    bells: Arc<Bells>,
    dice: Seeded,
    left: usize,
}

#[derive(Default)]
struct Bells(Mutex<Rung>);

#[derive(Default)]
struct Rung {
    seats: BTreeSet<usize>,
    outer: Option<Waker>,
}

struct Bell {
    seat: usize,
    bells: Arc<Bells>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let outer = {
            let mut rung = self.bells.0.lock().unwrap_or_else(PoisonError::into_inner);
            rung.seats.insert(self.seat);
            rung.outer.clone()
        };
        if let Some(outer) = outer {
            outer.wake();
        }
    }
}

impl Pump {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seats: Vec::new(), bells: Arc::default(), dice: Seeded::new(seed), left: 0 }
    }

    pub fn add(&mut self, future: impl Future<Output = ()> + 'static) {
        self.bells.0.lock().unwrap_or_else(PoisonError::into_inner).seats.insert(self.seats.len());
        self.seats.push(Some(Box::pin(future)));
        self.left += 1;
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let next = {
            let mut rung = this.bells.0.lock().unwrap_or_else(PoisonError::into_inner);
            rung.outer = Some(context.waker().clone());
            let drawn = usize::try_from(this.dice.below(rung.seats.len() as u64)).unwrap_or(0);
            let next = rung.seats.iter().nth(drawn).copied();
            if let Some(seat) = next {
                rung.seats.remove(&seat);
                if !rung.seats.is_empty() {
                    context.waker().wake_by_ref();
                }
            }
            next
        };
        if let Some(seat) = next
            && let Some(future) = &mut this.seats[seat]
        {
            let waker = Waker::from(Arc::new(Bell { seat, bells: Arc::clone(&this.bells) }));
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                this.seats[seat] = None;
                this.left -= 1;
            }
        }
        if this.left == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl std::fmt::Debug for Pump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pump").field("left", &self.left).finish_non_exhaustive()
    }
}
