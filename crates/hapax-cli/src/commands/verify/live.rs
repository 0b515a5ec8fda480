//! The whole engine on the store, for a moment: one key, many callers, and how long things take.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use hapax::{Effect, Hapax, Id, Store, Version};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) problem: Option<String>,
    /// Medians, in microseconds.
    pub(super) read_us: u64,
    pub(super) write_us: u64,
    /// From the write of one connection to the wake-up of another.
    pub(super) wake_us: u64,
}

const ROUNDS: usize = 51;
const CALLERS: u32 = 16;
const KEYS: u32 = 8;

pub(super) async fn run(store: Arc<dyn Store>) -> Live {
    let mut live = Live::default();
    let tried = async {
        once(&store).await?;
        times(&store, &mut live).await.map_err(|error| error.to_string())
    };
    live.problem = tried.await.err();
    live
}

/// Two engines, as two processes would be, and callers on both with one key.
async fn once(store: &Arc<dyn Store>) -> Result<(), String> {
    let engine = || Hapax::on(Arc::clone(store)).build().map(Hapax::from).map_err(|error| error.to_string());
    let engines = [engine()?, engine()?];
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

#[allow(clippy::disallowed_methods, reason = "what is asked for is real time")]
async fn times(store: &Arc<dyn Store>, live: &mut Live) -> Result<(), hapax::StoreError> {
    let (mut reads, mut writes, mut wakes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let id = Id::derived("hapax.verify", &[&round.to_be_bytes()]);
        let since = Instant::now();
        store.get(&id).await?;
        reads.push(since.elapsed());
        let mut watch = store.watch(&id).await?;
        let since = Instant::now();
        // A removal of what is not there is a write as any other.
        let _moved = store.swap(&id, Version::NEVER, None).await?;
        writes.push(since.elapsed());
        watch.changed().await;
        wakes.push(since.elapsed());
    }
    (live.read_us, live.write_us, live.wake_us) = (median(reads), median(writes), median(wakes));
    Ok(())
}

fn median(mut all: Vec<Duration>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).map_or(0, |middle| u64::try_from(middle.as_micros()).unwrap_or(u64::MAX))
}
