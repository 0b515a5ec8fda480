use std::sync::{Arc, atomic::Ordering::Relaxed};

use bytes::Bytes;
use hapax_core::{Id, Millis, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError,
    Swap, Usage, Watch,
};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{
    address::{self, Address},
    api::{Done, Nothing, Refusal},
    bucket,
    clock::Clock,
    durability,
    error::{Call, Failed, OpenError},
    link::Link,
    names::Names,
    options::Options,
    shared::Shared,
};

/// Records in a key-value bucket that others may share.
#[derive(Debug)]
pub struct NatsStore {
    shared: Arc<Shared>,
    durability: RwLock<Durability>,
}

impl NatsStore {
    pub async fn open(url: impl Into<String>) -> Result<Self, OpenError> {
        Self::open_with(Options::new(url)).await
    }

    pub async fn open_with(options: Options) -> Result<Self, OpenError> {
        let mut address = Address::parse(&options.url)?;
        if let Some(bucket) = &options.bucket {
            address.bucket = address::named(bucket)?;
        }
        let (name, names) = (address.name(), Names::new(&address.bucket));
        let replicas = options.replicas.unwrap_or(address.replicas);
        let link = Link::new(address, &options);
        let found = bucket::open(&link, &name, &names, replicas).await?;
        let durability = durability::judge(&found, &version(&link).await);
        let shared = Arc::new(Shared {
            name,
            link,
            names,
            clock: Clock::new(),
            stamps: Default::default(),
            waiters: Arc::default(),
            index: Default::default(),
            following: Default::default(),
            seen: watch::Sender::new(0),
            removal_memory: Millis(options.removal_memory.0.max(1)),
            deny_delete: found.records.deny_delete,
        });
        let failed = |failed: Failed| shared.failed(Call::Read("open"), failed);
        shared.calibrate().await.map_err(failed)?;
        Ok(Self { shared, durability: RwLock::new(durability) })
    }

    /// Asks the server anew how it is set up.
    pub async fn check(&self) -> Result<Durability, StoreError> {
        let found = bucket::look(&self.shared.link, &self.shared.name, &self.shared.names).await?;
        let durability = durability::judge(&found, &version(&self.shared.link).await);
        self.durability.write().clone_from(&durability);
        Ok(durability)
    }

    /// How many requests were sent, each of them one round trip.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.shared.link.sent.load(Relaxed)
    }

    /// Whether wake-ups of other processes come by themselves now. For tests.
    #[doc(hidden)]
    pub fn listens(&self) -> bool {
        self.shared.follows()
    }

    /// Removes the bucket with everything in it. Whoever else uses it loses it too.
    pub async fn erase(&self) -> Result<(), StoreError> {
        self.shared.stop_following();
        for stream in [&self.shared.names.records, &self.shared.names.bodies] {
            let what = format!("STREAM.DELETE.{stream}");
            match self.shared.link.ask::<Done>(&what, &Nothing {}).await {
                Ok(_) => {}
                Err(Failed::Refused(refusal)) if refusal.err_code == Refusal::NO_STREAM => {}
                Err(failed) => return Err(self.shared.failed(Call::Write("erase"), failed)),
            }
        }
        Ok(())
    }

    /// Drops what is left of long records that were replaced; how many. A process that scans or waits does so by itself.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        self.shared.sweep_parts().await
    }
}

async fn version(link: &Link) -> String {
    link.client().await.ok().and_then(|client| client.try_server_info()).map_or("unknown".into(), |info| info.version)
}

impl Drop for NatsStore {
    fn drop(&mut self) {
        self.shared.stop_following();
    }
}

impl Store for NatsStore {
    fn get<'a>(&'a self, id: &'a Id) -> Answer<'a, Snapshot> {
        Box::pin(self.shared.read(Call::Read("get"), id))
    }

    fn swap<'a>(&'a self, id: &'a Id, expected: Version, next: Option<Envelope>) -> Answer<'a, Swap> {
        Box::pin(self.shared.write(id, expected, next))
    }

    fn watch<'a>(&'a self, id: &'a Id) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async { Ok(self.shared.watch_it(*id).await) })
    }

    fn scan<'a>(&'a self, index: Index, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<Id>> {
        Box::pin(self.shared.page(index, after, limit))
    }

    fn changes<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Changes> {
        Box::pin(self.shared.feed(after, limit))
    }

    fn put_body<'a>(&'a self, owner: &'a Id, body: BodyId, bytes: Bytes) -> Answer<'a, ()> {
        Box::pin(self.shared.keep_body(owner, body, bytes))
    }

    fn get_body(&self, body: BodyId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.shared.read_body(body))
    }

    fn drop_body(&self, body: BodyId) -> Answer<'_, ()> {
        Box::pin(self.shared.forget_body(body))
    }

    fn bodies<'a>(&'a self, after: Option<&'a Cursor>, limit: usize) -> Answer<'a, Page<BodyInfo>> {
        Box::pin(self.shared.list_bodies(after, limit))
    }

    fn usage(&self, tag: Tag) -> Answer<'_, Usage> {
        Box::pin(self.shared.count(tag))
    }

    fn clock_error(&self) -> Millis {
        self.shared.clock.error()
    }

    fn durability(&self) -> Durability {
        self.durability.read().clone()
    }

    fn ask_durability(&self) -> Answer<'_, Durability> {
        Box::pin(self.check())
    }

    fn level(&self) -> Level {
        Level::Basic
    }

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn single_writer(&self) -> bool {
        false
    }
}
