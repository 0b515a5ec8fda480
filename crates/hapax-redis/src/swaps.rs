//! Writes that come together travel together: one call of the script for all of them, one after the other.
//!
//! Few calls are under way at once. What comes meanwhile waits for the next, which takes everybody along; nobody waits longer
//! than [`PATIENCE`] for a server that does not answer.

use std::{sync::Arc, time::Duration};

use hapax_core::{Id, Millis, Version};
use hapax_store::StoreError;
use parking_lot::Mutex;
use redis::Value;
use tokio::{sync::oneshot, time::timeout};

use crate::{error::Call, invocation::Invocation, keys::Keys, script::Script, servers::Servers};

const CALL: Call = Call::Write("swap");
/// Calls under way on one connection: more of them are shorter ones, and a server that syncs does so more often for less.
const EACH: usize = 1;
/// In one call: it must stay short, a millisecond or two, since nothing else runs on the server meanwhile; and a server that
/// syncs does so for each.
const MOST: usize = 128;
/// The last may be longer.
const MOST_BYTES: usize = 128 * 1024;
/// So often a call lets others go first: some of those whom the last answers have woken are on their way on another thread.
const GATHERING: usize = 3;
/// After this a call no longer keeps others from setting out.
const PATIENCE: Duration = Duration::from_millis(20);

/// One write, ready to be sent.
pub(crate) struct Wanted {
    bucket: u8,
    record: Vec<u8>,
    head: Vec<u8>,
    expected: Version,
    /// Empty: it is removed.
    tail: Vec<u8>,
}

impl Wanted {
    pub(crate) fn new(keys: &Keys, id: &Id, expected: Version, tail: Vec<u8>) -> Self {
        Self { bucket: id.0[0], record: keys.record(id), head: keys.head(id), expected, tail }
    }
}

type Told = oneshot::Sender<Result<Value, StoreError>>;

#[derive(Debug)]
pub(crate) struct Swaps {
    most_under_way: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<(Wanted, Told)>,
    under_way: usize,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.waiting.len()).field("under_way", &self.under_way).finish()
    }
}

impl Swaps {
    pub(crate) fn new(connections: usize) -> Arc<Self> {
        Arc::new(Self { most_under_way: EACH * connections, queue: Mutex::default() })
    }

    /// Whoever is dropped while waiting may be sent all the same, or not.
    pub(crate) async fn take_part(
        self: &Arc<Self>,
        servers: &Arc<Servers>,
        keys: &Keys,
        memory: Millis,
        wanted: Wanted,
    ) -> Result<Value, StoreError> {
        let (tell, told) = oneshot::channel();
        self.queue.lock().waiting.push((wanted, tell));
        if let Some(turn) = self.turn() {
            tokio::spawn(take_turns(turn, Arc::clone(servers), keys.clone(), memory));
        }
        told.await.unwrap_or_else(|_| {
            let (store, reason) = (servers.name.clone(), "`swap`: its program ends, and nobody waited for the answer");
            Err(StoreError::Unknown { store, reason: reason.into() })
        })
    }

    /// The right to send what waits, if anything does and not enough is under way.
    fn turn(self: &Arc<Self>) -> Option<Turn> {
        let mut queue = self.queue.lock();
        if queue.waiting.is_empty() || queue.under_way >= self.most_under_way {
            return None;
        }
        queue.under_way += 1;
        Some(Turn(Arc::clone(self)))
    }
}

/// One that is under way. A runtime that ends may drop it at any time.
struct Turn(Arc<Swaps>);

impl Turn {
    fn take(&self) -> Vec<(Wanted, Told)> {
        let mut queue = self.0.queue.lock();
        let mut bytes = 0;
        let fits = |(wanted, _): &(Wanted, Told)| {
            let room = bytes < MOST_BYTES;
            bytes += wanted.tail.len();
            room
        };
        let some = queue.waiting.iter().take(MOST).map(fits).take_while(|fits| *fits).count();
        let mut taken: Vec<_> = queue.waiting.drain(..some).collect();
        // Whoever is gone has asked for nothing.
        taken.retain(|(_, tell)| !tell.is_closed());
        taken
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.queue.lock().under_way -= 1;
    }
}

async fn take_turns(turn: Turn, servers: Arc<Servers>, keys: Keys, memory: Millis) {
    let mut turn = Some(turn);
    while let Some(own) = &turn {
        // Whoever the last answers have woken comes along.
        for _ in 0..GATHERING {
            tokio::task::yield_now().await;
        }
        let (wanted, tells): (Vec<Wanted>, Vec<Told>) = own.take().into_iter().unzip();
        if !wanted.is_empty() {
            let sending = send(&servers, &keys, memory, &wanted, None);
            tokio::pin!(sending);
            let answers = match timeout(PATIENCE, &mut sending).await {
                Ok(answers) => answers,
                Err(_) => {
                    // The others do not wait for this one.
                    let swaps = Arc::clone(&own.0);
                    turn = None;
                    if let Some(next) = swaps.turn() {
                        let (servers, keys) = (Arc::clone(&servers), keys.clone());
                        tokio::spawn(boxed(next, servers, keys, memory));
                    }
                    sending.await
                }
            };
            tell_all(tells, answers);
        }
        turn = turn.and_then(|own| {
            let swaps = Arc::clone(&own.0);
            drop(own);
            swaps.turn()
        });
    }
}

/// A future that starts another of its own kind.
fn boxed(
    turn: Turn,
    servers: Arc<Servers>,
    keys: Keys,
    memory: Millis,
) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(take_turns(turn, servers, keys, memory))
}

fn tell_all(tells: Vec<Told>, answers: Result<Vec<Value>, StoreError>) {
    match answers {
        Ok(answers) => {
            for (tell, answer) in tells.into_iter().zip(answers) {
                let _gone = tell.send(Ok(answer));
            }
        }
        Err(error) => {
            for tell in tells {
                let _gone = tell.send(Err(error.clone()));
            }
        }
    }
}

/// All at once, in their order; without a guard only where one server has all buckets.
pub(crate) async fn send(
    servers: &Servers,
    keys: &Keys,
    memory: Millis,
    wanted: &[Wanted],
    guard: Option<&[u8]>,
) -> Result<Vec<Value>, StoreError> {
    let names: Vec<&[u8]> = wanted.iter().flat_map(|one| [one.record.as_slice(), one.head.as_slice()]).collect();
    let swap = Invocation {
        script: Script::Swap,
        keys: &names,
        guard,
        args: &|command| {
            command.arg(keys.channel()).arg(memory.0);
            for one in wanted {
                command.arg(&one.expected.0.to_be_bytes()).arg(&one.tail);
            }
        },
    };
    servers.run(CALL, wanted.first().map_or(0, |one| one.bucket), &swap).await
}
