use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use hapax_core::Millis;

use crate::{MemoryStore, Store, StoreUrlError};

/// Empty stores on a server that is in use, under names that nothing else there has. For whoever tries a server before
/// trusting it.
///
/// Removals are forgotten early in these stores, so that one can watch them be forgotten.
#[derive(Debug)]
pub struct Apart {
    /// May hold a password.
    url: Secretive,
    name: String,
    rooms: AtomicU32,
}

struct Secretive(String);

impl std::fmt::Debug for Secretive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Apart {
    /// How long removals are remembered.
    pub const REMOVAL_MEMORY: Millis = Millis(3_900);

    /// `name` is a word that nothing on the server begins with: letters, digits, `-` and `_`.
    #[must_use]
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self { url: Secretive(url.into()), name: name.into(), rooms: AtomicU32::new(0) }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A store that is empty, and the number of its room.
    pub async fn open(&self) -> Result<(Arc<dyn Store>, u32), StoreUrlError> {
        let room = self.rooms.fetch_add(1, Relaxed);
        Ok((self.open_again(room).await?, room))
    }

    /// The store in this room, with what it holds.
    pub async fn open_again(&self, room: u32) -> Result<Arc<dyn Store>, StoreUrlError> {
        let url = self.url.0.as_str();
        match scheme(url) {
            "memory" => Ok(Arc::new(MemoryStore::default())),
            #[cfg(feature = "ledger")]
            "file" => Ok(Arc::new(hapax_ledger::Ledger::open(self.directory(room))?)),
            #[cfg(feature = "redis")]
            "redis" | "rediss" => {
                let options = hapax_redis::Options::new(url).prefix(self.prefix(room));
                let options = options.removal_memory(Self::REMOVAL_MEMORY);
                Ok(Arc::new(hapax_redis::RedisStore::open_with(options).await?))
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                let options = hapax_postgres::Options::new(url).schema(self.schema(room)).connections(8);
                let options = options.removal_memory(Self::REMOVAL_MEMORY);
                Ok(Arc::new(hapax_postgres::PostgresStore::open_with(options).await?))
            }
            #[cfg(feature = "nats")]
            "nats" => {
                let options = hapax_nats::Options::new(url).bucket(self.bucket(room));
                let options = options.removal_memory(Self::REMOVAL_MEMORY);
                Ok(Arc::new(hapax_nats::NatsStore::open_with(options).await?))
            }
            _ => {
                let _of_no_kind_that_is_built_in = room;
                crate::open_store(url).await.and(Err(StoreUrlError::Together))
            }
        }
    }

    /// Removes everything that was written under this name.
    pub async fn erase(&self) -> Result<(), StoreUrlError> {
        let (url, rooms) = (self.url.0.as_str(), 0..self.rooms.load(Relaxed));
        match scheme(url) {
            #[cfg(feature = "ledger")]
            "file" => {
                for room in rooms {
                    // What was never made need not be removed.
                    let _gone = std::fs::remove_dir_all(self.directory(room));
                }
            }
            #[cfg(feature = "redis")]
            "redis" | "rediss" => {
                for room in rooms {
                    let options = hapax_redis::Options::new(url).prefix(self.prefix(room));
                    hapax_redis::RedisStore::open_with(options)
                        .await?
                        .erase()
                        .await
                        .map_err(hapax_redis::OpenError::from)?;
                }
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                for room in rooms {
                    hapax_postgres::erase(&hapax_postgres::Options::new(url).schema(self.schema(room))).await?;
                }
            }
            #[cfg(feature = "nats")]
            "nats" => {
                for room in rooms {
                    let options = hapax_nats::Options::new(url).bucket(self.bucket(room));
                    hapax_nats::NatsStore::open_with(options)
                        .await?
                        .erase()
                        .await
                        .map_err(hapax_nats::OpenError::from)?;
                }
            }
            _ => {
                let _of_no_kind_that_is_built_in = rooms;
            }
        }
        Ok(())
    }

    #[cfg(feature = "ledger")]
    fn directory(&self, room: u32) -> std::path::PathBuf {
        let path = self.url.0.strip_prefix("file:").unwrap_or_default();
        std::path::Path::new(path.strip_prefix("//").unwrap_or(path)).join(format!("{}-{room}", self.name))
    }

    #[cfg(feature = "redis")]
    fn prefix(&self, room: u32) -> String {
        format!("{}:{room}:", self.name)
    }

    #[cfg(feature = "nats")]
    fn bucket(&self, room: u32) -> String {
        format!("{}-{room}", self.name)
    }

    #[cfg(feature = "postgres")]
    fn schema(&self, room: u32) -> String {
        format!("{}-{room}", self.name)
    }
}

fn scheme(url: &str) -> &str {
    url.split_once(':').map_or("", |(scheme, _)| scheme)
}
