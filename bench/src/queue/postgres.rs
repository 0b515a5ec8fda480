//! The same cycle on PostgreSQL: one table, `FOR UPDATE SKIP LOCKED`, prepared statements, a connection per worker.

use tokio_postgres::{Client, NoTls, Statement};

use super::{Cycle, Cycles, PAYLOAD, WORKERS};

pub(super) struct SkipLocked {
    workers: Vec<Worker>,
}

struct Worker {
    client: Client,
    send: Statement,
    lease: Statement,
    post: Statement,
    receive: Statement,
    ack: Statement,
}

const TABLE: &str = "
    CREATE TABLE tasks (
        id bigserial PRIMARY KEY, sender text NOT NULL, state smallint NOT NULL DEFAULT 0,
        payload bytea NOT NULL, result bytea);
    CREATE INDEX waiting ON tasks (id) WHERE state = 0;
    CREATE INDEX finished ON tasks (sender, id) WHERE state = 2;";

impl SkipLocked {
    pub(super) async fn open(url: &str) -> Self {
        match Self::try_open(url).await {
            Ok(opened) => opened,
            Err(error) => panic!("{error}"),
        }
    }

    async fn try_open(url: &str) -> Result<Self, tokio_postgres::Error> {
        let mut workers = Vec::with_capacity(WORKERS);
        for number in 0..WORKERS {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            if number == 0 {
                client.batch_execute(TABLE).await?;
            }
            workers.push(Worker {
                send: client.prepare("INSERT INTO tasks (sender, payload) VALUES ($1, $2)").await?,
                lease: client
                    .prepare(
                        "UPDATE tasks SET state = 1 WHERE id = (SELECT id FROM tasks WHERE state = 0 ORDER BY id \
                         LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, payload",
                    )
                    .await?,
                post: client.prepare("UPDATE tasks SET state = 2, result = $2 WHERE id = $1 AND state = 1").await?,
                receive: client
                    .prepare("SELECT id, result FROM tasks WHERE sender = $1 AND state = 2 ORDER BY id LIMIT 8")
                    .await?,
                ack: client.prepare("DELETE FROM tasks WHERE id = $1").await?,
                client,
            });
        }
        Ok(Self { workers })
    }

    async fn once(&self, number: usize) -> Result<(), tokio_postgres::Error> {
        let Some(worker) = self.workers.get(number) else { return Ok(()) };
        let sender = format!("sender {number}");
        worker.client.execute(&worker.send, &[&sender, &vec![7_u8; PAYLOAD]]).await?;
        if let Some(leased) = worker.client.query_opt(&worker.lease, &[]).await? {
            let id: i64 = leased.get(0);
            worker.client.execute(&worker.post, &[&id, &vec![8_u8; PAYLOAD]]).await?;
        }
        for row in worker.client.query(&worker.receive, &[&sender]).await? {
            let id: i64 = row.get(0);
            worker.client.execute(&worker.ack, &[&id]).await?;
        }
        Ok(())
    }
}

impl Cycles for SkipLocked {
    fn cycle(&self, worker: usize) -> Cycle<'_> {
        Box::pin(async move {
            if let Err(error) = self.once(worker).await {
                panic!("{error}");
            }
        })
    }
}
