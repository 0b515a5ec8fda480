use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{Id, Millis, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError,
    Swap, Usage, Waiters, Watch,
};
use parking_lot::{Mutex, RwLock};
use redis::{FromRedisValue, Value};

use crate::{
    address::Address,
    error::{Call, OpenError},
    invocation::Invocation,
    keys::Keys,
    options::Options,
    rights,
    script::Script,
    servers::Servers,
    settle::Settling,
    swaps::{self, Swaps, Wanted},
    value,
    watch::Listener,
};

/// Records on a Redis that others may share.
#[derive(Debug)]
pub struct RedisStore {
    pub(crate) servers: Arc<Servers>,
    pub(crate) keys: Keys,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) listener: Mutex<Option<Listener>>,
    durability: RwLock<Durability>,
    pub(crate) removal_memory: Millis,
    pub(crate) settling: Settling,
    swaps: Arc<Swaps>,
}

impl RedisStore {
    pub async fn open(url: impl Into<String>) -> Result<Self, OpenError> {
        Self::open_with(Options::new(url)).await
    }

    pub async fn open_with(options: Options) -> Result<Self, OpenError> {
        let address = Address::parse(&options.url)?;
        let prefix = options.prefix.as_deref().or(address.prefix.as_deref()).unwrap_or(Options::PREFIX);
        let keys = Keys::new(prefix)?;
        let servers = Arc::new(Servers::open(address, &options).await?);
        let durability = servers.durability().await?;
        for server in servers.each(Call::Read("open")).await? {
            rights::ask(&server, &keys).await?;
        }
        // Longer than any server runs is for ever, and must not run over beside a stamp.
        let removal_memory = options.removal_memory.clamp(Millis(1), Millis(value::LARGEST / 2));
        let store = Self {
            servers,
            keys,
            waiters: Arc::default(),
            listener: Mutex::default(),
            durability: RwLock::new(durability),
            removal_memory,
            settling: Settling::default(),
            swaps: Swaps::new(options.connections),
        };
        if !store.takes_up_layout().await? {
            let reason = "an older version of Hapax has written here, in a layout that this one does not use; take another prefix";
            return Err(OpenError::Server { server: store.name(), reason: reason.into() });
        }
        Ok(store)
    }

    /// Asks the server anew how it is set up.
    pub async fn check(&self) -> Result<Durability, StoreError> {
        let durability = self.servers.durability().await?;
        self.durability.write().clone_from(&durability);
        Ok(durability)
    }

    /// Removes everything under this store's prefix, for good.
    pub async fn erase(&self) -> Result<(), StoreError> {
        let call = Call::Write("erase");
        for server in self.servers.each(call).await? {
            let mut cursor = 0_u64;
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(1_000);
                let (next, keys): (u64, Vec<Vec<u8>>) = server.ask(call, &scan).await?;
                // One by one: a cluster takes no command for keys of several slots.
                let mut unlink = redis::pipe();
                for key in &keys {
                    unlink.cmd("UNLINK").arg(key);
                }
                if !keys.is_empty() {
                    server.send_all(&unlink).await.map_err(|failed| failed.told(&server.name, call))?;
                }
                if next == 0 {
                    break;
                }
                cursor = next;
            }
        }
        Ok(())
    }

    /// How many requests were sent, each of them one round trip.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.servers.round_trips()
    }

    async fn read(&self, id: &Id) -> Result<Snapshot, StoreError> {
        let key = self.keys.record(id);
        let get = Invocation { script: Script::Get, keys: &[&key], guard: None, args: &|_| () };
        let (held, now): (Option<Vec<u8>>, u64) = self.servers.run(Call::Read("get"), id.0[0], &get).await?;
        value::snapshot(held, Stamp(now)).map_err(|reason| self.corrupt(id, reason))
    }

    async fn write(&self, id: &Id, expected: Version, next: Option<Envelope>) -> Result<Swap, StoreError> {
        let count = next.as_ref().map_or(0, |envelope| envelope.entries.len());
        if count > Envelope::MOST_ENTRIES {
            let most = Envelope::MOST_ENTRIES;
            return Err(self.unsupported(format!("{count} index entries in one record, at most {most} are kept")));
        }
        let tail = next.as_ref().map(value::tail).unwrap_or_default();
        let wanted = Wanted::new(&self.keys, id, expected, tail);
        let answer = if self.servers.is_one() {
            self.swaps.take_part(&self.servers, &self.keys, self.removal_memory, wanted).await?
        } else {
            let guard = self.keys.guard(id);
            let mut answers =
                swaps::send(&self.servers, &self.keys, self.removal_memory, &[wanted], Some(&guard)).await?;
            answers.pop().unwrap_or(Value::Nil)
        };
        self.swapped(id, answer)
    }

    fn swapped(&self, id: &Id, answer: Value) -> Result<Swap, StoreError> {
        if let Value::BulkString(front) = &answer
            && let Some((version, stamp)) = value::front(front)
        {
            self.waiters.wake(id);
            return Ok(Swap::Swapped { version, stamp });
        }
        let (held, now): (Option<Vec<u8>>, u64) = self.read_value(answer)?;
        let snapshot = value::snapshot(held, Stamp(now)).map_err(|reason| self.corrupt(id, reason))?;
        Ok(Swap::Conflict(snapshot))
    }

    pub(crate) fn read_value<T: FromRedisValue>(&self, value: Value) -> Result<T, StoreError> {
        T::from_redis_value(value).map_err(|error| StoreError::Corrupt {
            store: self.name(),
            place: "an answer".into(),
            reason: error.to_string(),
        })
    }

    /// A whole number as Redis writes scores.
    pub(crate) fn number(&self, text: &[u8], what: &str) -> Result<u64, StoreError> {
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        number.filter(|number| *number >= 0.0).map(|number| number as u64).ok_or_else(|| StoreError::Corrupt {
            store: self.name(),
            place: what.to_owned(),
            reason: "it is not a number".into(),
        })
    }

    pub(crate) fn corrupt(&self, id: &Id, reason: String) -> StoreError {
        StoreError::Corrupt { store: self.name(), place: format!("the record {id}"), reason }
    }

    pub(crate) fn foreign_cursor(&self) -> StoreError {
        self.unsupported("this cursor is not one of its own".into())
    }

    fn unsupported(&self, reason: String) -> StoreError {
        StoreError::Unsupported { store: self.name(), reason }
    }
}

impl Store for RedisStore {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(self.read(id))
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(self.write(id, expected, next))
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(self.watch_it(*id))
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(self.page(index, after, limit))
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        Box::pin(self.feed(after, limit))
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(async move { self.keep_body(owner, body, &bytes).await })
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.read_body(body))
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(self.forget_body(body))
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        Box::pin(self.list_bodies(after, limit))
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(self.count_all(tag))
    }

    fn durability(&self) -> Durability {
        self.durability.read().clone()
    }

    fn ask_durability(&self) -> Answer<'_, Durability> {
        Box::pin(self.check())
    }

    fn level(&self) -> Level {
        Level::Full
    }

    fn name(&self) -> String {
        self.servers.name.clone()
    }

    fn single_writer(&self) -> bool {
        false
    }
}
