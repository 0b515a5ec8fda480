use hapax_core::{Stamp, Version};

use super::{
    check::{Bench, Outcome},
    sample::{id, numbered},
    step::{put, refused, remove, same, write},
};

pub(super) async fn a_first_write_expects_never(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let empty = store.get(&id(1)).await?;
    ensure!(empty.record.is_none(), "an id never written holds {:?}", empty.record);
    ensure!(empty.version == Version::NEVER, "an id never written has version {}", empty.version);
    ensure!(empty.stamp == Stamp(0), "an id never written has the stamp {:?}", empty.stamp);
    let version = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    ensure!(version > Version::NEVER, "the first write has the version of no write");
    Ok(())
}

pub(super) async fn what_was_written_is_read(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut expected = Version::NEVER;
    for number in 0..5 {
        let (version, stamp) = write(store.as_ref(), &id(1), expected, Some(numbered(number))).await?;
        let held = store.get(&id(1)).await?;
        ensure!(held.record == Some(numbered(number)), "reads {:?} after write {number}", held.record);
        ensure!(held.version == version, "reads version {} after a write that answered {version}", held.version);
        ensure!(held.stamp == stamp, "reads stamp {:?} after a write that answered {stamp:?}", held.stamp);
        expected = version;
    }
    Ok(())
}

pub(super) async fn a_wrong_version_changes_nothing(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let version = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    let before = store.get(&id(1)).await?;
    for wrong in [Version::NEVER, Version(version.0 + 1), Version(version.0.wrapping_sub(1)), Version(u64::MAX)] {
        refused(store.as_ref(), &id(1), wrong, Some(numbered(2))).await?;
        refused(store.as_ref(), &id(1), wrong, None).await?;
        same(&store.get(&id(1)).await?, &before, "after a refused swap")?;
    }
    Ok(())
}

pub(super) async fn a_conflict_returns_the_current_snapshot(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let wrong = Version(u64::MAX);
    let never = refused(store.as_ref(), &id(1), wrong, Some(numbered(9))).await?;
    same(&never, &store.get(&id(1)).await?, "a conflict on an id never written")?;
    ensure!(never.version == Version::NEVER && never.record.is_none(), "a refused first write left {never:?}");

    let version = put(store.as_ref(), &id(1), Version::NEVER, numbered(1)).await?;
    let held = refused(store.as_ref(), &id(1), Version::NEVER, Some(numbered(9))).await?;
    same(&held, &store.get(&id(1)).await?, "a conflict on a record")?;
    ensure!(held.version == version && held.record == Some(numbered(1)), "a conflict on a record shows {held:?}");

    let gone = remove(store.as_ref(), &id(1), version).await?;
    let held = refused(store.as_ref(), &id(1), version, Some(numbered(9))).await?;
    same(&held, &store.get(&id(1)).await?, "a conflict on a removed record")?;
    ensure!(held.version == gone && held.record.is_none(), "a conflict on a removed record shows {held:?}");
    ensure!(held.now >= held.stamp, "a conflict's now {:?} is before its stamp {:?}", held.now, held.stamp);
    Ok(())
}

pub(super) async fn a_version_is_good_for_one_write(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    let mut old = vec![Version::NEVER];
    let mut version = put(store.as_ref(), &id(1), Version::NEVER, numbered(0)).await?;
    for number in 1..20 {
        for expected in &old {
            refused(store.as_ref(), &id(1), *expected, Some(numbered(99))).await?;
        }
        old.push(version);
        version = put(store.as_ref(), &id(1), version, numbered(number)).await?;
    }
    Ok(())
}

pub(super) async fn one_id_does_not_touch_another(bench: Bench) -> Outcome {
    let store = bench.open().await?;
    // Two that agree in all but the last byte, for stores that shorten ids.
    let first = id(1);
    let mut second = first;
    second.0[31] ^= 1;
    put(store.as_ref(), &first, Version::NEVER, numbered(1)).await?;
    let before = store.get(&first).await?;
    let version = put(store.as_ref(), &second, Version::NEVER, numbered(2)).await?;
    same(&store.get(&first).await?, &before, "after a write of a similar id")?;
    remove(store.as_ref(), &second, version).await?;
    same(&store.get(&first).await?, &before, "after the removal of a similar id")
}
