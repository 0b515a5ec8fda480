use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bytes::Bytes;
use hapax_core::{Id, Stamp, Tag, Version};
use hapax_store::{
    Answer, BodyId, BodyInfo, Changes, Cursor, Durability, Envelope, Index, Level, Page, Snapshot, Store, StoreError,
    Swap, Usage, Waiters, Watch,
};
use parking_lot::{Mutex, RwLock};
use tokio::time::timeout;
use tokio_postgres::{Client, Config, Row, config::Host};

use crate::{
    address::parts_are_apart,
    durability,
    error::{Call, OpenError, first_error},
    migrate,
    options::Options,
    pool::{Pool, Shared},
    row::{self, Columns, signed, unsigned},
    statement::Sql,
    tls::{self, Tls},
    watch::Listener,
};

/// Records in a PostgreSQL that others may share.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) pool: Shared,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) listener: Mutex<Option<Listener>>,
    pub(crate) listen: Reach,
    pub(crate) channel: String,
    pub(crate) removal_memory_ms: i64,
    durability: RwLock<Durability>,
    reread: AtomicU64,
}

/// Where a server is, and how one speaks to it.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
}

/// How often a swap goes on when what stood in its way is gone by the time that it looks.
const MOST_TRIES: u32 = 20;

impl PostgresStore {
    pub async fn open(url: impl Into<String>) -> Result<Self, OpenError> {
        Self::open_with(Options::new(url)).await
    }

    pub async fn open_with(options: Options) -> Result<Self, OpenError> {
        let options = options.settled()?;
        let reach = parse(&options.url)?;
        let listen = options.listen_url.as_deref().map_or_else(|| Ok(reach.clone()), parse)?;
        let name = name_of(&reach.config);
        let pool = Arc::new(Pool::new(reach, name.clone(), &options));
        let mut client = first_session(&pool).await?;
        let settings = durability::ask(&client, &name).await?;
        if let Some(reason) = settings.refusal() {
            return Err(OpenError::Server { server: name, reason });
        }
        migrate::migrate(&mut client, &name, &options).await?;
        Ok(Self {
            pool,
            waiters: Arc::default(),
            listener: Mutex::default(),
            listen,
            channel: format!("hapax {}", options.schema_name()),
            removal_memory_ms: signed(options.removal_memory.0.max(1)),
            durability: RwLock::new(settings.durability()),
            reread: AtomicU64::new(0),
        })
    }

    /// Asks the server anew how it is set up.
    pub async fn check(&self) -> Result<Durability, OpenError> {
        let client = self.pool.session().await;
        let client = client.map_err(|error| OpenError::Store(self.pool.not_sent(Call::Read("check"), &error)))?;
        let durability = durability::ask(&client, &self.pool.name).await?.durability();
        self.durability.write().clone_from(&durability);
        Ok(durability)
    }

    /// How many statements were sent, each of them one round trip.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.pool.sent.load(Relaxed)
    }

    /// How often a conflict could not show what it met, since that came after the statement had begun, and was read again.
    #[must_use]
    pub fn read_again(&self) -> u64 {
        self.reread.load(Relaxed)
    }

    pub(crate) async fn read(&self, id: &Id) -> Result<Snapshot, StoreError> {
        let rows = self.pool.query(Call::Read("get"), Sql::Get, &[&id.0.as_slice()]).await?;
        let row = rows.first().ok_or_else(|| self.damaged(id, "no row where there is always one"))?;
        let now: i64 = row.get(3);
        match row.get::<_, Option<i64>>(0) {
            None | Some(0) => Ok(never(now)),
            Some(version) => self.snapshot(id, version, row.get(1), row.get(2), now),
        }
    }

    async fn write(&self, id: &Id, expected: Version, next: Option<Envelope>) -> Result<Swap, StoreError> {
        let count = next.as_ref().map_or(0, |envelope| envelope.entries.len());
        if count > Envelope::MOST_ENTRIES {
            let most = Envelope::MOST_ENTRIES;
            return Err(self.unsupported(format!("{count} index entries in one record, at most {most} are kept")));
        }
        let columns = Columns::of(next.as_ref());
        for _ in 0..MOST_TRIES {
            if let Some(swap) = self.try_write(id, expected, &columns).await? {
                if matches!(swap, Swap::Swapped { .. }) {
                    self.waiters.wake(id);
                }
                return Ok(swap);
            }
            // Somebody wrote after this statement had begun: it saw that it could not write, but not what is there.
            self.reread.fetch_add(1, Relaxed);
            let held = self.read(id).await?;
            if held.version != expected {
                return Ok(Swap::Conflict(held));
            }
        }
        let reason = format!("a swap met others {MOST_TRIES} times in a row; nothing was written");
        Err(StoreError::Unavailable { store: self.name(), reason })
    }

    /// `None`: it was not written, and what stands in the way cannot be seen yet.
    async fn try_write(&self, id: &Id, expected: Version, next: &Columns) -> Result<Option<Swap>, StoreError> {
        let id_bytes = id.0.as_slice();
        // No row has a version that does not fit.
        let version = i64::try_from(expected.0).unwrap_or(-1);
        let mut params = next.params(&id_bytes, &self.channel);
        let sql = if expected == Version::NEVER {
            Sql::First
        } else {
            params.push(&version);
            Sql::Next
        };
        let rows = self.pool.query(Call::Write("swap"), sql, &params).await?;
        match rows.first() {
            Some(row) => self.answer(id, expected, row),
            // Absent it is too, if it was not expected to be.
            None if expected != Version::NEVER => Ok(Some(Swap::Conflict(self.read(id).await?))),
            None => Ok(None),
        }
    }

    fn answer(&self, id: &Id, expected: Version, row: &Row) -> Result<Option<Swap>, StoreError> {
        let (done, version, stamp): (bool, i64, i64) = (row.get(0), row.get(1), row.get(2));
        if done {
            return Ok(Some(Swap::Swapped { version: Version(unsigned(version)), stamp: Stamp(unsigned(stamp)) }));
        }
        let now: i64 = row.get(4);
        let held = if version == 0 { never(now) } else { self.snapshot(id, version, stamp, row.get(3), now)? };
        Ok((held.version != expected).then_some(Swap::Conflict(held)))
    }

    pub(crate) fn snapshot(
        &self,
        id: &Id,
        version: i64,
        stamp: i64,
        record: Option<Vec<u8>>,
        now: i64,
    ) -> Result<Snapshot, StoreError> {
        row::snapshot(version, stamp, record, now).map_err(|error| self.damaged(id, &error.to_string()))
    }

    fn damaged(&self, id: &Id, reason: &str) -> StoreError {
        StoreError::Corrupt { store: self.name(), place: format!("the record {id}"), reason: reason.to_owned() }
    }

    pub(crate) fn foreign_cursor(&self) -> StoreError {
        self.unsupported("this cursor is not one of its own".into())
    }

    fn unsupported(&self, reason: String) -> StoreError {
        StoreError::Unsupported { store: self.name(), reason }
    }
}

/// A session outside any pool, and what to call the server.
pub(crate) async fn session(options: &Options) -> Result<(Client, String), OpenError> {
    let reach = parse(&options.url)?;
    let name = name_of(&reach.config);
    let client = first_session(&Pool::new(reach, name.clone(), options)).await?;
    Ok((client, name))
}

async fn first_session(pool: &Pool) -> Result<Client, OpenError> {
    let unreachable = |reason: String| OpenError::Unreachable { server: pool.name.clone(), reason };
    timeout(pool.connect_timeout(), pool.session())
        .await
        .map_err(|_| unreachable("no connection in time; check that this machine may reach it".into()))?
        .map_err(|error| first_error(&pool.name, &error))
}

fn never(now: i64) -> Snapshot {
    Snapshot { record: None, version: Version::NEVER, stamp: Stamp(0), now: Stamp(unsigned(now)) }
}

/// The words of the parser may hold parts of the URL, so they are not passed on.
fn parse(url: &str) -> Result<Reach, OpenError> {
    let read = tls::spoken_plainly(url).parse();
    let mut config: Config = read.map_err(|_| OpenError::Url { reason: "it cannot be read".into() })?;
    if config.get_hosts().is_empty() {
        return Err(OpenError::Url { reason: "it names no host".into() });
    }
    parts_are_apart(&config)?;
    let tls = Tls::for_config(&mut config)?;
    Ok(Reach { config, tls })
}

fn name_of(config: &Config) -> String {
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
        let port = ports.get(number).or_else(|| ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts: Vec<String> = hosts.collect();
    format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

impl Store for PostgresStore {
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
        Box::pin(async move {
            let rows = self.pool.query(Call::Read("usage"), Sql::Usage, &[&tag.0.as_slice()]).await?;
            let count = |at: usize| rows.first().map_or(0, |row| unsigned(row.get(at)));
            Ok(Usage { records: count(0), tombstones: count(1), bytes: count(2), exact: true })
        })
    }

    fn durability(&self) -> Durability {
        self.durability.read().clone()
    }

    fn ask_durability(&self) -> Answer<'_, Durability> {
        Box::pin(async {
            self.check().await.map_err(|error| match error {
                OpenError::Store(error) => error,
                other @ (OpenError::Url { .. }
                | OpenError::Unreachable { .. }
                | OpenError::Denied { .. }
                | OpenError::Server { .. }
                | OpenError::Newer { .. }) => StoreError::Unavailable { store: self.name(), reason: other.to_string() },
            })
        })
    }

    fn level(&self) -> Level {
        Level::Full
    }

    fn name(&self) -> String {
        self.pool.name.clone()
    }

    fn single_writer(&self) -> bool {
        false
    }
}
