use hapax_core::{Millis, Version};

use super::{
    check::{Bench, Outcome},
    sample::{id, ids, numbered},
    step::{put, refused, remove},
};

pub(super) async fn has_a_version_of_its_own(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let written = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    let removed = remove(store.as_ref(), &id(1), written).await?;
    ensure!(removed > written, "removed as {removed}, written as {written}");
    let held = store.get(&id(1)).await?;
    ensure!(held.record.is_none(), "a removed record reads as {:?}", held.record);
    ensure!(held.version == removed, "removed as {removed}, and its absence reads as {}", held.version);
    put(store.as_ref(), &id(1), removed, numbered(2)).await?;
    Ok(())
}

/// A begin times out with its write under way; the same nonce gets its ticket and releases; then the old write lands in
/// the empty slot, and nobody owns what it says.
pub(super) async fn a_late_write_conflicts(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let begun = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    let started = put(store.as_ref(), &id(1), begun, numbered(2)).await?;
    let released = remove(store.as_ref(), &id(1), started).await?;
    for late in [Version::NEVER, begun, started] {
        let held = refused(store.as_ref(), &id(1), late, Some(numbered(9))).await?;
        ensure!(held.version == released, "a late write meets version {}, not the removal's {released}", held.version);
    }
    Ok(())
}

/// A begin whose fate stays unknown is disowned by moving the version of its absence.
pub(super) async fn of_what_is_absent_moves_the_version(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let first = remove(store.as_ref(), &id(1), Version::NEVER).await?;
    ensure!(first > Version::NEVER, "the removal of what never was has the version of no write");
    refused(store.as_ref(), &id(1), Version::NEVER, Some(numbered(1))).await?;
    let second = remove(store.as_ref(), &id(1), first).await?;
    ensure!(second > first, "a second removal has version {second} after {first}");
    refused(store.as_ref(), &id(1), first, Some(numbered(1))).await?;
    let held = store.get(&id(1)).await?;
    ensure!(held.version == second && held.record.is_none(), "after two removals it reads {held:?}");
    Ok(())
}

pub(super) async fn its_version_is_kept_for_the_late_write_window(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let removed = remove(store.as_ref(), &id(0), Version::NEVER).await?;
    bench.advance(Millis(bench.0.late_write_window().0.saturating_sub(1))).await?;
    for other in ids(500).iter().skip(1) {
        put(store.as_ref(), other, Version::NEVER, numbered(1)).await?;
    }
    let held = refused(store.as_ref(), &id(0), Version::NEVER, Some(numbered(9))).await?;
    ensure!(held.version == removed, "at the end of the window the removal reads {}, not {removed}", held.version);
    Ok(())
}
