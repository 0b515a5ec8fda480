use std::sync::Arc;

use hapax_core::Version;
use hapax_store::{Store, StoreError, Swap};

use super::{Open, eventually};
use crate::{
    Proxy,
    sample::{id, numbered, put},
};

/// A begin whose request is under way while its caller has long been told that nobody knows.
async fn held_begin(open: Open<'_>, port: u16) -> (Proxy, Arc<dyn Store>) {
    let proxy = Proxy::before(port).await;
    let (through, direct) = (open(proxy.port()).await, open(port).await);
    // Connections are made and statements known before anything is held up.
    for number in 100..106 {
        put(through.as_ref(), &id(number), Version::NEVER, Some(numbered(number))).await;
    }
    proxy.hold();
    let fate = through.swap(&id(1), Version::NEVER, Some(numbered(1))).await;
    assert!(matches!(fate, Err(StoreError::Unknown { .. })), "a write without an answer is unknown: {fate:?}");
    (proxy, direct)
}

async fn lands(proxy: &Proxy) {
    proxy.let_go();
    eventually("the late request reaches the server", async || proxy.late() > 0).await;
}

/// C2: a begin times out with its write in flight; the same caller gets its ticket by another way and releases; the old
/// write reaches the empty slot, and nobody would own what it says. Absence has a version, so it conflicts.
pub async fn a_begin_that_lands_after_its_release_conflicts(open: Open<'_>, port: u16) {
    let (proxy, direct) = held_begin(open, port).await;
    let (begun, _) = put(direct.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await;
    let (released, _) = put(direct.as_ref(), &id(1), begun, None).await;
    lands(&proxy).await;
    let held = direct.get(&id(1)).await.unwrap();
    assert_eq!((held.version, held.record), (released, None), "the late write must come to nothing");
}

/// C3: the engine reads *absent* and calls the unknown begin settled; then the write lands. Disowning is a write, so the
/// late one conflicts.
pub async fn a_begin_that_lands_after_it_was_disowned_conflicts(open: Open<'_>, port: u16) {
    let (proxy, direct) = held_begin(open, port).await;
    assert_eq!(direct.get(&id(1)).await.unwrap().version, Version::NEVER, "it has not landed yet");
    let (disowned, _) = put(direct.as_ref(), &id(1), Version::NEVER, None).await;
    lands(&proxy).await;
    let held = direct.get(&id(1)).await.unwrap();
    assert_eq!((held.version, held.record), (disowned, None), "the late write must come to nothing");
    let next = direct.swap(&id(1), disowned, Some(numbered(2))).await.unwrap();
    assert!(matches!(next, Swap::Swapped { .. }), "the key is free: {next:?}");
}
