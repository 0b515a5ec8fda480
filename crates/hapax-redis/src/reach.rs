//! Where the server is: at an address, or where the Sentinels say that it is now.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, RedisError, RedisResult, aio::MultiplexedConnection,
};
use tokio::time::timeout;

use crate::{address::Address, error::OpenError};

pub(crate) enum Reach {
    At(Client),
    Sentinel(Sentinel),
}

/// Several that watch one master; any of them may be gone.
pub(crate) struct Sentinel {
    address: Address,
    master: String,
    /// For one of them.
    patience: Duration,
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::At(_) => "At",
            Self::Sentinel(_) => "Sentinel",
        })
    }
}

impl Reach {
    pub(crate) fn new(address: &Address, patience: Duration) -> Result<Self, OpenError> {
        match &address.sentinel {
            None => Ok(Self::At(address.client(address.hosts.first().map_or("", String::as_str))?)),
            Some(master) => Ok(Self::Sentinel(Sentinel { address: address.clone(), master: master.clone(), patience })),
        }
    }

    /// Asked each time a connection is made: it may be another one by now.
    pub(crate) async fn client(&self) -> RedisResult<Client> {
        match self {
            Self::At(client) => Ok(client.clone()),
            Self::Sentinel(sentinel) => sentinel.client().await,
        }
    }

    /// What Sentinels call a master may have become a replica since.
    pub(crate) async fn agree(&self, wire: &mut MultiplexedConnection) -> RedisResult<()> {
        if matches!(self, Self::At(_)) {
            return Ok(());
        }
        let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(wire).await?;
        let role = role.into_iter().next().and_then(|role| String::from_redis_value(role).ok());
        let is_master = role.as_deref() == Some("master");
        if is_master { Ok(()) } else { Err(io("it is no master any more, and no other is known yet")) }
    }
}

impl Sentinel {
    async fn client(&self) -> RedisResult<Client> {
        let mut last = io("the URL names no Sentinel");
        for host in &self.address.hosts {
            match self.ask(host).await {
                Ok(Some((host, port))) => {
                    let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                    return self.address.client(&host).map_err(|error| io(error.to_string()));
                }
                Ok(None) => last = io(format!("the Sentinel at {host} watches no master called {}", self.master)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn ask(&self, host: &str) -> RedisResult<Option<(String, u16)>> {
        match self.ask_as(host, false).await {
            // Most ask for no password; those that do are given that of the master.
            Err(error) if error.code() == Some("NOAUTH") && self.address.has_login() => self.ask_as(host, true).await,
            answer => answer,
        }
    }

    async fn ask_as(&self, host: &str, with_login: bool) -> RedisResult<Option<(String, u16)>> {
        let client = self.address.sentinel_client(host, with_login).map_err(|error| io(error.to_string()))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(self.patience));
        let asking = async {
            let mut wire = client.get_multiplexed_async_connection_with_config(&config).await?;
            redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master).query_async(&mut wire).await
        };
        match timeout(self.patience, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(io(format!("the Sentinel at {host} does not answer"))),
        }
    }
}

fn io(why: impl Into<String>) -> RedisError {
    RedisError::from((ErrorKind::Io, "no master", why.into()))
}
