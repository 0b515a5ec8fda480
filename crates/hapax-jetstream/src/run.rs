//! Pulls as many messages as there are free hands.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use async_nats::jetstream;
use futures_core::Stream;
use hapax_engine::{HandlerError, Message};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

use crate::guarded::Guarded;

/// How long one request to the server stays open.
const OPEN: Duration = Duration::from_secs(2);
/// While it does not answer.
const PAUSE: Duration = Duration::from_millis(250);

impl Guarded {
    /// Handles messages, at most so many at once, until `end` resolves; then those in hand are handled to their end, and those
    /// still on their way are given back.
    pub async fn run<F, Fut>(&self, at_once: usize, handler: F, end: impl Future<Output = ()>)
    where
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let (ending, ended) = watch::channel(false);
        let pulling = self.pull(at_once.max(1), Arc::new(handler), ended);
        let mut pulling = std::pin::pin!(pulling);
        tokio::select! {
            () = end => {}
            () = pulling.as_mut() => return,
        }
        ending.send_replace(true);
        pulling.await;
    }

    async fn pull<F, Fut>(&self, at_once: usize, handler: Arc<F>, ended: watch::Receiver<bool>)
    where
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let hands = Arc::new(Semaphore::new(at_once));
        let mut handling = JoinSet::new();
        while !*ended.borrow() {
            // Those that are done make room.
            while handling.try_join_next().is_some() {}
            let Ok(first) = Arc::clone(&hands).acquire_owned().await else { break };
            let free = hands.available_permits() + 1;
            let mut first = Some(first);
            let Ok(mut batch) = self.consumer.batch().max_messages(free).expires(OPEN).messages().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            while let Some(delivery) = next(&mut batch).await {
                let Ok(delivery) = delivery else {
                    tokio::time::sleep(PAUSE).await;
                    break;
                };
                let hand = match first.take() {
                    Some(hand) => Ok(hand),
                    None => Arc::clone(&hands).try_acquire_owned(),
                };
                let (false, Ok(hand)) = (*ended.borrow(), hand) else {
                    self.give_back(&delivery).await;
                    continue;
                };
                let (guarded, handler) = (self.clone(), Arc::clone(&handler));
                handling.spawn(async move {
                    let _said = guarded.handle(delivery, move |message| handler(message)).await;
                    drop(hand);
                });
            }
        }
        while handling.join_next().await.is_some() {}
    }
}

async fn next(batch: &mut jetstream::consumer::pull::Batch) -> Option<Result<jetstream::Message, async_nats::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *batch).poll_next(context)).await
}
