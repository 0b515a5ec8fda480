//! What a sender brings, checked and made into a task.

use hapax_core::{
    Fingerprint, Id, Millis, Moment, Outcome, WallMillis,
    identity::Tenant,
    task::{Class, Deadline, Idempotency, Order, Payload, Peer, TaskId},
};

use crate::{QueueError, QueueSettings, Refused};

const MOST_NAME: usize = 256;
const MOST_INTENT: usize = 16 * 1024;

/// One task to send.
#[derive(Clone, Debug)]
#[must_use]
pub struct NewTask {
    pub id: TaskId,
    pub sender: Peer,
    pub recipient: Peer,
    pub kind: String,
    pub intent: String,
    pub payload: Payload,
    pub parent: Option<TaskId>,
    /// Wall time in milliseconds since 1970.
    pub deadline: Option<WallMillis>,
    pub idempotency: Option<Idempotency>,
}

impl NewTask {
    /// A task under an id of the sender's choice. Without more it is unsafe to run twice, and will not be.
    pub fn new(id: TaskId, sender: &str, recipient: &str, kind: &str, payload: Payload) -> Self {
        let peer = |key: &str| Peer { key: key.into(), display: key.into() };
        Self {
            id,
            sender: peer(sender),
            recipient: peer(recipient),
            kind: kind.to_owned(),
            intent: String::new(),
            payload,
            parent: None,
            deadline: None,
            idempotency: None,
        }
    }

    /// Running it twice does no harm, and under this key it needs to be done once only.
    pub fn idempotent(mut self, key: &str) -> Self {
        self.idempotency = Some(Idempotency { class: Class::Idempotent, key: key.into() });
        self
    }

    pub(crate) fn checked(
        self,
        tenant: &Tenant,
        settings: &QueueSettings,
        moment: Moment,
        cache: impl FnOnce(&Self) -> Result<Id, QueueError>,
    ) -> Result<Order, QueueError> {
        name("sender", &self.sender.key)?;
        name("recipient", &self.recipient.key)?;
        for display in [&self.sender.display, &self.recipient.display] {
            short("display", display, MOST_NAME)?;
        }
        name("kind", &self.kind)?;
        short("intent", &self.intent, MOST_INTENT)?;
        short_bytes("payload", self.payload.bytes.len(), settings.max_payload)?;
        if let Some(idempotency) = &self.idempotency {
            name("idempotency key", &idempotency.key)?;
        }
        if self.payload.json {
            serde_json::from_slice::<serde::de::IgnoredAny>(&self.payload.bytes)
                .map_err(|error| Refused::NotJson(error.to_string()))?;
        }
        let print = match self.payload.json {
            true => Fingerprint::of_json_bytes(&self.payload.bytes),
            false => Fingerprint::of_bytes(&self.payload.bytes),
        };
        let idempotent = self.idempotency.as_ref().is_some_and(|known| known.class == Class::Idempotent);
        let cache = if idempotent { Some(cache(&self)?) } else { None };
        let deadline = self.deadline.map(|wall| Deadline {
            wall,
            after: Millis(wall.0.saturating_sub(moment.wall.0)),
            expires: settings.expire_overdue,
        });
        Ok(Order { digest: self.digest(tenant), cache, print, deadline, ..self.bare() })
    }

    fn bare(self) -> Order {
        Order {
            id: self.id,
            sender: self.sender,
            recipient: self.recipient,
            kind: self.kind.into(),
            intent: self.intent.into(),
            payload: self.payload,
            print: Fingerprint::of_bytes(b""),
            parent: self.parent,
            deadline: None,
            idempotency: self.idempotency,
            cache: None,
            digest: [0; 32],
        }
    }

    /// Names everything that makes it this task. What a peer is called is not among it: equality is by key.
    fn digest(&self, tenant: &Tenant) -> [u8; 32] {
        let idempotency =
            self.idempotency.as_ref().map_or(String::new(), |known| format!("{}:{}", known.class.name(), known.key));
        let parent = self.parent.map(|parent| parent.to_string()).unwrap_or_default();
        let deadline = self.deadline.map(|deadline| deadline.0.to_string()).unwrap_or_default();
        Id::derived(
            "hapax.a2a.content.v1",
            &[
                tenant.as_str().as_bytes(),
                &self.id.0,
                self.sender.key.as_bytes(),
                self.recipient.key.as_bytes(),
                self.kind.as_bytes(),
                self.intent.as_bytes(),
                &[self.payload.json.into()],
                &self.payload.bytes,
                parent.as_bytes(),
                deadline.as_bytes(),
                idempotency.as_bytes(),
            ],
        )
        .0
    }
}

/// What became of a send. Said again, it is answered as the first time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    Queued {
        again: bool,
    },
    /// The cache holds its result.
    Replayed {
        outcome: Outcome,
        again: bool,
    },
    /// An equal task is under way; this one ends as that one ends.
    Joined {
        leader: TaskId,
        again: bool,
    },
    /// It was done long ago; only its id is known.
    AlreadyResolved,
}

pub(crate) fn name(what: &'static str, text: &str) -> Result<(), QueueError> {
    if text.trim().is_empty() {
        return Err(Refused::Blank(what).into());
    }
    if text.chars().any(char::is_control) {
        return Err(Refused::BadCharacter(what).into());
    }
    short(what, text, MOST_NAME)
}

pub(crate) fn short(what: &'static str, text: &str, most: usize) -> Result<(), QueueError> {
    short_bytes(what, text.len(), most)
}

pub(crate) fn short_bytes(what: &'static str, length: usize, most: usize) -> Result<(), QueueError> {
    if length > most { Err(Refused::TooLong { what, length, most }.into()) } else { Ok(()) }
}
