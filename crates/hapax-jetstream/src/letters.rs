use async_nats::{
    HeaderMap,
    jetstream::{self, message::PublishMessage},
};
use hapax_engine::{DeadLetter, DeadLetters};
use hapax_store::BoxFuture;

/// Dead letters on a subject that a stream keeps. Headers say where each came from and why.
#[derive(Clone, Debug)]
pub struct DeadLetterSubject {
    bus: jetstream::Context,
    subject: String,
}

impl DeadLetterSubject {
    /// The subject has to belong to a stream: only what a stream has stored is safe.
    #[must_use]
    pub fn new(bus: jetstream::Context, subject: impl Into<String>) -> Self {
        Self { bus, subject: subject.into() }
    }
}

impl DeadLetters for DeadLetterSubject {
    fn put(&self, letter: DeadLetter) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let DeadLetter { consumer, message, why } = letter;
            let mut headers = HeaderMap::new();
            headers.insert("Hapax-Stream", message.stream.as_str());
            headers.insert("Hapax-Sequence", message.sequence.to_string());
            headers.insert("Hapax-Delivery", message.delivery.to_string());
            headers.insert("Hapax-Consumer", one_line(&consumer));
            headers.insert("Hapax-Why", one_line(&why.to_string()));
            let letter = PublishMessage::build().payload(message.payload).headers(headers);
            let said = |error: &dyn std::fmt::Display| {
                format!("no stream took the dead letter on {}: {error}; make one that has this subject", self.subject)
            };
            let sent = self.bus.send_publish(self.subject.clone(), letter).await.map_err(|error| said(&error))?;
            sent.await.map(drop).map_err(|error| said(&error))
        })
    }
}

/// A header cannot hold a line break, and whoever wrote the reason may not know.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
