//! The same cycle on Redis Streams: a stream of tasks with a consumer group, a stream of results for each sender.

use redis::aio::MultiplexedConnection;

use super::{Cycle, Cycles, PAYLOAD, WORKERS};

pub(super) struct Streams {
    /// One connection each: a blocking read holds up whatever shares its connection.
    connections: Vec<MultiplexedConnection>,
}

type Entry = (String, Vec<(String, Vec<u8>)>);
type Entries = Vec<(String, Vec<Entry>)>;

impl Streams {
    pub(super) async fn open(url: &str) -> Self {
        match Self::try_open(url).await {
            Ok(streams) => streams,
            Err(error) => panic!("{error}"),
        }
    }

    async fn try_open(url: &str) -> redis::RedisResult<Self> {
        let client = redis::Client::open(url)?;
        let mut connections = Vec::with_capacity(WORKERS);
        for _ in 0..WORKERS {
            connections.push(client.get_multiplexed_async_connection().await?);
        }
        let mut group = redis::cmd("XGROUP");
        group.arg("CREATE").arg("tasks").arg("workers").arg("0").arg("MKSTREAM");
        if let Some(first) = connections.first_mut() {
            let _made: String = group.query_async(first).await?;
        }
        Ok(Self { connections })
    }

    async fn once(&self, worker: usize) -> redis::RedisResult<()> {
        let Some(connection) = self.connections.get(worker) else { return Ok(()) };
        let mut connection = connection.clone();
        let sender = format!("results {worker}");
        let mut send = redis::cmd("XADD");
        send.arg("tasks").arg("*").arg("sender").arg(&sender).arg("payload").arg(vec![7_u8; PAYLOAD]);
        let _id: String = send.query_async(&mut connection).await?;
        let mut lease = redis::cmd("XREADGROUP");
        lease.arg("GROUP").arg("workers").arg(format!("worker {worker}")).arg("COUNT").arg(1);
        lease.arg("STREAMS").arg("tasks").arg(">");
        let leased: Option<Entries> = lease.query_async(&mut connection).await?;
        for (_, entries) in leased.into_iter().flatten() {
            for (id, fields) in entries {
                let to = fields.iter().find(|(name, _)| name == "sender").map(|(_, to)| to.clone()).unwrap_or_default();
                // The result, the acknowledgement and the removal at once, as one would do it.
                let mut post = redis::pipe();
                post.atomic();
                post.cmd("XADD").arg(to).arg("*").arg("task").arg(&id).arg("result").arg(vec![8_u8; PAYLOAD]).ignore();
                post.cmd("XACK").arg("tasks").arg("workers").arg(&id).ignore();
                post.cmd("XDEL").arg("tasks").arg(&id).ignore();
                let () = post.query_async(&mut connection).await?;
            }
        }
        // A result that another worker has not posted yet is received in the next round.
        let mut receive = redis::cmd("XRANGE");
        receive.arg(&sender).arg("-").arg("+").arg("COUNT").arg(8);
        let results: Vec<Entry> = receive.query_async(&mut connection).await?;
        for (id, _) in results {
            let mut ack = redis::cmd("XDEL");
            ack.arg(&sender).arg(id);
            let _removed: u64 = ack.query_async(&mut connection).await?;
        }
        Ok(())
    }
}

impl Cycles for Streams {
    fn cycle(&self, worker: usize) -> Cycle<'_> {
        Box::pin(async move {
            if let Err(error) = self.once(worker).await {
                panic!("{error}");
            }
        })
    }
}
