//! When all is quiet: nothing is left that nobody owns, and every key can be used.

use std::sync::Arc;

use hapax_core::{
    State,
    command::{Posture, Release, Resolution, Resolve},
    policy::OnLapse,
};
use hapax_engine::Begun;

use super::records;
use crate::world::{
    World,
    history::Told,
    process::Process,
    scenario::{KEYS, SURFACES, TENANTS},
    told,
};

pub(in crate::world) async fn at_rest(world: &World) {
    let process = world.process(0);
    leftovers(world);
    // A record written while the clock was far ahead keeps its windows; go where the last of them is over.
    let furthest = world.truth.all().into_iter().filter_map(|(_, record)| record).map(|record| furthest(&record)).max();
    let ahead = furthest.unwrap_or(0).saturating_sub(world.clock.stamp().0);
    world.clock.jump(i64::try_from(ahead).unwrap_or(0).saturating_add(1_000_000));
    // What a process has heard of the store's time it hears anew with its next call.
    let (mut passed, mut passes, mut further) = (0, 0, 1_000_000);
    while passes < 2 {
        passed = world.clock.stamp().0;
        match process.engine.sweep().await {
            // So does the claim of a process that has gone, and it is no operation: go where that is over, too.
            Ok(swept) if swept.elsewhere && further < FURTHEST_AHEAD => {
                world.clock.jump(further);
                further *= 2;
            }
            Ok(_) => passes += 1,
            Err(error) => {
                world.history.violation(format!("the sweeper fails on a calm store: {error}"));
                passes += 1;
            }
        }
    }
    swept(world, passed);
    resolve_all(world, &process).await;
    let processes = world.processes.borrow().clone();
    for process in processes {
        usable(world, &process).await;
        if process.engine.waiting() > 0 {
            world.history.violation(format!("7: {} still wait in {}", process.engine.waiting(), process.name));
        }
    }
}

/// Further ahead than any clock here jumps, in milliseconds.
const FURTHEST_AHEAD: i64 = 1 << 50;

/// The latest moment that the record names.
fn furthest(record: &hapax_core::Record) -> u64 {
    let at = match &record.state {
        State::Pending(pending) => records::at(pending.lease.from).saturating_add(pending.lease.length.0),
        State::Open(open) => records::at(open.since),
        State::InDoubt(doubt) => records::at(doubt.since).max(doubt.next_probe.map_or(0, |at| at.0)),
        State::Committed(done) | State::Rejected(done) => records::at(done.decided),
        State::Tombstone(stone) => records::at(stone.decided),
    };
    at.max(records::at(record.attempt.begun))
}

/// A begin that was answered by anything but a ticket, or not at all, leaves nothing behind.
fn leftovers(world: &World) {
    for (id, record) in world.truth.all() {
        let Some(record) = record else { continue };
        let live = matches!(record.state, State::Pending(_) | State::InDoubt(_));
        if live && !world.history.may_live(record.attempt.nonce.0) {
            let state = record.state.name();
            world.history.violation(format!("11: {id:?} is left {state:?} by a begin that nobody was told of"));
        }
    }
}

/// After the sweeper only what lives, or is kept for ever, is left.
fn swept(world: &World, now: u64) {
    for (id, record) in world.truth.all() {
        let Some(record) = record else { continue };
        let stays = match &record.state {
            State::Pending(_) => record.rules.on_lapse == OnLapse::Stale,
            State::InDoubt(_) => true,
            State::Open(_) | State::Committed(_) | State::Rejected(_) | State::Tombstone(_) => {
                !records::gone(&record, now)
            }
        };
        if !stays {
            let state = record.state.name();
            world.history.violation(format!("13: {id:?} is {state:?} and over, and the sweeper has left it"));
        }
    }
}

async fn resolve_all(world: &World, process: &Arc<Process>) {
    for (id, record) in world.truth.all() {
        let Some(record) = record else { continue };
        if !matches!(record.state, State::Pending(_) | State::InDoubt(_)) {
            continue;
        }
        let version = match process.engine.version(&id).await {
            Ok(version) => version,
            Err(error) => {
                world.history.violation(format!("a calm store does not answer: {error}"));
                continue;
            }
        };
        let resolution = Resolution::Open(Posture::OperatorAccepted);
        let resolve = Resolve { version, resolution, actor: "operator".into(), reason: "at the end".into() };
        match process.engine.resolve(&id, resolve).await {
            Ok(stepped) if stepped.is_done() => {}
            other => world.history.violation(format!("3: {id:?} cannot be resolved: {other:?}")),
        }
    }
}

async fn usable(world: &World, process: &Process) {
    for surface in &SURFACES[..world.scenario.policies.len()] {
        for tenant in &TENANTS[..world.scenario.tenants] {
            for key in &KEYS[..world.scenario.keys] {
                let begun = process.engine.surface(surface).tenant(*tenant).key(key).begin().await;
                let told = match &begun {
                    Ok(begun) => told::begun(begun),
                    Err(error) => Told::Error(error.to_string()),
                };
                let fine = match &told {
                    Told::Execute(_) | Told::Replay { .. } | Told::WindowClosed => true,
                    // Answers that are kept for ever, and tombstones, count against the quota.
                    Told::Refused(reason) => reason == "Quota",
                    Told::Ran { .. }
                    | Told::RanInVain
                    | Told::JoinedFailure(_)
                    | Told::InFlight
                    | Told::InDoubt
                    | Told::Mismatch
                    | Told::Superseded
                    | Told::Error(_)
                    | Told::Cancelled
                    | Told::Crashed => false,
                };
                if !fine {
                    world
                        .history
                        .violation(format!("11: {surface}/{tenant}/{key} cannot be used at the end: {told:?}"));
                }
                if let Ok(Begun::Execute(ticket)) = begun {
                    let released = ticket.release(&process.engine, Release::NoEffect).await;
                    if !matches!(&released, Ok(stepped) if stepped.is_done()) {
                        world.history.violation(format!("a release on a calm store came to {released:?}"));
                    }
                }
            }
        }
    }
}
