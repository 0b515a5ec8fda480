//! Schedules of group commit: handing in, batching, writing, syncing, answering, cleaning, failing and closing against
//! each other, one step at a time. After every step nobody may know of what is not durable; in the end everybody has been
//! answered.

#![allow(clippy::disallowed_methods, reason = "threads of a scheduler")]

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::common::*;
use crate::schedule_support::*;
use hapax_core::{Id, Millis, Version};
use hapax_ledger::{
    Ledger,
    disk::{Image, RecordingDisk, Survivors},
};
use hapax_store::{Changes, Due, Envelope, Store, StoreError, Swap};
use parking_lot::Mutex;

/// More with `HAPAX_SCHEDULES`.
const SCHEDULES: u64 = 20_000;
const IDS: u64 = 3;

/// What everybody has been told so far.
#[derive(Debug, Default)]
struct Told {
    /// By id and the version that was expected.
    won: BTreeSet<(Id, Version)>,
    /// The newest version that anybody has seen.
    seen: BTreeMap<Id, Version>,
    /// Acknowledged, by version.
    acknowledged: BTreeMap<u64, (Id, Vec<u8>)>,
    unknown: u64,
    broken: Vec<String>,
    answers: Answers,
}

#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    swapped: u64,
    conflicts: u64,
    unknown: u64,
    unavailable: u64,
    full: u64,
    cancelled: u64,
    carried: u64,
    troubled: u64,
}

impl Told {
    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    fn saw(&mut self, id: Id, version: Version, floor: Version, durable: u64, how: &str) {
        self.must(version.0 <= durable, || format!("{how} tells of {version}, durable is {durable}"));
        self.must(version >= floor, || format!("{how} tells of {version}, {floor} was seen before"));
        let seen = self.seen.entry(id).or_default();
        *seen = (*seen).max(version);
    }

    fn floor(&self, id: Id) -> Version {
        self.seen.get(&id).copied().unwrap_or_default()
    }
}

struct World {
    ledger: Ledger,
    plan: Arc<Plan>,
    told: Mutex<Told>,
    closed: AtomicBool,
}

impl World {
    fn durable(&self) -> u64 {
        self.plan.durable.load(Ordering::SeqCst)
    }
}

/// One caller: a few reads and writes of a few ids.
async fn caller(world: Arc<World>, mut random: Random, number: u8) {
    for round in 0..=random.below(7) {
        let id = id(random.below(IDS));
        let floor = world.told.lock().floor(id);
        let expected = match world.ledger.get(&id).await {
            Ok(snapshot) => {
                world.told.lock().saw(id, snapshot.version, floor, world.durable(), "get");
                snapshot.version
            }
            Err(StoreError::Unavailable { .. }) => return,
            Err(other) => panic!("{other}"),
        };
        let payload = vec![number, round as u8, random.below(250) as u8];
        let life = [Some(Due::After(Millis(1))), None][random.below(2) as usize];
        let mut bytes = [payload.clone(), vec![0; random.below(900) as usize]].concat();
        if random.below(5) == 0 {
            let body = random_body(&mut random);
            match world.ledger.put_body(&id, body, body_bytes(body)).await {
                Ok(()) => bytes = naming(body),
                Err(StoreError::Unavailable { .. }) => return,
                Err(other) => panic!("{other}"),
            }
        }
        let record = Envelope { gone: life, ..envelope(bytes.clone()) };
        // Now and then a guess, which can only be a conflict.
        let expected = if random.below(8) == 0 { Version(expected.0 + 1_000) } else { expected };
        let answer = world.ledger.swap(&id, expected, Some(record)).await;
        hear(&world, id, expected, floor, bytes, answer);
        if random.below(3) == 0
            && let Ok(Changes::Page { items, .. }) = world.ledger.changes(None, 50).await
        {
            let durable = world.durable();
            for change in items {
                world.told.lock().saw(change.id, change.snapshot.version, Version::NEVER, durable, "the feed");
            }
        }
    }
}

/// Writes down what a caller was told of its swap.
fn hear(world: &World, id: Id, expected: Version, floor: Version, bytes: Vec<u8>, answer: Result<Swap, StoreError>) {
    let durable = world.durable();
    let poisoned = world.ledger.status().poisoned.is_some();
    let mut told = world.told.lock();
    match answer {
        Ok(Swap::Swapped { version, .. }) => {
            told.saw(id, version, floor, durable, "an acknowledgement");
            let first = told.won.insert((id, expected));
            told.must(first, || format!("two swaps of {id} from {expected} were both done"));
            told.acknowledged.insert(version.0, (id, bytes));
            told.answers.swapped += 1;
        }
        Ok(Swap::Conflict(snapshot)) => {
            told.saw(id, snapshot.version, floor, durable, "a conflict");
            told.must(snapshot.version != expected, || format!("a conflict with what was expected, {expected}"));
            told.answers.conflicts += 1;
        }
        Err(StoreError::Unknown { .. }) => {
            told.must(poisoned, || "unknown, and nothing has failed".into());
            told.unknown += 1;
            told.answers.unknown += 1;
        }
        Err(StoreError::Unavailable { .. }) => {
            let closed = world.closed.load(Ordering::SeqCst);
            told.must(poisoned || closed, || "unavailable, and nothing has failed".into());
            told.answers.unavailable += 1;
        }
        Err(StoreError::Full { .. }) => told.answers.full += 1,
        Err(other) => panic!("{other}"),
    }
}

/// Somebody who reads the feed from its beginning, page by page: the newest version told of each id.
fn reader(world: Arc<World>, limit: usize, over: Arc<AtomicBool>) -> (Actor, Arc<Mutex<BTreeMap<Id, Version>>>) {
    let heard = Arc::new(Mutex::new(BTreeMap::new()));
    let hears = heard.clone();
    let reads = move || {
        let mut cursor = None;
        loop {
            let is_last = over.load(Ordering::SeqCst);
            match now(world.ledger.changes(cursor.as_ref(), limit)) {
                Ok(Changes::Page { items, .. }) if items.is_empty() && is_last => return,
                Ok(Changes::Page { items, next }) => {
                    cursor = Some(next);
                    hears.lock().extend(items.iter().map(|change| (change.id, change.snapshot.version)));
                }
                // It was too slow, and begins again.
                Ok(Changes::Gap { .. }) => {
                    cursor = None;
                    hears.lock().clear();
                }
                Err(_) => return,
            }
            point();
        }
    };
    (Actor::start(reads), heard)
}

struct Caller {
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    woken: Arc<Woken>,
}

fn run(seed: u64) -> Result<Answers, String> {
    let mut random = Random::new(seed);
    let plan = Arc::new(Plan::default());
    if random.below(3) == 0 {
        let kinds = [Trouble::Full, Trouble::Write, Trouble::Sync, Trouble::SyncedAllTheSame];
        *plan.trouble.lock() = Some((2 + random.below(9), kinds[random.below(4) as usize]));
    }
    let troubled = plan.trouble.lock().is_some();
    let disk = PointedDisk { inner: RecordingDisk::default(), plan: plan.clone() };
    let clock = ManualClock::new();
    let queue = if random.below(4) == 0 { 1 + random.below(3) as usize } else { 1_000 };
    let options = small("/l").disk(Arc::new(disk.clone())).clock(clock.clone()).removal_memory(Millis::from_mins(60));
    let (ledger, stepper) = Ledger::open_stepped(options.clone().most_queued(queue)).unwrap();
    let (mut writer_steps, mut keeper_steps) = stepper.split();
    let world = Arc::new(World { ledger, plan, told: Mutex::default(), closed: AtomicBool::new(false) });
    let mut writer = Actor::start(move || {
        while writer_steps.write() {
            point();
        }
        writer_steps.end();
    });
    let over = Arc::new(AtomicBool::new(false));
    let keeper_over = over.clone();
    let mut keeper = Actor::start(move || {
        while !keeper_over.load(Ordering::SeqCst) {
            keeper_steps.keep();
            point();
        }
    });
    let read_all = Arc::new(AtomicBool::new(false));
    let (mut reader, heard) = reader(world.clone(), 1 + random.below(3) as usize, read_all.clone());
    let mut callers: Vec<Caller> = (0..2 + random.below(5) as u8)
        .map(|number| Caller {
            future: Some(Box::pin(caller(world.clone(), Random::new(random.next()), number))),
            woken: Arc::new(Woken(AtomicBool::new(true))),
        })
        .collect();
    // Who is likely to go on differs from schedule to schedule: a slow writer, a busy keeper, an early end.
    let (writes, keeps, calls) = (1 + random.below(12), random.below(6), 1 + random.below(12));
    let reads = random.below(12);
    let ends_early = random.below(4) == 0;
    let mut steps = 0;
    while callers.iter().any(|caller| caller.future.is_some()) {
        steps += 1;
        if steps > 20_000 {
            return Err("somebody is never answered".into());
        }
        let awake: Vec<usize> = (0..callers.len())
            .filter(|at| callers[*at].future.is_some() && callers[*at].woken.0.load(Ordering::SeqCst))
            .collect();
        if awake.is_empty() && writer.over {
            let asleep = callers.iter().filter(|caller| caller.future.is_some()).count();
            return Err(format!("the writer has ended, and nobody has woken {asleep} callers"));
        }
        match random.below(writes + keeps + calls + reads + 1) {
            choice if choice < writes => writer.step(),
            choice if choice < writes + keeps => keeper.step(),
            choice if choice < writes + keeps + calls => {
                let Some(&at) = awake.get(random.below(awake.len() as u64) as usize) else { continue };
                let Caller { future, woken } = &mut callers[at];
                woken.0.store(false, Ordering::SeqCst);
                // Where the queue is full, callers are woken under its lock: no point there.
                let waker =
                    if queue > 100 { Waker::from(woken.clone()) } else { Waker::from(Arc::new(Plain(woken.clone()))) };
                let ready = future.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
                if ready {
                    *future = None;
                } else if random.below(60) == 0 {
                    // It has given up; what it handed in goes on without it.
                    *future = None;
                    world.told.lock().answers.cancelled += 1;
                }
            }
            choice if choice < writes + keeps + calls + reads => reader.step(),
            _ => {
                clock.advance(random.below(5));
                if ends_early && steps > 30 && random.below(20) == 0 {
                    world.closed.store(true, Ordering::SeqCst);
                    world.ledger.close();
                }
            }
        }
        if !world.told.lock().broken.is_empty() {
            break;
        }
    }
    // What is there by now, whoever reads on must have heard of.
    let there: Vec<(Id, Version)> = (0..IDS)
        .filter_map(|number| Some((id(number), now(world.ledger.get(&id(number))).ok()?)))
        .filter_map(|(id, snapshot)| snapshot.record.map(|_| (id, snapshot.version)))
        .collect();
    read_all.store(true, Ordering::SeqCst);
    reader.finish();
    if world.ledger.status().poisoned.is_none() && !world.closed.load(Ordering::SeqCst) {
        for (id, version) in there {
            let heard = heard.lock().get(&id).copied().unwrap_or_default();
            world
                .told
                .lock()
                .must(heard >= version, || format!("the feed told {heard} of {id}, which is at {version}"));
        }
    }
    world.closed.store(true, Ordering::SeqCst);
    world.ledger.close();
    drop(callers);
    writer.finish();
    over.store(true, Ordering::SeqCst);
    keeper.finish();
    let mut told = world.told.lock();
    told.answers.carried = world.ledger.status().carried;
    told.answers.troubled = u64::from(troubled);
    if let Some(first) = told.broken.first() {
        return Err(first.clone());
    }
    // The power goes: only what was synced is left.
    let mut survivors = Survivors::new(Image::default());
    disk.inner.trace().iter().for_each(|op| survivors.advance(op));
    let image = survivors.image(&mut |end| u64::from(end == 8));
    let again =
        Stepped::open(options.disk(Arc::new(RecordingDisk::unrecorded(image)))).map_err(|error| error.to_string())?;
    let mut newest: BTreeMap<Id, (u64, &Vec<u8>)> = BTreeMap::new();
    for (version, (id, bytes)) in &told.acknowledged {
        newest.insert(*id, (*version, bytes));
    }
    for (id, (version, bytes)) in newest {
        let snapshot = again.get(id).unwrap();
        let found = snapshot.version.0;
        if let Some(body) = snapshot.record.as_ref().and_then(named) {
            let whole = now(again.ledger.get_body(body)).is_ok_and(|bytes| bytes == Some(body_bytes(body)));
            if !whole {
                return Err(format!("{id} at {found} names a body that is not there"));
            }
        }
        if found < version && !(found == 0 && snapshot.record.is_none()) {
            return Err(format!("{id} was acknowledged at {version}, and is at {found}"));
        }
        if found == version && snapshot.record.as_ref().is_some_and(|record| record.payload != *bytes) {
            return Err(format!("{id} at {version} holds something else"));
        }
    }
    Ok(told.answers)
}

/// Only wakes.
struct Plain(Arc<Woken>);

impl std::task::Wake for Plain {
    fn wake(self: Arc<Self>) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn in_every_schedule_nobody_knows_what_is_not_durable_and_everybody_is_answered() {
    let mut random = Random::from_env("schedules");
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = given("HAPAX_SCHEDULES").unwrap_or(SCHEDULES);
    let first = given("HAPAX_SCHEDULE").unwrap_or_else(|| random.next() >> 8);
    let count = if given("HAPAX_SCHEDULE").is_some() { 1 } else { count };
    let next = AtomicU64::new(0);
    let (broken, all) = (Mutex::new(Vec::new()), Mutex::new(Answers::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    if at >= count || broken.lock().len() > 9 {
                        return;
                    }
                    match run(first + at) {
                        Ok(one) => add(&mut all.lock(), one),
                        Err(story) => broken.lock().push(format!("{story}\n  HAPAX_SCHEDULE={}", first + at)),
                    }
                }
            });
        }
    });
    let (broken, all) = (broken.into_inner(), all.into_inner());
    println!("{count} schedules: {all:?}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let Answers { swapped, conflicts, unknown, unavailable, full, cancelled, carried, troubled } = all;
    let least = [swapped, conflicts, unknown, unavailable, full, cancelled, carried, troubled].into_iter().min();
    assert!(count < 1_000 || least > Some(0), "the schedules have lost what they were made for: {all:?}");
}

fn add(all: &mut Answers, one: Answers) {
    all.swapped += one.swapped;
    all.conflicts += one.conflicts;
    all.unknown += one.unknown;
    all.unavailable += one.unavailable;
    all.full += one.full;
    all.cancelled += one.cancelled;
    all.carried += one.carried;
    all.troubled += one.troubled;
}
