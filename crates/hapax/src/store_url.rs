//! A store by its URL.

use std::sync::Arc;

use crate::{MemoryStore, Store};

/// Why a URL leads to no store. It never repeats the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreUrlError {
    #[error(
        "no store has the scheme {scheme:?}; there are memory:, file:PATH, redis://…, postgres://… and nats://… [HX0130]"
    )]
    Scheme { scheme: String },
    #[error("this program was built without {store}; build it with the feature `{feature}` [HX0130]")]
    NotBuilt { store: &'static str, feature: &'static str },
    #[error("this store cannot keep records apart from what is there, so it cannot be tried while it is used [HX0130]")]
    Together,
    #[cfg(feature = "ledger")]
    #[error(transparent)]
    Ledger(#[from] hapax_ledger::OpenError),
    #[cfg(feature = "nats")]
    #[error(transparent)]
    Nats(#[from] hapax_nats::OpenError),
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] hapax_postgres::OpenError),
    #[cfg(feature = "redis")]
    #[error(transparent)]
    Redis(#[from] hapax_redis::OpenError),
}

impl StoreUrlError {
    /// Whether it is the URL that cannot be used, so that whoever wrote it has to change it. Else it may be its server.
    #[must_use]
    pub const fn is_of_the_url(&self) -> bool {
        match self {
            Self::Scheme { .. } | Self::NotBuilt { .. } | Self::Together => true,
            #[cfg(feature = "ledger")]
            Self::Ledger(_) => false,
            #[cfg(feature = "nats")]
            Self::Nats(error) => matches!(error, hapax_nats::OpenError::Url { .. }),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => matches!(error, hapax_postgres::OpenError::Url { .. }),
            #[cfg(feature = "redis")]
            Self::Redis(error) => {
                matches!(error, hapax_redis::OpenError::Url { .. } | hapax_redis::OpenError::Prefix { .. })
            }
        }
    }
}

/// Opens `memory:`, `file:PATH`, `redis://…`, `postgres://…` or `nats://…`.
pub async fn open_store(url: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "memory" => Ok(Arc::new(MemoryStore::default())),
        "file" => file(rest),
        "redis" | "rediss" => redis(url).await,
        "postgres" | "postgresql" => postgres(url).await,
        "nats" => nats(url).await,
        // Without a colon it may be anything, a password too.
        other if other.len() == url.len() => Err(StoreUrlError::Scheme { scheme: String::new() }),
        other => Err(StoreUrlError::Scheme { scheme: other.to_owned() }),
    }
}

#[cfg(feature = "ledger")]
fn file(path: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Ok(Arc::new(hapax_ledger::Ledger::open(path)?))
}

#[cfg(not(feature = "ledger"))]
fn file(_: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Err(StoreUrlError::NotBuilt { store: "the embedded ledger", feature: "ledger" })
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Ok(Arc::new(hapax_redis::RedisStore::open(url).await?))
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Err(StoreUrlError::NotBuilt { store: "Redis", feature: "redis" })
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Ok(Arc::new(hapax_postgres::PostgresStore::open(url).await?))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Err(StoreUrlError::NotBuilt { store: "PostgreSQL", feature: "postgres" })
}

#[cfg(feature = "nats")]
async fn nats(url: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Ok(Arc::new(hapax_nats::NatsStore::open(url).await?))
}

#[cfg(not(feature = "nats"))]
async fn nats(_: &str) -> Result<Arc<dyn Store>, StoreUrlError> {
    Err(StoreUrlError::NotBuilt { store: "NATS", feature: "nats" })
}
