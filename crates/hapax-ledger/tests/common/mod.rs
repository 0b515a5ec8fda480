#![allow(dead_code, unreachable_pub, unused_imports, reason = "each test uses its own part of it")]

use std::{
    future::Future,
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_ledger::{Clock, Ledger, OpenError, Options, SinceBoot, Stepper};
use hapax_store::{BodyId, Counted, Due, Envelope, Kind, Snapshot, Store, StoreError, Swap};

pub use hapax_ledger::testing::Random;

/// A year is long enough to be noticed.
pub const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
pub const START_MS: u64 = 1_700_000_000_000;

#[derive(Debug)]
pub struct ManualClock {
    pub wall: AtomicU64,
    pub monotonic: AtomicU64,
    /// Which start of the machine this is, where it counts.
    pub boot: Option<u8>,
    pub up: AtomicU64,
}

impl ManualClock {
    pub fn new() -> Arc<Self> {
        Self::at(START_MS)
    }

    pub fn at(wall: u64) -> Arc<Self> {
        Arc::new(Self { wall: wall.into(), monotonic: AtomicU64::new(5_000), boot: None, up: AtomicU64::new(0) })
    }

    /// On a machine that has been up for so long.
    pub fn booted(wall: u64, boot: u8, up: u64) -> Arc<Self> {
        let monotonic = AtomicU64::new(u64::from(boot) * 777);
        Arc::new(Self { wall: wall.into(), monotonic, boot: Some(boot), up: up.into() })
    }

    pub fn advance(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
        self.monotonic.fetch_add(ms, Ordering::SeqCst);
        self.up.fetch_add(ms, Ordering::SeqCst);
    }

    pub fn set_wall(&self, ms: u64) {
        self.wall.store(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> u64 {
        self.wall.load(Ordering::SeqCst)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic.load(Ordering::SeqCst)
    }

    fn since_boot(&self) -> Option<SinceBoot> {
        self.boot.map(|boot| SinceBoot { boot: [boot; 16], ms: self.up.load(Ordering::SeqCst) })
    }
}

pub fn id(number: u64) -> Id {
    let mut bytes = [7; 32];
    bytes[12..20].copy_from_slice(&number.to_le_bytes());
    Id(bytes)
}

pub fn tag(number: u8) -> Tag {
    Tag([number; 16])
}

pub fn envelope(payload: impl Into<Vec<u8>>) -> Envelope {
    Envelope {
        kind: Kind::OPERATION,
        surface: tag(1),
        tenant: tag(2),
        counted: Counted::Record,
        lease_end: None,
        expiry: None,
        gone: None,
        in_doubt: false,
        entries: Vec::new(),
        beside: 0,
        payload: Bytes::from(payload.into()),
    }
}

pub fn live(payload: impl Into<Vec<u8>>) -> Envelope {
    Envelope { lease_end: Some(Due::After(Millis(60_000))), ..envelope(payload) }
}

/// A body of a name of its own; its bytes can be told from the name.
pub fn random_body(random: &mut Random) -> BodyId {
    let mut bytes = [0; 32];
    bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next().to_le_bytes()));
    BodyId(bytes)
}

pub fn body_bytes(body: BodyId) -> Bytes {
    Bytes::from(body.0.repeat(1 + usize::from(body.0[0] % 40)))
}

/// The payload of a record that names a body.
pub fn naming(body: BodyId) -> Vec<u8> {
    [b"body ", body.0.as_slice()].concat()
}

pub fn named(record: &Envelope) -> Option<BodyId> {
    record.payload.strip_prefix(b"body ")?.try_into().ok().map(BodyId)
}

/// Whoever finds a record finds the body that it names, whole.
pub fn has_its_body(ledger: &Ledger, record: Option<&Envelope>, what: &str) {
    if let Some(body) = record.and_then(named) {
        let found = now(ledger.get_body(body)).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found, Some(body_bytes(body)), "{what}: a record names a body that is not there");
    }
}

/// Polls once.
pub fn poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// For what may have to wait, but for nobody on this thread.
pub fn waited<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// For what never has to wait.
pub fn now<F: Future>(future: F) -> F::Output {
    poll(pin!(future)).expect("ready at once")
}

/// A ledger without threads.
pub struct Stepped {
    pub ledger: Ledger,
    pub stepper: Stepper,
    /// The last version of each frame.
    pub frames: Vec<u64>,
}

pub fn small(path: &str) -> Options {
    Options::new(path).segment_bytes(4096, 16 * 1024).removal_memory(Millis::from_days(30))
}

impl Stepped {
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let (ledger, stepper) = Ledger::open_stepped(options)?;
        Ok(Self { ledger, stepper, frames: Vec::new() })
    }

    pub fn get(&self, id: Id) -> Result<Snapshot, StoreError> {
        now(self.ledger.get(&id))
    }

    pub fn swap(&mut self, id: Id, expected: Version, next: Option<Envelope>) -> Result<Swap, StoreError> {
        let mut all = self.swap_all(vec![(id, expected, next)]);
        all.pop().unwrap()
    }

    /// All in one batch, if they fit.
    pub fn swap_all(&mut self, all: Vec<(Id, Version, Option<Envelope>)>) -> Vec<Result<Swap, StoreError>> {
        let ledger = &self.ledger;
        let mut futures: Vec<_> =
            all.iter().map(|(id, expected, next)| ledger.swap(id, *expected, next.clone())).collect();
        let mut answers: Vec<_> = futures.iter_mut().map(|future| poll(future.as_mut())).collect();
        for _ in 0..64 {
            if answers.iter().all(Option::is_some) {
                break;
            }
            self.stepper.write();
            for (answer, future) in answers.iter_mut().zip(&mut futures) {
                if answer.is_none() {
                    *answer = poll(future.as_mut());
                }
            }
            let versions = answers.iter().filter_map(|answer| match answer {
                Some(Ok(Swap::Swapped { version, .. })) => Some(version.0),
                _ => None,
            });
            self.frames.extend(versions.max());
        }
        answers.into_iter().map(|answer| answer.expect("answered")).collect()
    }

    /// Writes whatever is there.
    pub fn put(&mut self, id: Id, next: Option<Envelope>) -> Version {
        let expected = self.get(id).unwrap().version;
        match self.swap(id, expected, next) {
            Ok(Swap::Swapped { version, .. }) => version,
            other => panic!("{other:?}"),
        }
    }

    /// Lets the keeper and the writer finish what there is to do.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let kept = self.stepper.keep();
            self.stepper.write();
            if !kept {
                return;
            }
        }
        panic!("cleaning never ends");
    }
}

/// A directory that is removed in the end.
pub struct TempDir(pub PathBuf);

impl TempDir {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("hapax-ledger-{name}-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
