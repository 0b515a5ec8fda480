//! What a pair leaves in a store, for peers that are to write the same bytes.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::Outcome;
use hapax_engine::{Begun, Engine};
use hapax_store::{MemoryStore, Store};

/// The bytes of a begun and of a completed record, as the engine stores them.
pub(crate) async fn stored_sizes() -> [Bytes; 2] {
    let store = Arc::new(MemoryStore::default());
    let mut sizes = [Bytes::new(), Bytes::new()];
    let Ok(engine) = Engine::builder(Arc::clone(&store) as Arc<dyn Store>).build() else { return sizes };
    let begun = engine.surface("bench").tenant("acme").key(1).begin().await;
    let Ok(Begun::Execute(ticket)) = begun else { return sizes };
    for (at, size) in sizes.iter_mut().enumerate() {
        if at == 1 {
            let _done = ticket.complete(&engine, Outcome::success(body())).await;
        }
        if let Ok(snapshot) = store.get(&ticket.id()).await {
            *size = snapshot.record.map(|envelope| envelope.payload).unwrap_or_default();
        }
    }
    sizes
}

/// An outcome of 1 KiB.
pub(crate) fn body() -> Bytes {
    // Incompressible, so that nobody gains by squeezing it.
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    });
    bytes.flatten().take(1024).collect()
}
