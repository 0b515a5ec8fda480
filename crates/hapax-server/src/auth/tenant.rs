use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// What one tenant uses of the process right now. There are as many of these as tenants in the key file.
#[derive(Debug)]
pub(crate) struct TenantState {
    begins: AtomicUsize,
    readers: AtomicUsize,
    /// Calls that wait for tasks or results.
    waits: AtomicUsize,
    /// Bytes of its bodies in flight, beyond what is free.
    pub(crate) body_bytes: AtomicUsize,
    pub(crate) requests: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// `None`: as many as it likes.
    bucket: Mutex<Option<Bucket>>,
}

/// A token bucket: `rate` a second, and a second's worth at once.
#[derive(Debug)]
struct Bucket {
    rate: f64,
    left: f64,
    at: Instant,
}

impl TenantState {
    pub(crate) fn new(rate: Option<u32>) -> Self {
        let state = Self {
            begins: AtomicUsize::new(0),
            readers: AtomicUsize::new(0),
            waits: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bucket: Mutex::new(None),
        };
        state.set_rate(rate);
        state
    }

    /// The rate that its keys name from now on. What it has used up of this second stays used up.
    pub(crate) fn set_rate(&self, rate: Option<u32>) {
        let mut bucket = self.bucket.lock();
        *bucket = rate.map(|rate| {
            let rate = f64::from(rate.max(1));
            let left = bucket.as_ref().map_or(rate, |before| before.left.min(rate));
            Bucket { rate, left, at: Instant::now() }
        });
    }

    /// Whether one more request fits the tenant's rate.
    pub(crate) fn admit(&self) -> bool {
        self.requests.fetch_add(1, Relaxed);
        let mut bucket = self.bucket.lock();
        let Some(bucket) = bucket.as_mut() else { return true };
        let now = Instant::now();
        bucket.left = (bucket.left + now.duration_since(bucket.at).as_secs_f64() * bucket.rate).min(bucket.rate);
        bucket.at = now;
        if bucket.left < 1.0 {
            self.refused.fetch_add(1, Relaxed);
            return false;
        }
        bucket.left -= 1.0;
        true
    }

    pub(crate) fn begin(self: &Arc<Self>) -> Begins {
        let others = self.begins.fetch_add(1, Relaxed);
        Begins { state: Arc::clone(self), others }
    }

    /// A place among those who wait in the queue, if there is one left.
    pub(crate) fn wait(self: &Arc<Self>, most: usize) -> Option<Waits> {
        let taken = self.waits.fetch_update(Relaxed, Relaxed, |now| (now < most).then_some(now + 1));
        taken.ok().map(|_| Waits(Arc::clone(self)))
    }

    /// A place among this tenant's readers, if there is one left.
    pub(crate) fn reader(self: &Arc<Self>, most: usize) -> Option<Reader> {
        let taken = self.readers.fetch_update(Relaxed, Relaxed, |now| (now < most).then_some(now + 1));
        taken.ok().map(|_| Reader(Arc::clone(self)))
    }
}

/// One call that waits in the queue.
#[derive(Debug)]
pub(crate) struct Waits(Arc<TenantState>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waits.fetch_sub(1, Relaxed);
    }
}

/// One begin under way.
#[derive(Debug)]
pub(crate) struct Begins {
    state: Arc<TenantState>,
    /// How many there were before it.
    pub(crate) others: usize,
}

impl Drop for Begins {
    fn drop(&mut self) {
        self.state.begins.fetch_sub(1, Relaxed);
    }
}

/// One reader of events.
#[derive(Debug)]
pub(crate) struct Reader(Arc<TenantState>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Relaxed);
    }
}
