use std::{path::Path, sync::Arc, time::Duration};

use hapax_core::{
    identity::Tenant,
    task::{Payload, TaskId},
};
use hapax_engine::Engine;
use hapax_ledger::Ledger;
use hapax_queue::{LeaseRequest, NewTask, Queue, QueueSettings, TaskResult};

use super::{Cycle, Cycles, PAYLOAD};

pub(super) struct Ours {
    pub(super) queue: Queue,
    pub(super) tenant: Tenant,
}

impl Ours {
    pub(super) async fn open(path: &Path) -> Self {
        match Self::try_open(path).await {
            Ok(ours) => ours,
            Err(error) => panic!("{error}"),
        }
    }

    async fn try_open(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let engine = Engine::builder(Arc::new(Ledger::open(path)?)).build()?;
        // One tenant has all of it here.
        let settings = QueueSettings { max_tasks_per_tenant: Some(10_000_000), ..QueueSettings::default() };
        let queue = Queue::open(&engine, settings).await?;
        Ok(Self { queue, tenant: Tenant::new("bench")? })
    }

    pub(super) fn task(&self, sender: &str) -> Result<NewTask, hapax_engine::EngineError> {
        let id = TaskId::random(self.queue.engine().nonce()?.0);
        let payload = Payload { json: false, bytes: vec![7; PAYLOAD].into() };
        Ok(NewTask::new(id, sender, "worker", "bench", payload))
    }

    async fn once(&self, worker: usize) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let sender = format!("sender {worker}");
        let _queued = self.queue.send(&self.tenant, self.task(&sender)?).await?;
        let asked = LeaseRequest { wait: Duration::from_secs(10), ..LeaseRequest::of("worker", "bench") };
        for handed in self.queue.lease(&self.tenant, &asked).await? {
            let result = TaskResult::completed(false, vec![8; PAYLOAD]);
            let _posted = self.queue.post(&self.tenant, handed.order.id, handed.token, result).await?;
        }
        for delivery in self.queue.results(&self.tenant, &sender, 8, Duration::from_secs(10)).await? {
            self.queue.ack(&self.tenant, delivery.order.id).await?;
        }
        Ok(())
    }
}

impl Cycles for Ours {
    fn cycle(&self, worker: usize) -> Cycle<'_> {
        Box::pin(async move {
            if let Err(error) = self.once(worker).await {
                panic!("{error}");
            }
        })
    }
}
