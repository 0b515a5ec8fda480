//! The whole engine on the store, for a moment: one key, many callers, and how long things take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use hapax::{Apart, Effect, Hapax, Id, Store, Version};
use tokio::time::timeout;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) problem: Option<String>,
    /// Medians, in microseconds.
    pub(super) read_us: u64,
    pub(super) write_us: u64,
    /// From the write of one process to the wake-up of another.
    pub(super) wake_us: u64,
    /// `None`: it did not come so far.
    pub(super) woken: Option<Woken>,
}

/// What wakes whoever waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Woken {
    /// The write itself, whoever made it.
    ByStore,
    /// The clock: no word of the write comes through, so whoever waits reads again and again.
    NowAndThen,
    /// The write, and nobody else can make one: the store is that of one process.
    InProcess,
}

impl Woken {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ByStore => "by_store",
            Self::NowAndThen => "now_and_then",
            Self::InProcess => "in_process",
        }
    }
}

const ROUNDS: u32 = 51;
const CALLERS: u32 = 16;
const KEYS: u32 = 8;

/// So often a store has its waiters look for themselves while it cannot be told of writes.
const LOOKS_MS: u64 = 250;
/// A wake-up that comes so soon after the write was not waiting for the next look.
const PROMPT_US: u64 = LOOKS_MS * 1_000 / 5;
/// Where a watch or a write takes long, fewer rounds are enough.
const LONG_ENOUGH: Duration = Duration::from_secs(20);
/// A wake-up that did not come by now was slept through.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(apart: &Apart, room: u32, here: Arc<dyn Store>) -> Live {
    let mut live = Live::default();
    let tried = async {
        let there = another(apart, room, &here).await?;
        once([&here, &there]).await?;
        times(&*here, &*there, &mut live).await
    };
    live.problem = tried.await.err();
    live
}

/// The same place, as another process has it. A store wakes its own waiters without asking its server, so one store alone would
/// show nothing.
async fn another(apart: &Apart, room: u32, here: &Arc<dyn Store>) -> Result<Arc<dyn Store>, String> {
    if here.single_writer() {
        return Ok(Arc::clone(here));
    }
    apart.open_again(room).await.map_err(|error| format!("it could not be opened a second time: {error}"))
}

/// Two engines, as two processes would be, and callers on both with one key.
async fn once(stores: [&Arc<dyn Store>; 2]) -> Result<(), String> {
    let engine = |store| Hapax::on(Arc::clone(store)).build().map(Hapax::from).map_err(|error| error.to_string());
    let engines = [engine(stores[0])?, engine(stores[1])?];
    for key in 0..KEYS {
        let ran = Arc::new(AtomicU32::new(0));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let (engine, ran) = (engines[caller as usize % 2].clone(), Arc::clone(&ran));
            callers.spawn(async move {
                let call = engine.surface("verify").tenant("verify").key(format!("key-{key}"));
                // A class that every store may run.
                let call = call.fingerprint(&key).effect(Effect::Idempotent);
                call.once(move |_| async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok::<_, std::io::Error>(ran.fetch_add(1, SeqCst))
                })
                .await
                .map(|done| done.value)
                .map_err(|error| error.to_string())
            });
        }
        while let Some(ended) = callers.join_next().await {
            match ended.map_err(|error| error.to_string())?? {
                0 => {}
                other => return Err(format!("a caller was given the answer of run {other}")),
            }
        }
        let ran = ran.load(SeqCst);
        if ran != 1 {
            return Err(format!("{CALLERS} callers with one key ran {ran} times"));
        }
    }
    Ok(())
}

/// Writes here while somebody waits there.
#[allow(clippy::disallowed_methods, reason = "what is asked for is real time")]
async fn times(here: &dyn Store, there: &dyn Store, live: &mut Live) -> Result<(), String> {
    let (mut reads, mut writes, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
    let begun = Instant::now();
    for round in 0..ROUNDS {
        let id = Id::derived("hapax.verify", &[&round.to_be_bytes()]);
        let since = Instant::now();
        here.get(&id).await.map_err(|error| error.to_string())?;
        reads.push(since.elapsed());
        let mut watch = there.watch(&id).await.map_err(|error| error.to_string())?;
        // Each write at another point between two looks: right before one of them, a look passes for a wake-up.
        tokio::time::sleep(Duration::from_millis(u64::from(round) * 97 % LOOKS_MS)).await;
        // And what woke before the write does not count.
        while timeout(Duration::ZERO, watch.changed()).await.is_ok() {}
        let since = Instant::now();
        // A removal of what is not there is a write as any other.
        let _moved = here.swap(&id, Version::NEVER, None).await.map_err(|error| error.to_string())?;
        writes.push(since.elapsed());
        timeout(PATIENCE, watch.changed())
            .await
            .map_err(|_| format!("whoever waited in another process was not woken within {} s", PATIENCE.as_secs()))?;
        wakes.push(since.elapsed());
        if begun.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    (live.read_us, live.write_us, live.wake_us) = (median(reads), median(writes), median(wakes));
    live.woken = Some(if here.single_writer() {
        Woken::InProcess
    } else if live.wake_us.saturating_sub(live.write_us) < PROMPT_US {
        Woken::ByStore
    } else {
        Woken::NowAndThen
    });
    Ok(())
}

fn median(mut all: Vec<Duration>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).map_or(0, |middle| u64::try_from(middle.as_micros()).unwrap_or(u64::MAX))
}
