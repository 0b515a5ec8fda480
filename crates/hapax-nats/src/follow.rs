//! The one ordered consumer of this process: it is sent the headers of every message, keeps the index and wakes whoever
//! waits.
//!
//! The server numbers what it sends; if a number is missing, or nothing comes for too long, the consumer is made anew from
//! where the index stands. While there is none, everybody is woken now and then to read for themselves.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use async_nats::{Client, Message, StatusCode, Subscriber, connection::State};
use bytes::Bytes;
use futures_core::Stream;
use hapax_core::{Id, Stamp};
use hapax_store::{StoreError, Waiters, Watch};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout, timeout_at},
};

use crate::{
    api::{ConsumerConfig, ConsumerInfo, CreateConsumer, Nothing},
    error::{Call, Failed},
    forget,
    head::{self, Head},
    index::Index,
    shared::Shared,
};

/// While there is no consumer.
const WITHOUT: Duration = Duration::from_millis(250);
/// For the first one; without it one waits all the same, and is woken now and then.
const FIRST: Duration = Duration::from_secs(2);
const HEARTBEAT: Duration = Duration::from_secs(2);
const SILENCE: Duration = Duration::from_secs(6);
/// A consumer that nobody listens to is dropped by the server after this.
const INACTIVE: Duration = Duration::from_secs(60);
/// Marks of removals are looked at so often at least.
const MOST_BETWEEN: Duration = Duration::from_secs(30);
/// How long to wait for an index before looking closer.
const LOOK_CLOSER: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Following {
    task: Option<JoinHandle<()>>,
    /// When it began to.
    begun: Instant,
    /// Whether the index follows the bucket now.
    up: watch::Sender<bool>,
    consumer: String,
    /// The number of the last message that came.
    delivered: Arc<AtomicU64>,
}

impl Default for Following {
    fn default() -> Self {
        let up = watch::Sender::new(false);
        Self { task: None, begun: Instant::now(), up, consumer: String::new(), delivered: Arc::default() }
    }
}

impl Shared {
    /// Starts to follow at the first call: before that there may be no runtime to do it on.
    fn follow(self: &Arc<Self>) -> (watch::Receiver<bool>, Instant) {
        let mut following = self.following.lock();
        if following.task.as_ref().is_none_or(JoinHandle::is_finished) {
            following.task = Some(tokio::spawn(follow(Arc::clone(self))));
            following.begun = Instant::now();
        }
        (following.up.subscribe(), following.begun)
    }

    /// Whether it follows the bucket now, and is at its end.
    pub(crate) fn follows(&self) -> bool {
        *self.following.lock().up.borrow()
    }

    pub(crate) fn stop_following(&self) {
        let mut following = self.following.lock();
        if let Some(task) = following.task.take() {
            task.abort();
        }
        following.up.send_replace(false);
    }

    pub(crate) async fn watch_it(self: &Arc<Self>, id: Id) -> Box<dyn Watch> {
        let waiter = self.waiters.join(id);
        let (mut up, begun) = self.follow();
        // Only at its start: one that is lost later may be away for long, and those who wait are woken now and then.
        let _without_it = timeout_at(begun + FIRST, up.wait_for(|up| *up)).await.is_ok();
        Box::new(waiter)
    }

    /// Until the index has come as far as the bucket is now.
    pub(crate) async fn caught_up(self: &Arc<Self>, call: Call) -> Result<(), StoreError> {
        let (up, _) = self.follow();
        let target = self.last_sequence().await.map_err(|failed| self.failed(call, failed))?;
        let mut seen = self.seen.subscribe();
        let reached = timeout(self.link.answer_timeout, async {
            while timeout(LOOK_CLOSER, seen.wait_for(|seen| *seen >= target)).await.is_err() {
                // Whoever deletes messages behind our back may have deleted the last.
                let follows = *up.borrow();
                if follows && self.nothing_left().await? {
                    break;
                }
            }
            Ok::<(), Failed>(())
        });
        match reached.await {
            Ok(reached) => reached.map_err(|failed| self.failed(call, failed)),
            Err(_) => {
                let (Call::Read(name) | Call::Write(name)) = call;
                let reason = format!("`{name}`: this process has not read the bucket to its end yet; try again");
                Err(StoreError::Unavailable { store: self.name.clone(), reason })
            }
        }
    }

    async fn nothing_left(&self) -> Result<bool, Failed> {
        let (consumer, delivered) = {
            let following = self.following.lock();
            (following.consumer.clone(), Arc::clone(&following.delivered))
        };
        let what = format!("CONSUMER.INFO.{}.{consumer}", self.names.records);
        match self.link.ask::<ConsumerInfo>(&what, &Nothing {}).await {
            Ok(info) => Ok(info.num_pending == 0 && info.delivered.consumer_seq <= delivered.load(SeqCst)),
            Err(Failed::Refused(_)) => Ok(false),
            Err(failed) => Err(failed),
        }
    }
}

async fn follow(shared: Arc<Shared>) {
    let up = shared.following.lock().up.clone();
    let following = async {
        loop {
            let _lost = session(&shared, &up).await;
            up.send_replace(false);
            tokio::time::sleep(WITHOUT).await;
        }
    };
    tokio::select! {
        () = following => {}
        () = wake_while_down(&shared.waiters, up.subscribe()) => {}
    }
}

/// Also while a new consumer is on its way: one that is not allowed is not refused, it is only not answered.
async fn wake_while_down(waiters: &Waiters, mut up: watch::Receiver<bool>) {
    while up.wait_for(|up| !*up).await.is_ok() {
        tokio::time::sleep(WITHOUT).await;
        if !*up.borrow() {
            waiters.wake_all();
        }
    }
}

/// Until the consumer is lost.
async fn session(shared: &Arc<Shared>, up: &watch::Sender<bool>) -> Result<(), Failed> {
    let client = shared.link.client().await?;
    let last = shared.last_sequence().await?;
    let seen = *shared.seen.borrow();
    // A bucket that is behind what was seen is another bucket.
    let anew = seen == 0 || last < seen;
    if anew {
        *shared.index.write() = Index::default();
        shared.seen.send_replace(0);
    }
    let inbox = client.new_inbox();
    let mut messages = client.subscribe(inbox.clone()).await.map_err(|_| Failed::Broken)?;
    let made = create(shared, &inbox, (!anew).then_some(seen + 1)).await?;
    let delivered = {
        let mut following = shared.following.lock();
        following.consumer = made.name;
        following.delivered.store(0, SeqCst);
        Arc::clone(&following.delivered)
    };
    let mut reader = Reader { shared, up, anew, last, reading: true, delivered };
    if last == 0 || (!anew && seen >= last) {
        reader.at_the_end(last);
    }
    let mut tick = interval(WITHOUT);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut silent, mut since_forgetting, mut since_sweeping) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let memory = shared.removal_memory.as_std();
    let (forgetting, sweeping) = ((memory / 8).clamp(WITHOUT, MOST_BETWEEN), memory.max(WITHOUT * 4));
    loop {
        tokio::select! {
            biased;
            message = next(&mut messages) => {
                let Some(message) = message else { return Ok(()) };
                silent = Duration::ZERO;
                if !reader.take(&client, message).await {
                    return Ok(());
                }
            }
            _ = tick.tick() => {
                silent += WITHOUT;
                if silent > SILENCE || client.connection_state() != State::Connected {
                    return Ok(());
                }
                if reader.reading {
                    // The last message was deleted behind our back: nothing more comes.
                    if silent >= WITHOUT * 2 && shared.nothing_left().await? {
                        reader.at_the_end(last);
                    }
                    continue;
                }
                since_forgetting += WITHOUT;
                since_sweeping += WITHOUT;
                if since_forgetting >= forgetting {
                    since_forgetting = Duration::ZERO;
                    let _next_time = shared.forget_some().await;
                }
                if since_sweeping >= sweeping {
                    since_sweeping = Duration::ZERO;
                    let _next_time = shared.sweep_parts().await;
                }
            }
        }
    }
}

async fn create(shared: &Shared, inbox: &str, from: Option<u64>) -> Result<ConsumerInfo, Failed> {
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let filter = shared.names.all_records();
    let config = ConsumerConfig {
        deliver_subject: inbox,
        deliver_policy: if from.is_some() { "by_start_sequence" } else { "last_per_subject" },
        opt_start_seq: from,
        filter_subject: &filter,
        ack_policy: "none",
        replay_policy: "instant",
        max_deliver: 1,
        headers_only: true,
        flow_control: true,
        mem_storage: true,
        num_replicas: 1,
        idle_heartbeat: nanos(HEARTBEAT),
        inactive_threshold: nanos(INACTIVE),
    };
    let what = format!("CONSUMER.CREATE.{}", shared.names.records);
    shared.link.ask(&what, &CreateConsumer { stream_name: &shared.names.records, config }).await
}

struct Reader<'a> {
    shared: &'a Shared,
    up: &'a watch::Sender<bool>,
    anew: bool,
    /// The last sequence of the bucket before the consumer was made.
    last: u64,
    /// Not yet at the end.
    reading: bool,
    delivered: Arc<AtomicU64>,
}

impl Reader<'_> {
    /// False: something is missing, begin anew.
    async fn take(&mut self, client: &Client, message: Message) -> bool {
        if message.status == Some(StatusCode::IDLE_HEARTBEAT) {
            return self.heartbeat(client, &message).await;
        }
        let Some(place) = message.reply.as_ref().and_then(|reply| Place::parse(reply)) else { return false };
        if place.number != self.delivered.load(SeqCst) + 1 {
            return false;
        }
        self.shared.clock.at_least(Stamp(place.stamp_ns / 1_000_000));
        self.learn(&message, place.sequence);
        self.delivered.store(place.number, SeqCst);
        // They come in the order of their sequences. How many are still to come is said too, but not reliably while others
        // write.
        if self.reading && place.sequence >= self.last {
            self.at_the_end(place.sequence);
        } else if !self.reading {
            self.shared.seen.send_replace(place.sequence);
        }
        true
    }

    fn learn(&self, message: &Message, sequence: u64) {
        let header = |name: &str| message.headers.as_ref()?.get(name).map(|value| value.as_str().to_owned());
        if let Some(id) = self.shared.names.id(&message.subject) {
            // What cannot be read is found by whoever reads the record itself.
            if let Some(head) = header(head::NAME).and_then(|text| Head::decode(&text)) {
                self.shared.index.write().put(id, sequence, &head);
            }
            self.shared.waiters.wake(&id);
        } else if let Some(through) = header(forget::HEADER).and_then(|text| text.parse().ok()) {
            let mut index = self.shared.index.write();
            index.forgotten = index.forgotten.max(through);
            index.forgotten_at = sequence;
        }
    }

    fn at_the_end(&mut self, sequence: u64) {
        if self.anew {
            self.shared.index.write().loaded();
        }
        self.reading = false;
        self.shared.seen.send_replace(sequence);
        self.up.send_replace(true);
        // What changed while nobody followed.
        self.shared.waiters.wake_all();
    }

    /// The server says how many it has sent, or asks whether we keep up.
    async fn heartbeat(&self, client: &Client, message: &Message) -> bool {
        let header = |name: &str| message.headers.as_ref()?.get(name).map(|value| value.as_str().to_owned());
        for reply in
            [message.reply.as_ref().map(ToString::to_string), header("Nats-Consumer-Stalled")].into_iter().flatten()
        {
            let _noticed_by_silence = client.publish(reply, Bytes::new()).await;
        }
        let sent = header("Nats-Last-Consumer").and_then(|text| text.parse::<u64>().ok());
        sent.is_none_or(|sent| sent == self.delivered.load(SeqCst))
    }
}

async fn next(messages: &mut Subscriber) -> Option<Message> {
    poll_fn(|context| Pin::new(&mut *messages).poll_next(context)).await
}

/// What the server says about a message in the subject of its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    sequence: u64,
    number: u64,
    stamp_ns: u64,
}

impl Place {
    /// `$JS.ACK.stream.consumer.deliveries.sequence.number.stamp.pending`; newer servers put domain and account before
    /// the stream, and may add a token at the end.
    fn parse(reply: &str) -> Option<Self> {
        let parts: Vec<&str> = reply.split('.').collect();
        let first = match parts.len() {
            9 => 5,
            11.. => 7,
            _ => return None,
        };
        if !reply.starts_with("$JS.ACK.") {
            return None;
        }
        let number = |at: usize| parts.get(first + at)?.parse().ok();
        Some(Self { sequence: number(0)?, number: number(1)?, stamp_ns: number(2)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_old_and_new_servers_are_read() {
        let wanted = Some(Place { sequence: 17, number: 3, stamp_ns: 99 });
        assert_eq!(Place::parse("$JS.ACK.KV_hapax.abc.1.17.3.99.4"), wanted);
        assert_eq!(Place::parse("$JS.ACK._.hash.KV_hapax.abc.1.17.3.99.4"), wanted);
        assert_eq!(Place::parse("$JS.ACK._.hash.KV_hapax.abc.1.17.3.99.4.token"), wanted);
        for wrong in ["", "$JS.ACK.KV_hapax", "$JS.FC.KV_hapax.abc.1.17.3.99.4", "$JS.ACK.s.c.1.x.3.99.4"] {
            assert_eq!(Place::parse(wrong), None, "{wrong}");
        }
    }
}
