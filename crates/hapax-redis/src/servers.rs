//! One server, or a cluster of them: every call goes to where its bucket lies.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use hapax_store::{Durability, StoreError};
use redis::{Cmd, FromRedisValue, RedisResult, Value, aio::PubSub};

use crate::{
    address::Address,
    batch::Batch,
    cluster::Cluster,
    durability,
    error::{Call, OpenError},
    invocation::Invocation,
    link::{Failed, Links, read},
    options::Options,
    reach::Reach,
};

const OPEN: Call = Call::Read("open");

#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) name: String,
    shape: Shape,
    sent: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Shape {
    One(Arc<Links>),
    Cluster(Box<Cluster>),
}

impl Servers {
    /// A server is asked whether it is part of a cluster; several are one, unless they are Sentinels.
    pub(crate) async fn open(address: Address, options: &Options) -> Result<Self, OpenError> {
        let (name, sent) = (address.name(), Arc::<AtomicU64>::default());
        let several = address.hosts.len() > 1 && address.sentinel.is_none();
        let one = if several {
            None
        } else {
            let reach = Reach::new(&address, options.connect_timeout)?;
            let links = Links::new(reach, name.clone(), options, Arc::clone(&sent));
            (!is_cluster(&links, OPEN).await?).then_some(links)
        };
        let shape = match one {
            Some(links) => Shape::One(Arc::new(links)),
            None => {
                if !address.is_first_database() {
                    let reason = "a cluster has only database 0".to_owned();
                    return Err(OpenError::Server { server: name, reason });
                }
                let cluster = Cluster::new(address, options, Arc::clone(&sent));
                if several && !cluster.is_one(OPEN).await? {
                    let reason = "several hosts are a cluster, or Sentinels of a master that ?sentinel= names; these are neither";
                    return Err(OpenError::Server { server: name, reason: reason.to_owned() });
                }
                cluster.masters(OPEN).await?;
                Shape::Cluster(Box::new(cluster))
            }
        };
        Ok(Self { name, shape, sent })
    }

    /// One server has all buckets.
    pub(crate) const fn is_one(&self) -> bool {
        matches!(self.shape, Shape::One(_))
    }

    pub(crate) fn round_trips(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(crate) async fn run<T: FromRedisValue>(
        &self,
        call: Call,
        bucket: u8,
        invocation: &Invocation<'_>,
    ) -> Result<T, StoreError> {
        let value = match &self.shape {
            Shape::One(links) => links.run(invocation, false).await.map_err(|failed| self.told(call, &failed))?,
            Shape::Cluster(cluster) => cluster.run(call, bucket.into(), invocation).await?,
        };
        read(value).map_err(|failed| self.told(call, &failed))
    }

    pub(crate) async fn ask<T: FromRedisValue>(&self, call: Call, bucket: u8, command: &Cmd) -> Result<T, StoreError> {
        let value = match &self.shape {
            Shape::One(links) => links.send(command).await.map_err(|failed| self.told(call, &failed))?,
            Shape::Cluster(cluster) => cluster.send(call, bucket.into(), command).await?,
        };
        read(value).map_err(|failed| self.told(call, &failed))
    }

    /// Several commands in one round trip to each server, without any promise between buckets. What is sent this way may be
    /// said again.
    pub(crate) async fn ask_all<T: FromRedisValue>(&self, call: Call, batch: &Batch) -> Result<Vec<T>, StoreError> {
        if batch.commands.is_empty() {
            return Ok(Vec::new());
        }
        let values = match &self.shape {
            Shape::One(links) => {
                let mut pipe = redis::Pipeline::with_capacity(batch.commands.len());
                for (_, command) in &batch.commands {
                    pipe.add_command(command.clone());
                }
                links.send_all(&pipe).await.map_err(|failed| self.told(call, &failed))?
            }
            Shape::Cluster(cluster) => cluster.send_all(call, batch).await?,
        };
        read(Value::Array(values)).map_err(|failed| self.told(call, &failed))
    }

    /// Each server that has records of its own.
    pub(crate) async fn each(&self, call: Call) -> Result<Vec<Arc<Links>>, StoreError> {
        match &self.shape {
            Shape::One(links) => Ok(vec![Arc::clone(links)]),
            Shape::Cluster(cluster) => cluster.masters(call).await,
        }
    }

    /// A connection that listens: what is published to one server of a cluster is heard at all of them.
    pub(crate) async fn ear(&self) -> RedisResult<PubSub> {
        match &self.shape {
            Shape::One(links) => links.ear().await,
            Shape::Cluster(cluster) => {
                let gone = |error: StoreError| (redis::ErrorKind::Io, "no master", error.to_string());
                let heard = cluster.any(Call::Read("watch")).await.map_err(gone)?.ear().await;
                if heard.is_err() {
                    cluster.forget_map();
                }
                heard
            }
        }
    }

    /// What is promised where a replica may take over, which the servers' own settings do not tell.
    pub(crate) async fn durability(&self) -> Result<Durability, StoreError> {
        let call = Call::Read("durability");
        let mut worst = Durability::Durable;
        for server in self.each(call).await? {
            let said = durability::ask(&server).await?;
            match (&said, &self.shape) {
                (Durability::Durable, _) => {}
                (_, Shape::One(_)) => worst = said,
                (Durability::BestEffort(why) | Durability::DurableIf(why), Shape::Cluster(_)) => {
                    return Ok(Durability::BestEffort(format!("{}: {why}", server.name)));
                }
            }
        }
        if worst != Durability::Durable {
            return Ok(worst);
        }
        match &self.shape {
            Shape::One(links) if links.is_watched() => Ok(Durability::BestEffort(
                "Sentinels watch it, and a fail-over to a replica forgets what had not reached it".into(),
            )),
            Shape::One(_) => Ok(Durability::Durable),
            Shape::Cluster(cluster) => {
                // A replica that is away for a moment is listed all the same.
                let mut command = redis::cmd("CLUSTER");
                command.arg("NODES");
                let nodes: String = cluster.any(call).await?.ask(call, &command).await?;
                let is_replica = |line: &&str| line.split(' ').nth(2).is_some_and(|flags| flags.contains("slave"));
                match nodes.lines().filter(is_replica).count() {
                    0 => Ok(Durability::Durable),
                    replicas => Ok(Durability::BestEffort(format!(
                        "the cluster has {replicas} replicas, and a fail-over to one of them forgets what had not reached it"
                    ))),
                }
            }
        }
    }

    fn told(&self, call: Call, failed: &Failed) -> StoreError {
        failed.told(&self.name, call)
    }
}

/// Who does not say is a server by itself: in a cluster the first call would be sent on.
pub(crate) async fn is_cluster(links: &Links, call: Call) -> Result<bool, StoreError> {
    let mut command = redis::cmd("INFO");
    command.arg("cluster");
    match links.send(&command).await.and_then(read::<String>) {
        Ok(said) => Ok(said.lines().any(|line| line.trim() == "cluster_enabled:1")),
        Err(failed) if failed.error.code() == Some("NOPERM") => Ok(false),
        Err(failed) => Err(failed.told(&links.name, call)),
    }
}
