//! A process that is stopped between any two calls to its disk, or in the middle of a write, as `kill -9` does: the page
//! cache keeps what was written so far. The ledger runs with its own threads on a disk that is slow now and then, so that
//! the writer has to go on before the keeper has made a segment ready. Thousands of kills instead of twenty.

#![allow(clippy::disallowed_methods, reason = "real threads take real time")]

use std::{
    collections::BTreeMap,
    future::Future as _,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::common::*;
use hapax_core::{Millis, Version};
use hapax_ledger::{
    Ledger, Options, check_on,
    disk::{Disk, File, Held, Image, Mode, RecordingDisk},
};
use hapax_store::{BodyId, Due, Envelope, Store, Swap};
use parking_lot::Mutex;

const DIR: &str = "/l";
const TASKS: u64 = 12;
/// More with `HAPAX_KILLS`.
const KILLS: u64 = 1_500;
const LIVES: u64 = 25;

/// Counts calls; at the fatal one it remembers what the page cache holds. What comes after is no longer of this world.
#[derive(Debug)]
struct Mortal {
    disk: RecordingDisk,
    calls: AtomicU64,
    fatal: u64,
    dead: AtomicBool,
    left: Mutex<Option<Image>>,
    random: Mutex<Random>,
    /// One call in so many is slow.
    slow: u64,
}

impl Mortal {
    fn step(&self) {
        let pause = {
            let mut random = self.random.lock();
            (random.below(self.slow) == 0).then(|| random.below(400))
        };
        if let Some(pause) = pause {
            std::thread::sleep(Duration::from_micros(pause));
        }
        if self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.fatal {
            self.die();
        }
    }

    fn die(&self) {
        // In this order: whoever was answered while it lived is in what it left.
        self.dead.store(true, Ordering::SeqCst);
        let mut left = self.left.lock();
        if left.is_none() {
            *left = Some(self.disk.image());
        }
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Debug)]
struct MortalDisk(Arc<Mortal>);

#[derive(Debug)]
struct MortalFile {
    inner: Arc<dyn File>,
    mortal: Arc<Mortal>,
}

impl Disk for MortalDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.disk.create_dir(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.disk.list(dir)
    }
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        self.0.step();
        Ok(Arc::new(MortalFile { inner: self.0.disk.open(path, mode)?, mortal: self.0.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.step();
        self.0.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.step();
        self.0.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.step();
        self.0.disk.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Held>> {
        self.0.disk.lock(path)
    }
}

impl File for MortalFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    /// Page by page: a kill leaves the first part.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        for (part, bytes) in bytes.chunks(512).enumerate() {
            self.mortal.step();
            self.inner.write_at(bytes, offset + part as u64 * 512)?;
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.mortal.step();
        self.inner.sync()
    }
    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

fn options(disk: Arc<dyn Disk>) -> Options {
    Options::new(DIR).segment_bytes(4096, 16 * 1024).removal_memory(Millis(5)).disk(disk)
}

/// Every fifth one has a body.
fn body_of(number: u64) -> Option<BodyId> {
    number.is_multiple_of(5).then(|| random_body(&mut Random::new(number)))
}

fn payload(number: u64, done: bool) -> Vec<u8> {
    if let Some(body) = body_of(number).filter(|_| done) {
        return naming(body);
    }
    vec![(number as u8) ^ if done { 0x55 } else { 0 }; 10 + (number % 200) as usize]
}

type Acknowledged = BTreeMap<u64, (bool, Version)>;

/// One life: from an image to the next.
fn live_once(image: Image, from: &AtomicU64, random: &mut Random, known: &mut Acknowledged) -> Image {
    let disk = RecordingDisk::unrecorded(image);
    let mortal = Arc::new(Mortal {
        disk,
        calls: AtomicU64::new(0),
        fatal: 1 + random.below(600),
        dead: AtomicBool::new(false),
        left: Mutex::default(),
        random: Mutex::new(Random::new(random.next())),
        slow: [4, 20, 100][random.below(3) as usize],
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    // A start may be cut short as well.
    let ledger = Arc::new(Ledger::open_with(options(Arc::new(MortalDisk(mortal.clone())))).unwrap());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (ledger, mortal, heard) = (ledger.clone(), mortal.clone(), heard.clone());
                let first = from.fetch_add(1_000, Ordering::SeqCst);
                async move {
                    for number in first.. {
                        let id = id(number);
                        let mut version = Version::NEVER;
                        for done in [false, true] {
                            if let Some(body) = body_of(number).filter(|_| done) {
                                ledger.put_body(&id, body, body_bytes(body)).await.unwrap();
                            }
                            let gone = (done && number.is_multiple_of(2)).then_some(Due::After(Millis(1)));
                            let record =
                                if done { envelope(payload(number, true)) } else { live(payload(number, false)) };
                            let answer = ledger.swap(&id, version, Some(Envelope { gone, ..record })).await.unwrap();
                            let Swap::Swapped { version: given, .. } = answer else { panic!("{answer:?}") };
                            version = given;
                            if mortal.is_dead() {
                                return;
                            }
                            heard.lock().push((number, done, version));
                        }
                    }
                }
            })
            .collect();
        let mut tasks: Vec<_> = tasks.into_iter().map(Box::pin).collect();
        std::future::poll_fn(|context| {
            tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
            if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    });
    for (number, done, version) in heard.lock().drain(..) {
        known.insert(number, (done, version));
    }
    drop(ledger);
    mortal.die();
    mortal.left.lock().take().unwrap()
}

fn verify(image: &Image, known: &Acknowledged, what: &str) {
    let report = check_on(&RecordingDisk::unrecorded(image.clone()), Path::new(DIR));
    if let Ok(report) = &report {
        assert!(report.is_whole(), "{what}: {report:?}");
        assert_eq!(report.passed_over, 0, "{what}: a segment was passed over: {report:?}");
    }
    let ledger = Stepped::open(options(Arc::new(RecordingDisk::unrecorded(image.clone()))))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    for (&number, &(done, version)) in known {
        let snapshot = ledger.get(id(number)).unwrap();
        has_its_body(&ledger.ledger, snapshot.record.as_ref(), &format!("{what}: {number}"));
        let short = number.is_multiple_of(2);
        if snapshot.version == version && !(done && short) {
            let record = snapshot.record.unwrap_or_else(|| panic!("{what}: {number} is lost"));
            assert_eq!(record.payload, payload(number, done), "{what}: {number}");
        } else if snapshot.version != version {
            let later = !done && snapshot.version > version;
            assert!(later || short, "{what}: {number} was at {version}, now {snapshot:?}");
        }
    }
}

#[test]
fn a_kill_between_any_two_calls_leaves_what_a_start_accepts_and_a_check_calls_whole() {
    let mut random = Random::from_env("stopped anywhere");
    let kills = std::env::var("HAPAX_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let seeds: Vec<u64> = (0..kills.div_ceil(LIVES)).map(|_| random.next()).collect();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst) as usize) {
                    let mut random = Random::new(seed);
                    let mut known = Acknowledged::new();
                    let mut image = Image::default();
                    let from = AtomicU64::new(1);
                    for life in 0..LIVES {
                        image = live_once(image, &from, &mut random, &mut known);
                        verify(&image, &known, &format!("seed {seed}, life {life}"));
                    }
                }
            });
        }
    });
}
