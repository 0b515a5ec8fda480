use bytes::Bytes;
use hapax_core::{Id, Version};

use crate::{BodyId, Envelope, Store, StoreError, Swap};

/// A write on its way.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Swap { id: Id, expected: Version, next: Option<Envelope> },
    PutBody { owner: Id, body: BodyId, bytes: Bytes },
    DropBody { body: BodyId },
}

impl Held {
    /// Whether it landed.
    pub(super) async fn apply(self, store: &dyn Store) -> Result<bool, StoreError> {
        match self {
            Self::Swap { id, expected, next } => match store.swap(&id, expected, next).await? {
                Swap::Swapped { .. } => Ok(true),
                Swap::Conflict(_) => Ok(false),
            },
            Self::PutBody { owner, body, bytes } => store.put_body(&owner, body, bytes).await.map(|()| true),
            Self::DropBody { body } => store.drop_body(body).await.map(|()| true),
        }
    }
}
