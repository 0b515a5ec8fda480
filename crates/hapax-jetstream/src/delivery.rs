//! One delivery, between the two vocabularies.

use async_nats::jetstream::{self, AckKind, message::Acker};
use hapax_engine::{InProgress, Message, Settle};
use hapax_store::BoxFuture;

/// What the guard is shown. `None`: this is no delivery of a consumer.
pub(crate) fn message(delivery: &jetstream::Message, intent_header: Option<&str>) -> Option<Message> {
    let info = delivery.info().ok()?;
    let header = |name: &str| delivery.headers.as_ref()?.get(name).map(|value| value.as_str().to_owned());
    Some(Message {
        stream: info.stream.to_owned(),
        sequence: info.stream_sequence,
        intent: intent_header.and_then(header).filter(|intent| !intent.is_empty()),
        payload: delivery.payload.clone(),
        delivery: u32::try_from(info.delivered).unwrap_or(u32::MAX).max(1),
    })
}

pub(crate) const fn acknowledgement(settle: Settle) -> AckKind {
    match settle {
        Settle::Ack => AckKind::Ack,
        Settle::NakAfter(delay) => AckKind::Nak(Some(delay)),
        Settle::Terminate => AckKind::Term,
    }
}

/// Keeps the server from delivering again while a handler runs.
pub(crate) struct StillWorking(pub(crate) Acker);

impl InProgress for StillWorking {
    fn say(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // If it does not arrive, the message comes again and is told to wait.
            let _unsaid = self.0.ack_with(AckKind::Progress).await;
        })
    }
}
