//! A cluster: several masters, each with some of the buckets.
//!
//! Where a bucket lies is asked once and kept. A server that is asked for a bucket it does not have says who does, and has
//! done nothing; whoever cannot be reached makes the next call ask anew. Nothing is ever sent twice behind the caller's
//! back: a write whose answer is lost is the caller's to recognise.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use hapax_store::StoreError;
use parking_lot::RwLock;
use redis::{Cmd, FromRedisValue, Pipeline, Value};
use tokio::{sync::Mutex, task::JoinSet};

use crate::{
    address::Address,
    batch::Batch,
    error::{Call, OpenError},
    invocation::Invocation,
    keys::BUCKETS,
    link::{Failed, Links, is_not_here, said},
    options::Options,
    reach::Reach,
    servers::is_cluster,
    slot,
};

const NO_MASTER: &str = "not every slot has a master; wait, or look at `redis-cli --cluster check`";
/// Between two looks at a slot that is half moved.
const HALF_MOVED: Duration = Duration::from_millis(20);
/// So often one call is sent on to somebody else.
const MOST_TURNS: usize = 4;

pub(crate) struct Cluster {
    address: Address,
    options: Options,
    sent: Arc<AtomicU64>,
    nodes: RwLock<HashMap<String, Arc<Links>>>,
    map: RwLock<Arc<Map>>,
    stale: AtomicBool,
    asking: Mutex<()>,
    turn: AtomicUsize,
}

/// Who has what, as far as is known.
#[derive(Default)]
struct Map {
    homes: Vec<Arc<Links>>,
    masters: Vec<Arc<Links>>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<String> = self.nodes.read().keys().cloned().collect();
        f.debug_struct("Cluster").field("name", &self.address.name()).field("known", &known).finish_non_exhaustive()
    }
}

/// Marks the map as old again unless it was replaced.
struct Unanswered<'a>(Option<&'a AtomicBool>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(stale) = self.0 {
            stale.store(true, SeqCst);
        }
    }
}

/// How long a call waits for a slot that is half here and half there. The server has done nothing, so it may be said again.
struct Patience {
    left: Duration,
}

impl Patience {
    /// As long as for an answer: a slow move is an outage of its bucket.
    const fn of(options: &Options) -> Self {
        Self { left: options.answer_timeout }
    }

    /// Whether it is worth another try.
    async fn wait(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(HALF_MOVED) else { return false };
        self.left = left;
        tokio::time::sleep(HALF_MOVED).await;
        true
    }
}

impl Cluster {
    pub(crate) fn new(address: Address, options: &Options, sent: Arc<AtomicU64>) -> Self {
        Self {
            address,
            options: options.clone(),
            sent,
            nodes: RwLock::default(),
            map: RwLock::default(),
            stale: AtomicBool::new(true),
            asking: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Whether the hosts of the URL are one, by the first that answers.
    pub(crate) async fn is_one(&self, call: Call) -> Result<bool, StoreError> {
        let mut last = self.nobody(call, "the URL names no server");
        for host in &self.address.hosts {
            let Ok(node) = self.node(host) else { continue };
            match is_cluster(&node, call).await {
                Ok(is_one) => return Ok(is_one),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) async fn run(
        &self,
        call: Call,
        bucket: usize,
        invocation: &Invocation<'_>,
    ) -> Result<Value, StoreError> {
        let mut patience = Patience::of(&self.options);
        loop {
            let mut node = self.home(call, bucket).await?;
            let mut answer = node.run(invocation, true).await;
            for _ in 0..MOST_TURNS {
                let Some((next, asking)) = self.sent_on(&node, answer.as_ref().err()) else { break };
                answer = if asking {
                    next.send_asking(invocation.in_full(true)).await
                } else {
                    next.run(invocation, true).await
                };
                node = next;
            }
            match answer {
                Err(failed) if failed.is_half_moved() && patience.wait().await => {}
                answer => return answer.map_err(|failed| self.told(&node, call, &failed)),
            }
        }
    }

    pub(crate) async fn send(&self, call: Call, bucket: usize, command: &Cmd) -> Result<Value, StoreError> {
        let mut patience = Patience::of(&self.options);
        loop {
            let mut node = self.home(call, bucket).await?;
            let mut answer = node.send(command).await;
            for _ in 0..MOST_TURNS {
                let Some((next, asking)) = self.sent_on(&node, answer.as_ref().err()) else { break };
                answer = if asking { next.send_asking(command.clone()).await } else { next.send(command).await };
                node = next;
            }
            match answer {
                Err(failed) if failed.is_half_moved() && patience.wait().await => {}
                answer => return answer.map_err(|failed| self.told(&node, call, &failed)),
            }
        }
    }

    /// One round trip to each server that is concerned, all at once. Whatever is sent this way may be said again.
    pub(crate) async fn send_all(&self, call: Call, batch: &Batch) -> Result<Vec<Value>, StoreError> {
        let mut shares: HashMap<String, (Arc<Links>, Pipeline, Vec<usize>)> = HashMap::new();
        for (place, (bucket, command)) in batch.commands.iter().enumerate() {
            let node = self.home(call, *bucket).await?;
            let (_, pipe, places) =
                shares.entry(node.name.clone()).or_insert_with(|| (node, redis::pipe(), Vec::new()));
            pipe.add_command(command.clone());
            places.push(place);
        }
        let mut under_way = JoinSet::new();
        for (node, pipe, places) in shares.into_values() {
            under_way.spawn(async move { (node.send_all(&pipe).await, node, places) });
        }
        let mut answers: Vec<Value> = vec![Value::Nil; batch.commands.len()];
        while let Some(ended) = under_way.join_next().await {
            let Ok((answer, node, places)) = ended else {
                let (store, reason) = (self.address.name(), "a call was given up".to_owned());
                return Err(StoreError::Unavailable { store, reason });
            };
            for (place, value) in places.into_iter().zip(answer.map_err(|failed| self.told(&node, call, &failed))?) {
                answers[place] = value;
            }
        }
        if answers.iter().filter_map(said).any(is_not_here) {
            self.forget_map();
        }
        // A bucket that has moved is asked again whole, so that its commands keep their order.
        let moved: Vec<usize> =
            batch.commands.iter().zip(&answers).filter(|(_, value)| is_sent_on(value)).map(|one| one.0.0).collect();
        for (place, (bucket, command)) in batch.commands.iter().enumerate() {
            if moved.contains(bucket) {
                answers[place] = self.send(call, *bucket, command).await?;
            }
        }
        Ok(answers)
    }

    /// Everybody who has a bucket.
    pub(crate) async fn masters(&self, call: Call) -> Result<Vec<Arc<Links>>, StoreError> {
        self.stale.store(true, SeqCst);
        Ok(self.map(call).await?.masters.clone())
    }

    /// Any of them hears what is published to the others; another one each time.
    pub(crate) async fn any(&self, call: Call) -> Result<Arc<Links>, StoreError> {
        let masters = self.map(call).await?.masters.clone();
        let turn = self.turn.fetch_add(1, Relaxed);
        masters.get(turn % masters.len().max(1)).cloned().ok_or_else(|| self.nobody(call, "it has no master"))
    }

    /// To be asked for by the next call.
    pub(crate) fn forget_map(&self) {
        self.stale.store(true, SeqCst);
    }

    /// Who has to be asked instead, and whether the bucket is only on its way there.
    fn sent_on(&self, from: &Links, failed: Option<&Failed>) -> Option<(Arc<Links>, bool)> {
        let error = &failed?.error;
        let (host, _) = error.redirect_node()?;
        let asking = error.code() == Some("ASK");
        if !asking {
            self.stale.store(true, SeqCst);
        }
        // Without a host it is another port of the same one.
        let host = match host.strip_prefix(':') {
            None => host.to_owned(),
            Some(port) => {
                let own = from.name.split_once("://").map_or("", |(_, own)| own).trim_end_matches('/');
                format!("{}:{port}", own.rsplit_once(':').map_or(own, |(own, _)| own))
            }
        };
        self.node(&host).ok().map(|node| (node, asking))
    }

    async fn home(&self, call: Call, bucket: usize) -> Result<Arc<Links>, StoreError> {
        let map = self.map(call).await?;
        map.homes.get(bucket).cloned().ok_or_else(|| self.nobody(call, "nobody has this bucket"))
    }

    async fn map(&self, call: Call) -> Result<Arc<Map>, StoreError> {
        if !self.stale.load(SeqCst) {
            return Ok(Arc::clone(&self.map.read()));
        }
        // One asks, the others wait for it.
        let _asking = self.asking.lock().await;
        if self.stale.swap(false, SeqCst) {
            // Whoever asks may be gone before the answer: then the next one asks.
            let mut unanswered = Unanswered(Some(&self.stale));
            let map = Arc::new(self.ask_for_map(call).await?);
            *self.map.write() = Arc::clone(&map);
            // Who has gone is not asked again, unless the URL names it. Calls under way there come to their own end.
            let stays = |host: &String, node: &mut Arc<Links>| {
                self.address.hosts.contains(host) || map.masters.iter().any(|master| Arc::ptr_eq(master, node))
            };
            self.nodes.write().retain(stays);
            unanswered.0 = None;
        }
        Ok(Arc::clone(&self.map.read()))
    }

    /// The servers known so far, then those of the URL: the first one that can tell.
    async fn ask_for_map(&self, call: Call) -> Result<Map, StoreError> {
        let mut hosts: Vec<String> = self.nodes.read().keys().cloned().collect();
        hosts.extend(self.address.hosts.iter().filter(|host| !hosts.contains(host)).cloned().collect::<Vec<_>>());
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let mut last = self.nobody(call, "the URL names no server");
        for host in hosts {
            let Ok(node) = self.node(&host) else { continue };
            match node.send(&command).await {
                Err(failed) => last = failed.told(&node.name, call),
                Ok(slots) => match self.read_map(&host, &slots) {
                    Some(map) => return Ok(map),
                    None => last = self.nobody(call, NO_MASTER),
                },
            }
        }
        Err(last)
    }

    /// `None`: some bucket has nobody.
    fn read_map(&self, asked: &str, slots: &Value) -> Option<Map> {
        let Value::Array(ranges) = slots else { return None };
        let own = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
        let mut found: Vec<(u16, u16, Arc<Links>)> = Vec::new();
        for range in ranges {
            let Value::Array(range) = range else { return None };
            let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = range.as_slice() else { return None };
            let [host, Value::Int(port), ..] = master.as_slice() else { return None };
            let host = match text(host) {
                Some(host) if !host.is_empty() && host != "?" => host,
                // It does not know its own name: the one by which it was asked.
                Some(_) | None => own.to_owned(),
            };
            let host = if host.contains(':') && !host.starts_with('[') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            };
            found.push((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, self.node(&host).ok()?));
        }
        let home = |bucket: usize| {
            let slot = slot::of_bucket(bucket);
            found.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(_, _, node)| Arc::clone(node))
        };
        let homes: Vec<Arc<Links>> = (0..BUCKETS).map(home).collect::<Option<_>>()?;
        let mut masters: Vec<Arc<Links>> = Vec::new();
        for home in &homes {
            if !masters.iter().any(|master| Arc::ptr_eq(master, home)) {
                masters.push(Arc::clone(home));
            }
        }
        Some(Map { homes, masters })
    }

    fn node(&self, host: &str) -> Result<Arc<Links>, OpenError> {
        if let Some(node) = self.nodes.read().get(host) {
            return Ok(Arc::clone(node));
        }
        let reach = Reach::At(self.address.client(host)?);
        let node = Links::new(reach, self.address.name_of(host), &self.options, Arc::clone(&self.sent));
        Ok(Arc::clone(self.nodes.write().entry(host.to_owned()).or_insert_with(|| Arc::new(node))))
    }

    fn told(&self, node: &Links, call: Call, failed: &Failed) -> StoreError {
        if failed.is_elsewhere() {
            self.forget_map();
        }
        failed.told(&node.name, call)
    }

    fn nobody(&self, call: Call, why: &str) -> StoreError {
        let (Call::Read(name) | Call::Write(name)) = call;
        StoreError::Unavailable { store: self.address.name(), reason: format!("`{name}`: {why}") }
    }
}

fn is_sent_on(value: &Value) -> bool {
    said(value).is_some_and(|code| matches!(code, "MOVED" | "ASK" | "TRYAGAIN"))
}

fn text(value: &Value) -> Option<String> {
    String::from_redis_value(value.clone()).ok()
}
